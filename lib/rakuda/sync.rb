# frozen_string_literal: true

# The statement `sync`: turns it into tasks, a sync task between two rounds of workers (figures 3 and 4 of Iwai, Tatebe,
# Tanaka 2016), and hands the first command of each worker to its round. When a round begins is the engine's to decide.

require "rakuda/sync_options"

module Rakuda
  # One `sync` statement.
  class Sync
    include Rake::FileUtilsExt

    # Program of the rounds that do nothing.
    NULL_PROGRAM = "true"
    # What is replaced in words.
    MARK = /%[wp%]/.freeze

    # One worker in one round; what the block of `sync` gets.
    # @!attribute [r] id [Integer] from 0: the paper's identifier
    # @!attribute [r] parameter [Object, nil] one of `over:`
    # @!attribute [r] round [Integer] from 0, of all rounds
    # @!attribute [r] workers [Integer] how many there are
    # @!attribute [r] repetition [Integer] of the round with this parameter, from 0; negative: a warm-up
    # @!attribute [r] node_rank [Integer] number of its node among those of the round, from 0
    # @!attribute [r] local_rank [Integer] number of the worker on its node, from 0
    Worker = Struct.new(:id, :parameter, :round, :workers, :repetition, :node_rank, :local_rank, keyword_init: true) do
      # @return [String] `%w` and `%p` replaced
      def replace(text)
        text.gsub(MARK) { |mark| { "%w" => id.to_s, "%p" => parameter.to_s, "%%" => "%" }[mark] }
      end

      # @return [Hash{String => String}] what commands find in their environment
      def variables
        { "RAKUDA_WORKER" => id.to_s, "RAKUDA_NODE" => node_rank.to_s, "RAKUDA_LOCAL_RANK" => local_rank.to_s,
          "RAKUDA_ROUND" => round.to_s, "RAKUDA_PARAMETER" => parameter.to_s }
      end
    end

    # A round, before it is known which number the engine has for it.
    # @!attribute kind [String] "counted", "warm_up" or "null"
    Round = Struct.new(:number, :kind, :parameter, :repetition, keyword_init: true)

    # @param application [Application]
    # @param name [String, nil] nil: the tasks have no name before theirs
    # @param options [SyncOptions]
    # @param needed [Needed, nil] of each worker
    # @param place [String] FILE:LINE
    # @param workers_place [String] what says how many workers there are, and where
    def initialize(application, name, options, needed, place, workers_place, &block)
      @application = application
      @name = name
      @options = options
      @needed = needed
      @place = place
      @workers_place = workers_place
      @block = block
      @numbers = {} # [number of a round, repeat] => the engine's number of it
      @places = {}  # [number of a round, attempt] => Places of its workers
    end

    # Defines the tasks.
    # @param prerequisites [Array] of the first round
    # @yield before the task is defined that stands for all
    # @return [Rake::Task] the last sync task, or the one of the name
    def define(prerequisites)
      previous = define_null(prerequisites)
      last = define_sync(0, previous)
      rounds.each do |round|
        workers = define_workers(round, [last.name])
        last = define_sync(round.number + 1, workers.map(&:name))
      end
      return last unless @name

      yield # its description is that of the whole
      Rake::Task.define_task({ @name => [last.name] }).tap { |task| @recorded_name = task.name }
    end

    # Runs the block for a worker, with its first command at the gate of the round; again while a worker was late and
    # the round may be repeated.
    def run(round, id, action)
      session = @application.session
      repeat = 0
      loop do
        number = number_of(session, round, action.attempt, repeat)
        worker = worker_of(round, id, action)
        pass = pass_of(round, number, worker)
        late = session.rounds.run(action, pass, worker.variables, wait: @options.repeat_late.positive?) do
          call_block(round, worker)
          refuse_idle(id, pass)
        end
        return unless late.to_i.positive? && repeat < @options.repeat_late

        repeat += 1
      end
    end

    private

    # Rounds that do nothing measure what starting and ending costs: nobody is held back there.
    def pass_of(round, number, worker)
      offset_ns = round.kind == "null" ? 0 : @options.offset_ns(worker)
      SyncRounds::Pass.new(number, worker.id, offset_ns, worker.local_rank, cache_of(round, worker), false)
    rescue ConfigurationError => e
      raise RakefileError, "#{@place}: sync: #{e.message}"
    end

    # What the worker sees to before it waits; rounds that do nothing have no files.
    # @return [Hash, nil]
    def cache_of(round, worker)
      return if @options.cache.nil? || round.kind == "null"

      { "state" => @options.cache, "files" => @options.files(worker).map(&:b) }
    end

    # A worker whose block has started nothing keeps the round from beginning, so it has failed.
    def refuse_idle(id, pass)
      return if pass.used || @options.gate == "none"

      raise RakefileError, "#{@place}: sync #{@name || "rounds"}: worker #{id} ended without a command that the engine " \
                           "starts (sh)"
    end

    # Those of figure 3, in order.
    def rounds
      @rounds ||= begin
        rounds = @options.parameters.flat_map do |parameter|
          (-@options.warm_up...@options.rounds).map do |repetition|
            Round.new(kind: repetition.negative? ? "warm_up" : "counted", parameter: parameter, repetition: repetition)
          end
        end
        rounds.each_with_index { |round, number| round.number = number }
      end
    end

    # The workers that do nothing: what it costs to start and end them.
    def define_null(prerequisites)
      @options.overhead.times.reduce(prerequisites) do |before, number|
        label = number.zero? ? "null" : "null_#{number}"
        first = define_task(full("Sync_#{label}"), before, nil)
        null = Round.new(number: number, kind: "null", parameter: nil, repetition: number)
        define_workers(null, [first.name], label).map(&:name)
      end
    end

    def define_sync(number, prerequisites)
      define_task(full("Sync_#{number}"), prerequisites, nil)
    end

    # The workers of a round are a gang: what else there is to run cannot keep one of them from its slot for ever.
    def define_workers(round, prerequisites, label = "task_#{round.number}")
      workers = @options.workers.times.map { |id| define_worker(round, id, prerequisites, label) }
      @application.gangs.define(workers, check: method(:check_slots), refusal: method(:refusal))
      workers
    end

    def define_worker(round, id, prerequisites, label)
      sync = self
      action = proc { sync.run(round, id, Rake.application.running_action) }
      task = define_task(full("#{label}_w#{id}"), prerequisites, round.kind == "null" ? nil : @block, &action)
      task.rakuda_properties = @needed if @needed
      task
    end

    # @param block [Proc, nil] of the Rakefile, which the action runs
    def define_task(name, prerequisites, block, &action)
      place = @place
      action&.define_singleton_method(:rakuda_origin) { [place, block] }
      Rake::Task.define_task({ name => prerequisites }, &action)
    end

    def full(label)
      @name ? "#{@name}:#{label}" : label
    end

    # When the first of its tasks is planned, so before anything of the run: workers that do not fit would wait for one
    # another for ever.
    def check_slots
      return if @application.cluster? || @application.oversubscribes?

      cores = @needed&.fields&.fetch("cores", 1) || 1
      slots = @application.jobs
      wanted = cores * @options.workers
      return if wanted <= slots

      raise RakefileError, "#{@workers_place}: #{@options.workers} workers begin together and need " \
                           "#{wanted} slots, and there are #{slots}: run it with -j #{wanted}, with fewer workers, " \
                           "or let them share slots (--oversubscribe)"
    end

    # The nodes of a cluster are the engine's, so it is the engine that finds out there.
    # @param reason [String] as the engine says it
    # @param slots [Array(Integer, Integer), nil] wanted, and there, where these are too few
    # @return [RakefileError]
    def refusal(reason, slots)
      return RakefileError.new("#{@workers_place}: #{reason}") unless slots && @options.workers > 1

      wanted, there = slots
      apart = ", into which these do not fit" if wanted <= there
      RakefileError.new("#{@workers_place}: #{@options.workers} workers begin together and need #{wanted} slots, and the " \
                        "nodes of this run have #{there}#{apart}: name more nodes or slots (-F), take fewer workers, or let " \
                        "them share slots (--oversubscribe)")
    end

    # The number that the engine has for a round: the first of its workers that comes defines it.
    def number_of(session, round, attempt, repeat)
      is_null = round.kind == "null"
      @numbers[[session, round.kind, round.number, attempt, repeat]] ||= session.rounds.define({
        "sync" => (@recorded_name || "rounds").b, "number" => round.number, "parameter" => round.parameter&.to_s&.b,
        "kind" => round.kind, "repeat" => repeat, "workers" => @options.workers, "hold" => gate_of(round),
        "pin" => @options.pin, "ready_ms" => @options.ready_ms, "stop_ms" => is_null ? nil : @options.stop_ms,
        "cache" => is_null ? nil : @options.cache, "collect" => is_null ? [] : @options.collect&.names || []
      }, is_null ? nil : @options.collect)
    end

    # Programs that do nothing do not call the gate themselves.
    def gate_of(round)
      round.kind == "null" && @options.gate == "call" ? "auto" : @options.gate
    end

    def worker_of(round, id, action)
      places = @places[[round.kind, round.number, action.attempt]] ||= SyncRounds::Places.new
      node_rank, local_rank = places.take(id, action.node)
      Worker.new(id: id, parameter: round.parameter, round: round.number, workers: @options.workers,
                 repetition: round.repetition, node_rank: node_rank, local_rank: local_rank)
    end

    def call_block(round, worker)
      return @block.call(worker) unless round.kind == "null"

      sh NULL_PROGRAM, verbose: false
    end
  end
end
