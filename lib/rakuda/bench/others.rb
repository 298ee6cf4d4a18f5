# frozen_string_literal: true

require "json"
require "rakuda/bench/errors"
require "rakuda/bench/programs"

module Rakuda
  module Bench
    # Benchmarks that others bring: a folder with a description, benchmark.json, and a program that runs and prints its
    # times as JSON (docs/reference/benchmarks.md#benchmarks-of-others). Rakuda places it, runs it, computes its
    # figures, and reports it.
    module Others
      DESCRIPTION = "benchmark.json"
      FAMILY = "other"
      # Folders of such folders, besides our own; separated by colons.
      PATH = "RAKUDA_BENCHMARKS"
      NAME = /\A[a-z][a-z0-9-]{1,40}\z/
      SIZES = %w[tiny small large].freeze
      # A size: words for the program, and bytes that it has on disk at the same time.
      SIZE = { "words" => Array, "bytes" => Integer }.freeze

      # What a worker says of a step.
      NUMBERS = %w[bytes start_ns end_ns calls].freeze

      # One of them. `needs` are programs with Debian's packages of them, or addresses of their sources.
      Found = Struct.new(:name, :summary, :folder, :program, :needs, :sizes, keyword_init: true)

      module_function

      # @param path [String, nil] folders of folders
      # @return [Array<Found>]
      # @raise [UsageError] when a description is none
      def all(path = ENV.fetch(PATH, nil))
        folders = [File.join(Programs::ROOT, "iobench/others"), *path.to_s.split(":")]
        found = folders.flat_map { |folder| Dir[File.join(folder, "*", DESCRIPTION)].map { |file| read(File.expand_path(file)) } }
        twice = found.map(&:name).tally.find { |_, count| count > 1 }
        raise UsageError, "two benchmarks are called #{twice.first}: rename one of them" if twice

        found
      end

      # @return [Found]
      def read(file)
        text = JSON.parse(File.read(file))
        raise UsageError, "#{file}: expected an object" unless text.is_a?(Hash)

        folder = File.dirname(file)
        needs = expect(file, text.fetch("needs", {}), Hash, "needs")
        Found.new(name: named(file, text), summary: expect(file, text["summary"], String, "summary"), folder: folder,
                  program: program(file, folder, text), needs: needs, sizes: sizes(file, text))
      rescue JSON::ParserError => e
        raise UsageError, "#{file}: not JSON: #{e.message.lines.first.strip[0, 100]}"
      end

      def named(file, text)
        name = text["name"].to_s
        raise UsageError, "#{file}: name #{name.inspect}: expected small letters, digits and -" unless name.match?(NAME)

        name
      end

      def program(file, folder, text)
        path = File.join(folder, expect(file, text["program"], String, "program"))
        return path if File.executable?(path) && File.file?(path)

        raise UsageError, "#{file}: program #{path} is not there or cannot be executed"
      end

      def sizes(file, text)
        sizes = expect(file, text["sizes"], Hash, "sizes")
        unknown = sizes.keys - SIZES
        raise UsageError, "#{file}: sizes #{unknown.join(", ")}: expected some of #{SIZES.join(", ")}" unless unknown.empty?

        sizes.transform_values do |size|
          SIZE.to_h { |key, kind| [key.to_sym, expect(file, size.is_a?(Hash) ? size[key] : nil, kind, "sizes: #{key}")] }
        end
      end

      def expect(file, value, kind, what)
        return value if value.is_a?(kind)

        raise UsageError, "#{file}: #{what} is #{value.inspect}: expected #{kind == Hash ? "an object" : kind}"
      end

      # @param words [Array<String>] for the program, behind those of the size
      # @return [Hash] the settings of a size with them: results with other words are of other instances
      def own_settings(settings, words) = settings.merge(words: settings.fetch(:words) + words)

      # What the program printed, as steps of a result, and why it is not valid.
      # @param text [String]
      # @return [Array(Hash, Array<String>)]
      # @raise [Failure]
      def printed(name, text)
        printed = JSON.parse(text)
        steps = printed.is_a?(Hash) ? printed["steps"] : nil
        good = steps.is_a?(Hash) && !steps.empty? && steps.values.all? { |outputs| steps?(outputs) }
        return [steps, Array(printed["reasons"]).map(&:to_s)] if good

        raise Failure, "#{name} printed no steps: expected {\"steps\": {NAME: [{#{NUMBERS.map(&:inspect).join(", ")}}]}}"
      rescue JSON::ParserError
        raise Failure, "#{name} printed no JSON: #{text.lines.first.to_s.strip[0, 100].inspect}"
      end

      def steps?(outputs)
        outputs.is_a?(Array) && !outputs.empty? && outputs.all? do |one|
          one.is_a?(Hash) && one.keys.sort == NUMBERS.sort && one.values.all? { |value| value.is_a?(Integer) && value >= 0 } &&
            one["end_ns"] > one["start_ns"]
        end
      end
    end
  end
end
