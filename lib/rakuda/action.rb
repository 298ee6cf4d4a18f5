# frozen_string_literal: true

# What runs in a Fiber of the reactor's pool: one attempt of a task's action blocks, or a question of the hub answered
# by Ruby code. Holds all that belongs to it alone while other activities run: directory, rake's verbose flags, `$?`,
# the line that it has begun to print. It does not know why or when it runs.

require "rakuda/last_status"

module Rakuda
  # Base of all activities.
  class Activity
    # Directory of the activity; nil until it leaves the one that it started in.
    # @return [String, nil]
    attr_accessor :directory

    # @return [nil] an activity that is no action has no devices
    def device_variables = nil

    # @return [nil] nor has it an environment that its commands run in
    def task_environment = nil

    # @return [Boolean] whether the engine holds its commands to a bound of memory
    def bounded? = false

    # @return [nil] an activity that is no action is of no round
    def pass = nil

    # Text that has no line end yet, per stream.
    # @return [Hash{IO => String}, nil]
    attr_accessor :partial_lines

    # Whether the activity has the terminal for itself.
    attr_accessor :display_held

    # @return [NodeLost, nil] why nothing that the activity does counts any more
    attr_accessor :lost

    # @return [String, nil] what has killed its last command, where that was killed: a bound, a signal
    attr_accessor :killed_by

    # @return [Integer, nil] number of the task whose cores the activity uses
    attr_reader :number

    # Whether the activity has had a command started by the engine.
    # @return [Boolean, nil]
    attr_accessor :commanded

    # Fibers whose commands take turns, the first of which has its own: the activity may have threads, and what its
    # commands print goes into a stream. nil: no turns are taken.
    # @return [Array<Fiber>, nil]
    attr_accessor :turns

    # Whether the activity has ended.
    attr_writer :ended

    # Whether an action has a core: one that was begun early has none until the hub gives it one. What is no action
    # needs none.
    attr_writer :leased

    # When the code of an action began.
    attr_writer :began_ns

    # @return [Integer, nil] number, unless the activity has ended
    def number_while_running
      @ended ? nil : @number
    end

    # @param session [Session]
    def initialize(session, number)
      @session = session
      @number = number
      @directory = nil
      @partial_lines = nil
      @ended = false
    end

    # Called before the activity waits by itself or starts a process by itself.
    def ensure_lease; end

    # Called before the activity waits for an answer of the user: the question must be seen.
    def show_partial_lines
      @partial_lines&.each { |stream, text| stream.write_question(text.slice!(0..), self) unless text.empty? }
    end

    # Called when the activity is about to wait.
    def suspend
      @verbose = Rake::FileUtilsExt.verbose_flag
      @nowrite = Rake::FileUtilsExt.nowrite_flag
    end

    # Called when the activity goes on.
    def continue
      Rake::FileUtilsExt.verbose_flag = @verbose
      Rake::FileUtilsExt.nowrite_flag = @nowrite
    end

    # Runs a block that waits, and makes `$?` what it was.
    def keep_status
      status = Process.last_status
      yield
    ensure
      LastStatus.restore(status) unless Process.last_status.equal?(status)
    end
  end

  # One attempt of a task's action.
  class Action < Activity
    attr_reader :task

    # Which attempt of the task, from 1.
    attr_accessor :attempt

    # @return [String] name of the node that its commands run on
    attr_accessor :node

    # Whether the task invokes its prerequisites itself.
    attr_accessor :opaque

    # Numbers of the devices that are its own while it runs, by resource; nil: none.
    # @return [Hash{Symbol => Array<Integer>}, nil]
    attr_accessor :devices

    # Names of files that the action has written or fetched, where nodes share no file system.
    # @return [Hash{String => true}, nil]
    attr_accessor :shared_files

    def initialize(session, number, task, arguments)
      super(session, number)
      @task = task
      @arguments = arguments
    end

    # What its commands find in their environment: RAKUDA_DEVICES_NAME, and for the resource `gpu` CUDA_VISIBLE_DEVICES
    # (an index into the run's own, where that is set).
    # @return [Hash{String => String}, nil]
    def device_variables
      return worker_variables unless @devices

      @device_variables ||= @devices.each_with_object({}) do |(name, numbers), variables|
        variables["RAKUDA_DEVICES_#{name.to_s.upcase.gsub(/\W/, "_")}"] = numbers.join(",")
        next unless name == :gpu

        visible = ENV.fetch("CUDA_VISIBLE_DEVICES", nil)&.split(",")
        variables["CUDA_VISIBLE_DEVICES"] = numbers.map { |number| visible&.at(number) || number }.join(",")
      end
      worker_variables ? @device_variables.merge(worker_variables) : @device_variables
    end

    # What its commands run in (`needs env:`).
    # @return [TaskEnvironment, nil]
    def task_environment
      return @task_environment if defined?(@task_environment)

      @task_environment = needed&.environment
    end

    # With `--enforce memory`, where the task says how much it needs.
    def bounded?
      @task.application.enforces_memory? && needed&.fields&.key?("memory_bytes") ? true : false
    end

    # Of a synchronised round: the gate of the first command.
    # @return [SyncRounds::Pass, nil]
    attr_accessor :pass

    # Of a synchronised round: what its commands find in their environment, too.
    # @return [Hash{String => String}, nil]
    attr_accessor :worker_variables

    # @return [Integer, nil] when its code began, by `now_ns`, if it has had no core since
    attr_reader :began_ns

    # @return [Integer] ns by the kernel's monotonic clock, which the hub reads, too; that of the day may be set
    #   meanwhile
    def self.now_ns
      Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
    end

    # Waits until the action has a core.
    def ensure_lease
      return if @leased

      @began_ns = nil
      @session.wait_for_lease(self)
    end

    # Runs rake's own `execute` and reports how it ended. Raises nothing.
    def run
      @began_ns = Action.now_ns unless @leased
      @session.begin_action(self)
      @opaque ? invoke_itself : @task.execute(@arguments)
      @session.end_action(self, nil)
    rescue Exception => e # rubocop:disable Lint/RescueException -- whatever it is, it ends this task only
      @session.end_action(self, e)
    end

    private

    # @return [Needed, nil] what is said of its task
    def needed
      @task.rakuda_properties || @task.application.rule_properties(@task)
    end

    def invoke_itself
      @task.rakuda_invoke_itself(@arguments, @session.chain_before(number))
    end
  end

  # Ruby code that the hub, or another thread, asked for.
  class Question < Activity
    def initialize(session, number, &block)
      super(session, number)
      @block = block
    end

    # Runs the block, which must deal with its own exceptions. Raises nothing.
    def run
      @session.begin_activity
      @block.call(self)
      @session.end_activity(self)
    rescue Exception => e # rubocop:disable Lint/RescueException -- an internal mistake must not stop the loop silently
      @session.broken(e)
    end
  end
end
