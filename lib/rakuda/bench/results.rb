# frozen_string_literal: true

require "digest"
require "fileutils"
require "json"
require "rakuda/bench/engines"
require "rakuda/bench/errors"
require "rakuda/bench/machine"
require "securerandom"
require "time"

module Rakuda
  module Bench
    # The folder of results (--out): marked as such, so that nothing of anybody else is written over, and with names
    # that say under which conditions a result was measured. It does not know how.
    module Results
      FAILURE_SCHEMA = "rakuda-bench-failure/1"
      MARKER = ".rakuda-bench-results"
      # The Rakefile of a run, and how it begins.
      RAKEFILE = "bench.rake"
      HEAD = "# Made by `rakudactl bench`"
      # Of a name, without that of the benchmark.
      LABEL_MAX = 80

      module_function

      # Makes the folder.
      # @param out [String] --out
      # @param dir [String] --dir
      # @return [String] its path
      # @raise [UsageError]
      def make(out, dir)
        path = check(out, dir)
        FileUtils.mkdir_p(path)
        File.write(File.join(path, MARKER), "results of rakudactl bench\n")
        path
      rescue SystemCallError => e
        raise UsageError, "--out #{out} cannot be written: #{e.message}"
      end

      # Looks whether results can be written there, and makes nothing: what is measured in hours is not to be lost then.
      # @return [String] the path
      # @raise [UsageError]
      def check(out, dir)
        path = File.expand_path(out)
        if below?(path, dir)
          raise UsageError, "--out #{out} lies in --dir #{dir}, which is removed afterwards: name a folder beside it"
        end
        unless ours?(path)
          raise UsageError, "#{path} is there already and is no folder of results: name another one with --out"
        end
        above = existing(path)
        return path if File.directory?(above) && File.writable?(above)

        raise UsageError, "--out #{out} cannot be written: #{above} is #{File.directory?(above) ? "not writable" : "no folder"}"
      end

      # @return [String] the path, or what of those above it is there
      def existing(path) = File.exist?(path) || path == "/" ? path : existing(File.dirname(path))

      # @return [Boolean] also by way of links
      def below?(path, folder)
        path, folder = [path, folder].map { |one| real(File.expand_path(one)) }
        path == folder || path.start_with?("#{folder.delete_suffix("/")}/")
      end

      # @return [String] the path with links followed as far as it is there
      def real(path)
        return File.realpath(path) if File.exist?(path)

        parent = File.dirname(path)
        parent == path ? path : File.join(real(parent), File.basename(path))
      end

      # Results of earlier versions have no marker.
      def ours?(path)
        return true if !File.directory?(path) || Dir.empty?(path) || File.exist?(File.join(path, MARKER))

        Dir.children(path).all? { |name| result?(File.join(path, name)) }
      end

      def result?(path)
        case File.basename(path)
        when ".rakuda", "instances", /\Afigure-\d+\z/ then File.directory?(path)
        when "Rakefile", RAKEFILE then File.read(path, 300).include?(HEAD)
        when /\.json\z/ then File.file?(path) && File.read(path, 300).match?(/"schema": ?"rakuda-bench/)
        else File.directory?(path) && File.file?("#{path}.json")
        end
      end

      # Options that make other conditions, by family, and of some benchmarks more: how they stand in names of files.
      ENGINES = %i[cache slots scale_bytes scale_time cluster nodes hosts].freeze
      CONDITIONS = { "mpi" => %i[cache seconds cluster hosts], "micro" => %i[cache workers seconds cluster nodes hosts],
                     "other" => %i[workers] }.freeze
      OWN = { "fio" => %i[blocks file_size], "bandwidth" => %i[direct blocks file_size],
              "metadata" => %i[operations] }.freeze
      WORDS = { slots: "j", workers: "w", file_size: "bytes", operations: "operations", seconds: "seconds", scale_bytes: "scale",
                scale_time: "time", hosts: "on-", nodes: "nodes" }.freeze

      # What of the command line makes other conditions, for names of files.
      # @param options [Options]
      # @param entry [Catalogue::Entry, nil] nil for a file in WfFormat
      # @param behind [Array<String>] options behind -- that the benchmark gets
      # @return [String] nothing for what no option has changed
      def label(options, entry = nil, behind = [])
        names = CONDITIONS.fetch(entry&.family, ENGINES) + OWN.fetch(entry&.name, [])
        # Those of a sweep of kernels are no matter of others.
        names -= [:nodes] unless options[:cluster]
        given = names.select { |name| options.given?(name) }.map do |name|
          next name.to_s if options[name] == true

          value = name == :hosts ? File.basename(options[name]) : Array(options[name]).join("+")
          "#{WORDS[name]}#{value}"
        end
        shortened(given + behind.map { |word| word.delete_prefix("--") })
      end

      # Two labels are never the same.
      def shortened(words)
        return "" if words.empty?

        text = words.join("-")
        plain = text.gsub(/[^A-Za-z0-9.,+=_-]/, "_")
        return "-#{plain}" if plain == text && text.size <= LABEL_MAX

        "-#{plain[0, LABEL_MAX]}-#{Digest::SHA256.hexdigest(words.join("\0"))[0, 8]}"
      end

      # @param result [Hash] of an engine
      # @param label [String] see {.label}
      # @return [String] path
      def write(out, result, label)
        path = File.join(out, file(*result.values_at("benchmark", "size"), result.fetch("engine"), label))
        File.write("#{path}.part", "#{JSON.pretty_generate(result)}\n")
        File.rename("#{path}.part", path)
        path
      end

      # What stands in the place of a result that was not given.
      # @param entry [Catalogue::Entry]
      # @param more [Hash] further fields
      # @return [Hash]
      def failure(entry, size, machine, reason, more = {})
        { "schema" => FAILURE_SCHEMA, "id" => SecureRandom.uuid, "benchmark" => entry.name, "family" => entry.family,
          "size" => size, "machine" => machine, **more, "valid" => false, "reasons" => [reason],
          "ended_at" => Time.now.utc.iso8601 }
      end

      # Of a workflow or a job: written beside what its engines have given.
      # @return [Hash]
      def failed(options, entry, reason)
        result = failure(entry, options[:size], Machine.describe(existing(File.expand_path(options[:dir]))), reason)
        path = File.join(make(options[:out], options[:dir]), failed_file(entry.name, options[:size], label(options, entry)))
        File.write(path, "#{JSON.pretty_generate(result)}\n")
        result
      end

      def failed_file(benchmark, size, label) = "#{benchmark}-#{size}#{label}-failed.json"

      # @param engine [Hash] with name and style
      def file(benchmark, size, engine, label)
        "#{benchmark}-#{size}#{label}-#{Engine.file_label(*engine.values_at("name", "style"))}.json"
      end
    end
  end
end
