# frozen_string_literal: true

require "rakuda/bench/catalogue"
require "rakuda/bench/emitters"
require "rakuda/bench/engines"
require "rakuda/bench/mapreduce/engines"
require "rakuda/bench/options"
require "rakuda/bench/suites"

module Rakuda
  module Bench
    # What may come next on a command line of `rakudactl bench`, for the completions of shells. It runs nothing, and
    # says nothing of mistakes: they would be in the middle of the user's line.
    class Completion
      # Options whose value is a file or a folder.
      FILES = %i[hosts instance].freeze
      FOLDERS = %i[dir out html].freeze
      # Commands whose arguments are results, and those whose argument may be a workflow in WfFormat.
      RESULTS = %w[verify report diff predict].freeze
      WORKFLOWS = %w[run prepare emit compare].freeze

      # @param commands [Hash{String => String}] the commands of `rakudactl bench`, and what each does
      # @param words [Array<String>] what stands behind `bench`
      # @param position [Integer] which of them is to be completed; the last may be missing
      def initialize(commands, words, position)
        @commands = commands
        @before = words.take(position)
        @begun = words.fetch(position, "")
      end

      # @return [Array<String>] each word that may stand there, and behind a tab what it is, if that can be said
      def lines
        candidates.select { |word, _| word.start_with?(@begun) }.uniq(&:first).map { |line| line.compact.join("\t") }
      end

      private

      # @return [Array<Array(String, String)>] words, and what they are or nil
      def candidates
        return @commands.to_a if @before.empty?
        return [] if @before.include?("--")
        return joined_values if @begun.match?(/\A--[^=]+=/)

        option = options.find { |flag, _, valued| valued && flag == @before.last }
        return values(option[1], @begun) if option && @before.size > 1

        @begun.start_with?("-") ? flags : arguments
      end

      # Of `--size=ti` the value.
      def joined_values
        flag, value = @begun.split("=", 2)
        option = options.find { |one, _, valued| valued && one == flag } or return []
        values(option[1], value).map { |word, text| ["#{flag}=#{word}", text] }
      end

      def options = @options ||= Options.all

      def command = @before.first

      # The options that one of the works of the command takes.
      def flags
        works = Options::TAKEN.keys.select { |work| work.split.first == command }
        works |= ["run of MapReduce"] if command == "compare"
        taken = Options::TAKEN.values_at(*works).flatten
        options.filter_map { |flag, name, _, text| [flag, text] if taken.include?(name) }
      end

      def values(name, begun)
        case name
        when :size, :cache, :cluster then plain(Options::VALUES[name])
        when :family then plain(Catalogue::FAMILIES + [Others::FAMILY])
        when :engines then listed(engines, begun)
        when :style then listed(Options::STYLES, begun)
        when *FILES then files(begun)
        when *FOLDERS then files(begun) { false }
        else []
        end
      end

      # Those that a file can be written for, or that run what is named already.
      def engines
        return Emitters::ALL.keys if command == "emit"

        named = Catalogue::ALL.find { |entry| @before.include?(entry.name) }
        return MapReduce::Engines::ALL.keys if command == "run" || named&.family == "mapreduce"

        named ? Engine::KNOWN.keys : Engine::KNOWN.keys | MapReduce::Engines::ALL.keys
      end

      def arguments
        names = case command
                when "list" then plain(Catalogue::FAMILIES + [Others::FAMILY])
                when "suite" then plain(Suites::NAMES)
                when "run" then entries + plain(Catalogue::FAMILIES)
                when "info" then entries
                when "prepare", "emit" then entries(&:workflow?)
                when "compare" then entries { |entry| entry.workflow? || entry.family == "mapreduce" }
                else []
                end
        names += files(@begun) { |name| name.end_with?(".json") } if (RESULTS + WORKFLOWS).include?(command)
        names
      end

      # @yield [Catalogue::Entry] whether it is one of them; all without a block
      def entries(&fits)
        Catalogue.all.select { |entry| fits.nil? || fits.call(entry) }.map { |entry| [entry.name, entry.summary] }
      end

      def plain(words) = words.map { |word| [word, nil] }

      # Words with commas between: those that stand there already are no candidates for the last.
      def listed(words, begun)
        before = begun[/\A.*,/].to_s
        plain((words - before.split(",")).map { |word| "#{before}#{word}" })
      end

      # Folders, and the files for which the block is true, or all. What begins with a dot has to be begun with one.
      def files(begun)
        folder = begun[%r{\A.*/}].to_s
        names = Dir.children(folder.empty? ? "." : folder).sort
        names.reject! { |name| name.start_with?(".") } unless begun.delete_prefix(folder).start_with?(".")
        names.filter_map do |name|
          path = "#{folder}#{name}"
          next ["#{path}/", nil] if File.directory?(path)

          [path, nil] if !block_given? || yield(name)
        end
      rescue SystemCallError
        []
      end
    end
  end
end
