# frozen_string_literal: true

# MegaScript: tasks that are external programs, joined by streams, in a Ruby program (Takagi et al. 2005, section 2).
# What was added to the scheduler becomes a Rakefile, which `rakuda` runs. No constant stands at the top level until a
# program includes the module; Rake::Task is another class, and stays as it is.

require "fileutils"
require "rbconfig"
require "shellwords"

# Tasks, streams and their scheduler.
# @example
#   require "rakuda/megascript"
#   include MegaScript
#   a = Task.new("./sim", cost: 10, output: "1MB/s")
#   b = 40.times.map { |i| Task.new("./ana", i) }
#   s = Stream.new
#   s.in << a
#   s.out.concat(b)
#   Scheduler.add(a, *b, s)
#   Scheduler.run
module MegaScript
  # What a program got wrong.
  class Error < StandardError; end

  # The run ended with another status than 0.
  class Failed < Error; end

  # What a task is said to be like: kept with the run. `cost` of computing, `output` volume, `frequency` of messages,
  # their `pattern`.
  META = %i[cost output input frequency pattern].freeze

  # An external program, sequential or parallel.
  class Task
    # Of `needs`: what a node must have.
    NEEDS = %i[cores memory resource retry exclusive reserve allow deny nodes].freeze

    # @return [Array<String>] the program and its arguments; one word alone is a command line
    attr_reader :words

    # @return [String] as it is shown; given by the scheduler when there is none
    attr_accessor :name

    # @return [Hash{Symbol => Object}]
    attr_reader :needs, :meta

    # @return [String, nil] FILE:LINE
    attr_reader :place

    # @param program [String] a program, or a command line when there are no arguments
    # @param arguments [Array<#to_s>]
    # @param name [String, nil]
    # @param keywords [Hash{Symbol => Object}] {META}, {NEEDS}
    def initialize(program, *arguments, name: nil, **keywords)
      unknown = keywords.keys - META - NEEDS
      raise ArgumentError, "unknown keyword #{unknown.first}; there are #{(META + NEEDS).join(", ")}, name" unless unknown.empty?

      @words = [program, *arguments].map(&:to_s)
      @name = name&.to_s
      @needs = keywords.slice(*NEEDS)
      @meta = keywords.slice(*META)
      @place = MegaScript.place
    end
  end

  # A way from the stdout of tasks to the stdin of others: merged record by record, and each gets all.
  class Stream
    KEYWORDS = %i[record window on_close replay].freeze

    # @return [Array<Task>] what writes into it
    attr_reader :in

    # @return [Array<Task>] what reads from it
    attr_reader :out

    # @return [String, nil]
    attr_accessor :name

    # @return [Hash{Symbol => Object}]
    attr_reader :options

    # @return [String, nil] FILE:LINE
    attr_reader :place

    # @param keywords [Hash{Symbol => Object}] as those of `stream` in a Rakefile
    def initialize(name: nil, **keywords)
      unknown = keywords.keys - KEYWORDS
      raise ArgumentError, "unknown keyword #{unknown.first}; there are #{KEYWORDS.join(", ")}, name" unless unknown.empty?

      @name = name&.to_s
      @options = keywords
      @in = []
      @out = []
      @place = MegaScript.place
    end
  end

  # What is to run.
  module Scheduler
    @added = []

    class << self
      # @param things [Array<Task, Stream>]
      # @raise [ArgumentError] when one is neither
      def add(*things)
        things.each do |thing|
          unless thing.is_a?(Task) || thing.is_a?(Stream)
            raise ArgumentError, "expected a MegaScript::Task or a MegaScript::Stream, not #{thing.inspect}"
          end
          @added << thing unless @added.any? { |other| other.equal?(thing) }
        end
        self
      end

      # Runs all that was added, and waits for its end. Options of rakuda come from RAKUDA_OPTIONS and from here.
      # @example
      #   Scheduler.run("-j", 8, "-F", "hosts")
      # @param options [Array<#to_s>]
      # @raise [Failed] when something failed
      def run(*options)
        added, @added = @added, []
        raise Error, "there is nothing to run: add tasks and streams with Scheduler.add" if added.empty?

        program = Program.new(added)
        words = Shellwords.split(ENV.fetch("RAKUDA_OPTIONS", "")) + options.flatten.map(&:to_s)
        status = program.run(words)
        raise Failed, "rakuda ended with status #{status}" unless status.zero?

        true
      end
    end
  end

  # The Rakefile of what was added.
  class Program
    RAKUDA = File.expand_path("../../bin/rakuda", __dir__)
    # Where it is kept, so that a run can be resumed.
    FOLDER = ".rakuda/megascript"

    def initialize(added)
      @streams = added.grep(Stream)
      @tasks = added.grep(Task)
      @streams.each { |stream| (stream.in + stream.out).each { |task| check(stream, task) } }
      name(@tasks) { |task| File.basename(task.words.first.split.first || "task") }
      name(@streams) { |_| "stream" }
    end

    # @param options [Array<String>]
    # @return [Integer] the exit status
    def run(options)
      path = write
      command = RAKUDA.start_with?("/") && File.executable?(RAKUDA) ? [RAKUDA] : [RbConfig.ruby, RAKUDA]
      system(*command, "-f", path, *options)
      $?.exitstatus || (128 + $?.termsig) # rubocop:disable Style/SpecialGlobalVars
    end

    # @return [String] Ruby
    def text
      lines = ["# Made by MegaScript from #{$PROGRAM_NAME}; made anew by each run of it.", ""]
      @tasks.each { |task| lines.concat(lines_of_task(task)) }
      @streams.each { |stream| lines << line_of_stream(stream) }
      lines << "task default: #{@tasks.map(&:name).inspect}"
      "#{lines.join("\n")}\n"
    end

    private

    def check(stream, task)
      unless task.is_a?(Task)
        raise Error, "#{stream.place}: a stream joins tasks (MegaScript::Task), not #{task.inspect}"
      end
      return if @tasks.any? { |other| other.equal?(task) }

      raise Error, "#{stream.place}: a stream joins a task that was not added: #{task.words.join(" ")} (#{task.place})"
    end

    # Names that are free, numbered where several would be equal.
    def name(things)
      taken = things.map(&:name).compact
      twice = taken.find { |name| taken.count(name) > 1 }
      raise Error, "two of them have the name #{twice}" if twice

      bases = things.reject(&:name).group_by { |thing| yield(thing).gsub(/[^\w.+-]/, "_") }
      bases.each do |base, group|
        free = group.size == 1 && !taken.include?(base) ? [base] : (0..).lazy.map { |n| "#{base}.#{n}" }
        free = free.reject { |name| taken.include?(name) }.first(group.size)
        group.zip(free) { |thing, name| thing.name = name }
        taken.concat(free)
      end
    end

    def lines_of_task(task)
      needs = task.needs.empty? ? [] : ["needs(**#{task.needs.inspect})"]
      words = task.words.map(&:inspect).join(", ")
      needs << "task(#{task.name.inspect}) { sh #{words} }"
    end

    def line_of_stream(stream)
      meta = (stream.in + stream.out).reject { |task| task.meta.empty? }.to_h { |task| [task.name, task.meta] }
      options = stream.options.merge(meta.empty? ? {} : { meta: meta })
      ends = { from: stream.in.map(&:name), to: stream.out.map(&:name) }
      "stream(#{stream.name.inspect}, **#{ends.merge(options).inspect})"
    end

    def write
      FileUtils.mkdir_p(FOLDER)
      name = File.basename($PROGRAM_NAME, ".rb").gsub(/[^\w.-]/, "_")
      File.join(FOLDER, "#{name}.rake").tap { |path| File.write(path, text) }
    end
  end

  # @return [String, nil] FILE:LINE of the program
  def self.place
    line = caller_locations.find { |location| location.absolute_path != __FILE__ && !location.path.start_with?("<internal:") }
    "#{line.path}:#{line.lineno}" if line
  end
end
