# frozen_string_literal: true

# The configuration of `rakudactl sync`, as in figure 5 of Iwai, Tatebe, Tanaka 2016: WORKER_COUNT, TASK_FILE,
# PARAMETER_ARRAY and ARGUMENTS, and COLLECT beyond it, in a Ruby file or in the environment. It says what is wrong with
# it, and defines the rounds; it starts nothing.

require "json"
require "shellwords"
require "rakuda/sync"

module Rakuda
  # What runs on all workers.
  class SyncConfiguration
    NAMES = %w[WORKER_COUNT TASK_FILE PARAMETER_ARRAY ARGUMENTS COLLECT].freeze
    ENVIRONMENT = "the environment"

    # @return [Array<Integer>] how many workers there are for each program, or how many in all
    attr_reader :workers
    # @return [Array<String>]
    attr_reader :programs
    # @return [Array<String, nil>]
    attr_reader :parameters
    # @return [String]
    attr_reader :arguments

    # @param path [String, nil] of the Ruby file
    # @param environment [#[]]
    # @param options [Hash] keywords of `sync`, from the command line
    # @param elsewhere [Boolean] whether there are other nodes, which may have files that are not here
    # @raise [ConfigurationError]
    def initialize(path, environment, options, elsewhere: false)
      @path = path
      @workers_most = options[:workers_most]
      @options = options.reject { |name, _| name == :workers_most }
      @elsewhere = elsewhere
      @lines = {} # name => line of the file
      @set = []   # names that the environment has set
      values = path ? read(path) : {}
      NAMES.each do |name|
        text = environment[name]
        next if text.nil? || text.empty?

        values[name] = from_text(name, text)
        @set << name
      end
      @origin = path || ENVIRONMENT
      @workers = workers_of(options[:workers] || wanted(values, "WORKER_COUNT"))
      @programs = programs_of(wanted(values, "TASK_FILE"))
      @parameters = parameters_of(values["PARAMETER_ARRAY"])
      @arguments = arguments_of(values.fetch("ARGUMENTS", ""))
      @collect = collect_of(options[:collect], values["COLLECT"])
    end

    # Defines Sync_0, the tasks of all rounds, and the task `sync` that needs them.
    # @param application [Application]
    def define(application)
      keywords = { **@options, workers: @workers.sum, over: @parameters, collect: @collect }.compact
      check_keywords(keywords)
      step = keywords[:offset]
      keywords[:offset] = steps(step) if step.is_a?(Numeric)
      check_slots(application)
      last = application.sync([nil], keywords, method(:run).to_proc, @origin, workers_place)
      Rake::Task.define_task({ sync: [last.name] })
    end

    # @return [Array<String>] what a worker executes
    def command(worker)
      [program(worker), *words(worker)]
    end

    private

    # Messages name what the command line has said as that does.
    def check_keywords(keywords)
      SyncOptions.new(keywords)
    rescue ConfigurationError => e
      name, rest = e.message.match(/\A(\w+)(:.*)/m)&.captures
      raise e unless name && @options[name.to_sym]

      raise ConfigurationError, "--#{name.tr("_", "-")}#{rest.gsub(/(?<= ):(?=[a-z])/, "")}"
    end

    def workers_place
      @options[:workers] ? "--workers" : "#{place("WORKER_COUNT")}: WORKER_COUNT"
    end

    # Each worker begins `step` seconds after the one before it.
    def steps(step)
      stop = @options[:stop_after]
      last = (@workers.sum - 1) * step
      return ->(worker) { worker.id * step } unless stop && last >= stop

      raise ConfigurationError, "--offset: the last of #{@workers.sum} workers would begin #{last} s after the first, and " \
                                "--stop-after ends it after #{stop} s: expected a later stop, or a smaller offset"
    end

    # Said before anything runs.
    def check_slots(application)
      slots = application.jobs
      # Of several runs the largest is refused before the first one.
      workers = [@workers.sum, *@workers_most].max
      return if application.cluster? || application.oversubscribes? || workers <= slots

      raise ConfigurationError, "#{workers_place}: #{workers} workers begin together and need as many slots, and " \
                                "there are #{slots}: add -j #{workers}, take fewer workers, or let them share slots " \
                                "(--oversubscribe)"
    end

    # A program is no line for the shell, also when its path has a space in it and no words follow.
    def run(worker)
      program, *words = command(worker)
      sh([program, program], *words, verbose: false)
    end

    include Rake::FileUtilsExt

    # Rake would show the program twice.
    def sh_show_command(command)
      super(command.map { |word| word.is_a?(Array) ? word.first : word })
    end

    # Words are filled one by one: a value is never split, whatever is in it.
    def words(worker)
      parameter = worker.parameter
      values = @lists.fetch(parameter) { parameter.nil? ? [] : [parameter.to_s] }
      filled = @words.flat_map { |word| word == "%p" ? values : [worker.replace(word)] }
      @words.any? { |word| word.scan(Sync::MARK).include?("%p") } ? filled : filled + values
    end

    # Groups of workers one after the other, or, without sizes of groups, programs in turn.
    def program(worker)
      return @programs[worker.id % @programs.size] if @workers.size == 1

      rest = worker.id
      @programs[@workers.index { |size| (rest -= size).negative? }]
    end

    def read(path)
      raise ConfigurationError, "#{path}: no such file: name a Ruby file with WORKER_COUNT and TASK_FILE" unless File.file?(path)

      space = Module.new
      evaluate(space, path)
      refuse_misspelt(space, path)
      names = space.constants(false).map(&:to_s) & NAMES
      @lines = names.to_h { |name| [name, space.const_source_location(name)&.last] }
      names.to_h { |name| [name, space.const_get(name)] }
    rescue ScriptError, StandardError, SystemExit => e
      raise e if e.is_a?(ConfigurationError)

      line = e.message[/\A#{Regexp.escape(path)}:(\d+)/, 1] || e.backtrace_locations&.find { |it| it.path == path }&.lineno
      message = e.message.lines.first&.chomp&.delete_prefix("#{path}:#{line}: ")&.gsub(/#<Module:0x\h+>::/, "")
      raise ConfigurationError, "#{path}#{":#{line}" if line}: #{e.is_a?(SystemExit) ? exit_text(e) : message}"
    end

    # A `return` of the file ends this method, and what stands before it holds.
    def evaluate(space, path)
      space.module_eval(File.read(path), path)
    end

    # Nothing has run then, so it is no good end.
    def exit_text(exception)
      call = exception.message == "exit" ? "exit" : "exit or abort (#{exception.message.lines.first&.chomp})"
      "expected names with values, not a call of #{call}: take it away, or raise an error instead"
    end

    # A name that is nearly one of ours would have no effect. Others are the file's own.
    def refuse_misspelt(space, path)
      own = space.constants(false).map(&:to_s)
      spelling = DidYouMean::SpellChecker.new(dictionary: NAMES - own)
      (own - NAMES).each do |name|
        meant = spelling.correct(name).first or next
        raise ConfigurationError, "#{path}:#{space.const_source_location(name)&.last}: #{name}: expected #{meant}"
      end
    end

    # A list is JSON, or words with commas or white space between them.
    def from_text(name, text)
      case name
      when "WORKER_COUNT" then Integer(text, 10)
      when "COLLECT" then text.start_with?("{") ? JSON.parse(text) : SyncCollect.from_words([text])
      when "PARAMETER_ARRAY" then text.start_with?("[") ? JSON.parse(text) : text.split(/[\s,]+/)
      else text
      end
    rescue ArgumentError, JSON::ParserError, ConfigurationError
      expected = { "WORKER_COUNT" => "a number", "COLLECT" => "json, NAME=REGEX, or an object of such patterns" }
      raise ConfigurationError, "#{name}=#{text}: expected #{expected.fetch(name, "a list, such as 4k,8k,16k")}"
    end

    # @return [String] where a value stands
    def place(name)
      return ENVIRONMENT if @set.include?(name)

      line = @lines[name]
      line ? "#{@origin}:#{line}" : @origin
    end

    # The command line wins.
    def collect_of(words, value)
      return SyncCollect.from_words(words) if words

      SyncCollect.new(value) if value
      value
    rescue ConfigurationError => e
      raise ConfigurationError, "#{words ? "--collect" : "#{place("COLLECT")}: COLLECT"}: #{e.message.delete_prefix("collect: ")}"
    end

    def wanted(values, name)
      values.fetch(name) do
        where = @path ? "#{@path}: #{name} is missing" : "#{name} is not set"
        raise ConfigurationError, "#{where}: name a configuration with #{NAMES.join(", ")}, or set them in the environment"
      end
    end

    def workers_of(value)
      counts = Array(value)
      good = counts.all? { |count| count.is_a?(Integer) && count.between?(1, SyncOptions::WORKERS_MAX) }
      return counts if good && !counts.empty?

      refuse("WORKER_COUNT", value, "a number from 1 on, or a list of them, one for each program of TASK_FILE", workers_place)
    end

    def programs_of(value)
      programs = Array(value)
      unless !programs.empty? && programs.all? { |program| program.is_a?(String) && !program.empty? }
        refuse("TASK_FILE", value, "the path of a program, or a list of them")
      end
      unless @workers.size == 1 || @workers.size == programs.size
        refuse("WORKER_COUNT", @workers, "one number, or as many as TASK_FILE has programs (#{programs.size})")
      end
      programs.map { |program| checked(program) }
    end

    # A path without a slash means a file here, as in the paper; what is not here is looked up in PATH. An absolute one
    # may be there on the other nodes alone: the round says on which it is not.
    def checked(program)
      path = program.include?("/") || !File.file?(program) ? program : "./#{program}"
      return path if path.include?("/") ? @elsewhere && path.start_with?("/") && !File.exist?(path) : @elsewhere || in_path?(path)

      where = "#{place("TASK_FILE")}: TASK_FILE #{program}"
      refuse_missing(where, path) unless File.exist?(path)
      raise ConfigurationError, "#{where} is a folder: name a program in it" if File.directory?(path)
      return path if File.file?(path) && File.executable?(path)

      raise ConfigurationError, "#{where} is no program: chmod +x it"
    end

    def refuse_missing(where, path)
      raise ConfigurationError, "#{where}: no such file (from #{Dir.pwd})" if path.include?("/")

      raise ConfigurationError, "#{where}: no such file in #{Dir.pwd}, and no such program in a folder of PATH: name its path"
    end

    def in_path?(program)
      folders = ENV["PATH"]&.split(":", -1) or return true # then the system's own list holds
      folders.any? do |folder|
        file = File.join(folder.empty? ? "." : folder, program)
        File.file?(file) && File.executable?(file)
      end
    end

    # A parameter that is a list has a text by which it is known, and its words.
    def parameters_of(value)
      @lists = {}.compare_by_identity # text of such a parameter => its words
      return [nil] if value.nil?

      flat = value.is_a?(Array) && value.none? { |one| one.is_a?(Array) && one.any?(Enumerable) }
      flat && !value.empty? or refuse("PARAMETER_ARRAY", value, 'a list of parameters, such as ["4k", "8k", "16k"]')
      value.map do |one|
        next one.to_s unless one.is_a?(Array)

        words = one.map(&:to_s)
        words.join(" ").tap { |text| @lists[text] = words }
      end
    end

    def arguments_of(value)
      value.is_a?(String) or refuse("ARGUMENTS", value, "the words after the program, as one text")
      @words = Shellwords.split(value)
      value
    rescue ArgumentError
      refuse("ARGUMENTS", value, "words as in a shell, with a second quote for each first one (or \\ before one that is meant)")
    end

    def refuse(name, value, expected, where = "#{place(name)}: #{name}")
      raise ConfigurationError, "#{where}: expected #{expected}, not #{value.inspect}"
    end
  end
end
