# frozen_string_literal: true

# MegaScript: tasks that are external programs, joined by streams, in a Ruby program (Takagi et al. 2005, section 2).
# What was added to the scheduler becomes a Rakefile, which `rakuda` runs. No constant stands at the top level until a
# program includes the module; Rake::Task is another class, and stays as it is.

require "fileutils"
require "json"
require "rbconfig"
require "shellwords"
require_relative "megascript_child"
require_relative "stream_meta"

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

  # An external program, sequential or parallel.
  class Task
    # What it is said to be like, which places and routes are chosen by.
    META = Rakuda::StreamMeta::KEYWORDS
    # Those of `needs`.
    NEEDS = %i[cores nodes memory resource retry retry_delay exclusive reserve allow deny order steal where prefer
               locality params outputs inputs env].freeze
    OWN = %i[name file after].freeze

    # @return [Array<String>] the program and its arguments; one word alone is a command line
    attr_reader :words

    # @return [String] as it is shown; given by the scheduler when there is none
    attr_accessor :name

    # @return [String, nil] the file that it makes
    attr_reader :file

    # @return [Array<Task, String>] what must have ended before: tasks, and files
    attr_reader :after

    # @return [Hash{Symbol => Object}]
    attr_reader :needs, :meta

    # @return [String, nil] FILE:LINE
    attr_reader :place

    # @example A file that is made from another one
    #   Task.new("./plot stats.txt > plot.svg", file: "plot.svg", after: "stats.txt")
    # @param program [String] a program, or a command line when there are no arguments
    # @param arguments [Array<#to_s>]
    # @param name [String, nil]
    # @param file [String, nil] its target: it runs when that is out of date
    # @param after [Task, String, Array<Task, String>]
    # @param keywords [Hash{Symbol => Object}] {META}, {NEEDS}
    # @raise [Error]
    def initialize(program, *arguments, name: nil, file: nil, after: [], **keywords)
      @place = MegaScript.place
      MegaScript.check_keywords(self, keywords, META + NEEDS, OWN)
      wrong = Rakuda::StreamMeta.mistake(keywords.slice(*META))
      MegaScript.refuse(self, wrong) if wrong
      @words = [program, *arguments].map(&:to_s)
      MegaScript.refuse(self, "expected a program and its arguments, not #{program.inspect}") if @words.first.strip.empty?
      @file = target(file)
      @name = @file ? of_file(name) : name&.to_s
      @after = prerequisites(after)
      @needs = keywords.slice(*NEEDS).each { |key, value| check_need(key, value) }
      @meta = Rakuda::StreamMeta.texts(keywords.slice(*META)).transform_keys(&:to_sym)
      MegaScript.refuse(self, "name: default is the name under which all run; give it another one") if @name == "default"
    end

    private

    def target(file)
      return file if file.nil? || (file.is_a?(String) && !file.empty?)

      MegaScript.refuse(self, "file: expected the name of the file that it makes, not #{file.inspect}")
    end

    def of_file(name)
      return @file if name.nil? || name.to_s == @file

      MegaScript.refuse(self, "name: a task that makes a file has the name of that file, #{@file}, not #{name}")
    end

    def prerequisites(after)
      list = after.is_a?(Array) ? after : [after]
      strange = list.find { |one| !one.is_a?(Task) && !(one.is_a?(String) && !one.empty?) }
      return list unless strange || list.include?(nil)

      MegaScript.refuse(self, "after: expected tasks (MegaScript::Task) and names of files, not #{strange.inspect}")
    end

    # What it needs is written into the Rakefile.
    def check_need(key, value)
      return if MegaScript.written?(value)

      MegaScript.refuse(self, "#{key}: expected text, numbers, lists or a hash of these, not #{value.inspect}")
    end
  end

  # A way from the stdout of tasks to the stdin of others: merged record by record, and each gets all.
  class Stream
    KEYWORDS = %i[record window slow spill spool_max on_close replay].freeze

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
      @place = MegaScript.place
      MegaScript.check_keywords(self, keywords, KEYWORDS, %i[name])
      @name = name&.to_s
      @options = keywords.each do |key, value|
        next if MegaScript.written?(value)

        MegaScript.refuse(self, "#{key}: expected text, a number or a hash, not #{value.inspect}")
      end
      @in = []
      @out = []
    end
  end

  # What is to run.
  module Scheduler
    @added = []

    class << self
      # @param things [Array<Task, Stream>]
      # @raise [Error] when one is neither
      def add(*things)
        things.each do |thing|
          unless thing.is_a?(Task) || thing.is_a?(Stream)
            wrong("Scheduler.add: expected a MegaScript::Task or a MegaScript::Stream, " \
                  "not #{thing.is_a?(Array) ? "a list: write Scheduler.add(*tasks)" : thing.inspect}")
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
        if added.empty?
          wrong("Scheduler.run: there is nothing to run: add tasks and streams with Scheduler.add")
        end

        options = from_environment + words(options.flatten)
        program = Program.new(added)
        status = program.run(options)
        MegaScript.fail_with(Failed, "rakuda ended with status #{status}") unless status.zero?
        return true if program.ran?

        # What follows in the program would take for made what was only asked about.
        $stderr.puts "#{$PROGRAM_NAME}: rakuda has run no task, as its options say (#{options.join(" ")}): the program ends here"
        exit
      end

      private

      def wrong(words)
        MegaScript.fail_with(Error, "#{MegaScript.place}: #{words}")
      end

      def from_environment
        text = ENV.fetch("RAKUDA_OPTIONS", "")
        Shellwords.split(text)
      rescue ArgumentError
        MegaScript.fail_with(Error, "RAKUDA_OPTIONS=#{text}: expected words as in a shell, with a second quote for each " \
                                    "first one")
      end

      # Words as on a command line: several in one text would be taken for one.
      def words(options)
        options.map do |option|
          next option.to_s unless option.is_a?(Hash) || option.to_s.match?(/\A-.*\s-/)

          wrong("Scheduler.run: expected options of rakuda, a word each, such as Scheduler.run(\"-j\", 4, \"-q\"), " \
                "not #{option.inspect}")
        end
      end
    end
  end

  # The Rakefile of what was added.
  class Program
    RAKUDA = File.expand_path("../../bin/rakuda", __dir__)
    # Where it is kept, so that a run can be resumed.
    FOLDER = ".rakuda/megascript"
    # What has started the program; a later `$0 = ...` would change it.
    COMMAND = File.binread("/proc/self/cmdline").split("\0", -1)[0...-1].freeze

    def initialize(added)
      @streams = added.grep(Stream)
      @tasks = added.grep(Task)
      @streams.each { |stream| check_ends(stream) }
      @tasks.each { |task| check_after(task) }
      name(@tasks) { |task| File.basename(task.words.first.split.first || "task") }
      name(@streams) { |_| "stream" }
    end

    # @param options [Array<String>]
    # @return [Integer] the exit status
    def run(options)
      path = written
      command = RAKUDA.start_with?("/") && File.executable?(RAKUDA) ? [RAKUDA] : [RbConfig.ruby, RAKUDA]
      mark = File.expand_path(path.sub(/\.rake\z/, ".began"))
      FileUtils.rm_f(mark)
      told = JSON.generate("command" => command_of_program, "mark" => mark)
      begin
        Child.new([{ "RAKUDA_MEGASCRIPT" => told }, *command, "-f", path, *options]).run
      ensure
        @ran = File.exist?(mark)
        FileUtils.rm_f(mark)
      end
    end

    # @return [Boolean] whether tasks were run, and not only a question answered
    def ran? = @ran

    # @return [String] Ruby. Each statement says where the program has it, so that messages name that place
    def text
      lines = ["# Made by MegaScript from #{$PROGRAM_NAME}; made anew by each run of it.",
               "require \"rakuda/megascript_main\"", ""]
      @tasks.each { |task| lines.concat(lines_of_task(task)) }
      @streams.each { |stream| lines << placed(stream, line_of_stream(stream)) }
      lines << "task default: #{@tasks.map(&:name).inspect}"
      "#{lines.join("\n")}\n"
    end

    private

    # @return [String] the Rakefile
    # @raise [Error] when there is no place for it
    def written
      write
    rescue SystemCallError => e
      MegaScript.fail_with(Error, "#{MegaScript.place}: Scheduler.run: the Rakefile of the run cannot be written into " \
                                  "#{FOLDER}, below the folder in which the program was started: #{e.message}")
    end

    # With what the environment has said.
    def command_of_program
      options = ENV.fetch("RAKUDA_OPTIONS", "")
      words = options.empty? ? COMMAND : ["env", "RAKUDA_OPTIONS=#{options}", *COMMAND]
      words.map { |word| word.dup.force_encoding(Encoding::UTF_8).scrub }
    end

    def check_ends(stream)
      { in: stream.in, out: stream.out }.each do |key, tasks|
        MegaScript.refuse(stream, "#{key}: it has no task; add one with `<<`") if tasks.empty?
        tasks.each do |task|
          MegaScript.refuse(stream, "a stream joins tasks (MegaScript::Task), not #{task.inspect}") unless task.is_a?(Task)
          check_added(stream, "a stream joins", task)
        end
      end
    end

    def check_after(task)
      task.after.grep(Task).each { |other| check_added(task, "after:", other) }
    end

    def check_added(whose, words, task)
      return if @tasks.any? { |other| other.equal?(task) }

      MegaScript.refuse(whose, "#{words} a task that was not added: #{task.words.join(" ")} (#{task.place})")
    end

    # Names that are free, numbered where several would be equal.
    def name(things)
      named = things.select(&:name)
      named.group_by(&:name).each_value do |first, second|
        MegaScript.refuse(second, "the name #{second.name} is taken already (#{first.place})") if second
      end
      # Under the name default all of them run.
      taken = named.map(&:name) << "default"
      bases = things.reject(&:name).group_by { |thing| yield(thing).gsub(/[^\w.+-]/, "_") }
      bases.each do |base, group|
        free = group.size == 1 && !taken.include?(base) ? [base] : (0..).lazy.map { |n| "#{base}.#{n}" }
        free = free.reject { |name| taken.include?(name) }.first(group.size)
        group.zip(free) { |thing, name| thing.name = name }
        taken.concat(free)
      end
    end

    def lines_of_task(task)
      needs = task.needs.empty? ? [] : [placed(task, "needs(**#{task.needs.inspect})")]
      after = task.after.map { |one| one.is_a?(Task) ? one.name : one }
      kind = task.file ? "file" : "task"
      head = after.empty? ? task.name.inspect : "#{task.name.inspect} => #{after.inspect}"
      block = "{ sh #{task.words.map(&:inspect).join(", ")} }"
      [*needs, placed(task, "#{kind}(#{head}) #{block}"), *(line_of_source(task, block) if task.file)]
    end

    # What `eval` was given is the source of nothing, so the same block stands in the Rakefile itself: that is what
    # `--rerun-on command` compares.
    def line_of_source(task, block)
      "Rake::Task[#{task.name.inspect}].actions.last.define_singleton_method(:rakuda_origin) " \
        "{ [#{task.place.to_s.inspect}, proc #{block}] }"
    end

    # The tasks themselves: a name might be taken for a pattern.
    def line_of_stream(stream)
      meta = (stream.in + stream.out).reject { |task| task.meta.empty? }.to_h { |task| [task.name, task.meta] }
      options = stream.options.merge(meta.empty? ? {} : { meta: meta })
      ends = { from: stream.in, to: stream.out }.map do |key, tasks|
        "#{key}: [#{tasks.map { |task| "Rake::Task[#{task.name.inspect}]" }.join(", ")}]"
      end
      "stream(#{[stream.name.inspect, *ends].join(", ")}, **#{options.inspect})"
    end

    def placed(thing, ruby)
      file, line = thing.place.to_s.match(/\A(.+):(\d+)\z/)&.captures
      file ? "eval(#{ruby.inspect}, binding, #{file.inspect}, #{line})" : ruby
    end

    def write
      FileUtils.mkdir_p(FOLDER)
      name = File.basename($PROGRAM_NAME, ".rb").gsub(/[^\w.-]/, "_")
      File.join(FOLDER, "#{name}.rake").tap { |path| File.write(path, text) }
    end
  end

  class << self
    # @return [String, nil] FILE:LINE of the program
    def place
      line = caller_locations.find { |one| !own?(one) }
      "#{line.path}:#{line.lineno}" if line
    end

    # @param thing [Task, Stream]
    # @raise [Error] with the place of it
    def refuse(thing, words)
      fail_with(Error, "#{thing.place}: #{thing.class.name.split("::").last}: #{words}")
    end

    # Raises in the program: the backtrace begins with its line.
    def fail_with(kind, words)
      raise kind, words, caller_locations.drop_while { |one| own?(one) }.map(&:to_s)
    end

    # @raise [Error] when one is neither among those nor one of its own
    def check_keywords(thing, keywords, known, own)
      unknown = (keywords.keys - known).first or return
      refuse(thing, "unknown keyword #{unknown}; there are #{(known + own).join(", ")}")
    end

    # @return [Boolean] whether Ruby reads a value again as it shows it
    def written?(value)
      case value
      when String, Symbol, Integer, Float, true, false, nil then true
      when Array then value.all? { |one| written?(one) }
      when Hash then value.all? { |key, one| written?(key) && written?(one) }
      else false
      end
    end

    private

    def own?(location)
      location.absolute_path == __FILE__ || location.path.start_with?("<internal:")
    end
  end
end
