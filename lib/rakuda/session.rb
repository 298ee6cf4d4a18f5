# frozen_string_literal: true

# One run against one engine: invocations, and what every message of the hub does. The coordinator of planner, reactor,
# shell and engine; it knows the protocol's messages and decides nothing about order.

require "rakuda/working_directory"
require "rakuda/reactor"
require "rakuda/action"
require "rakuda/given_actions"
require "rakuda/environment"
require "rakuda/shell"
require "rakuda/task_kinds"
require "rakuda/static_needs"
require "rakuda/trace_log"
require "rakuda/rules"
require "rakuda/planner"
require "rakuda/live_display"
require "rakuda/line_output"
require "rakuda/signals"
require "rakuda/failures"
require "rakuda/local_processes"
require "rakuda/blocking_calls"
require "rakuda/node_files"
require "rakuda/sync_rounds"

module Rakuda
  # The life of a link to the hub.
  class Session
    # Seconds that a time on the link may have; no file's has more.
    SECONDS = (-(1 << 63)..((1 << 63) - 1))

    # @!attribute fiber [Fiber, nil] waits for it; nil: the loop's own caller
    # @!attribute begins [Integer] the number at which its plan begins
    # @!attribute ends [Integer] the number after its plan
    # @!attribute waiting [Planner::Waiting, nil] the actions that wait for it
    Invocation = Struct.new(:fiber, :waiting, :begins, :ends, :ended, :failed, :abandoned)

    # @return [WorkingDirectory]
    attr_reader :directory
    # @return [LiveDisplay]
    attr_reader :display
    # @return [Link]
    attr_reader :link
    # @return [Reactor]
    attr_reader :reactor
    # @return [SyncRounds]
    attr_reader :rounds

    # @param application [Application]
    # @param engine [Engine] to which Hello has been said
    # @param settings [Hash] of the message Hello
    def initialize(application, engine, settings)
      @application = application
      @engine = engine
      @link = engine.link
      @moved = {}                          # numbers of actions that left the directory changed for those that follow
      @told = Dir.pwd                      # the directory in which the hub looks at relative names
      @directory = WorkingDirectory.new(shared: application.serial?)
      @reactor = Reactor.new(@link, @directory) { |name, fields| handle(name, fields) }
      @display = LiveDisplay.new(settings["progress"] == "live", @link, @reactor)
      dry = application.options.dryrun
      needs = StaticNeeds.new(application.options.build_all) if dry && application.traces?
      @log = TraceLog.new(application, needs) if application.traces?
      @planner = Planner.new(application, @link, @log, needs)
      @shell = Shell.new(@link, @reactor, Environment.new(@link), @directory, @told)
      @failures = Failures.new(application, @planner)
      @invocations = {}
      @live = []                           # those that have not ended, in the order of where their plans begin
      @next_invocation = 0
      @actions = @actions_now = @actions_max = 0
      @broken = @verbose = @nowrite = nil  # the last two: rake's flags as the next activity finds them
      @rounds = SyncRounds.new(@link, @reactor)
      @leases = {}                         # number of an action that wants a core => the Fiber that waits
      @threads = ObjectSpace::WeakMap.new  # thread => the activity that made it
      @extended = {}.compare_by_identity   # exceptions whose backtrace has been completed
      @signals = Signals.new(@link, @reactor)
      install_hooks(settings)
    end

    # Runs a task and all that it needs, and waits.
    # @param arguments [Rake::TaskArguments, nil]
    # @param base [Rake::InvocationChain, nil]
    # @yield rake's own way, for where the loop cannot be waited for
    def invoke(task, arguments, base, &serially)
      return from_elsewhere(task, arguments, base, serially) unless @reactor.home?
      return serially.call if !@reactor.inside? && @reactor.running?

      caller_activity = @reactor.current
      caller_activity&.ensure_lease
      prepare_top_level unless caller_activity
      tell_directory
      @log&.insert_after(caller_activity&.number)
      first = @planner.tasks.size
      waiting = caller_activity && waiting_actions(caller_activity)
      number = plan(task, arguments, base, waiting)
      number ? wait([number], first, caller_activity, waiting) : @log&.print_walk
      nil
    end

    # Plans tasks that the command line names side by side.
    # @param roots [Array<Array(Rake::Task, Rake::TaskArguments)>]
    # @return [Planner::Plan]
    def plan_together(roots)
      prepare_top_level
      tell_directory
      @log&.insert_after(nil)
      @planner.plan_together(roots)
    end

    # Runs what was planned, and waits.
    # @param plan [Planner::Plan]
    def run_together(plan)
      wait(plan.numbers, plan.begins, nil, nil) unless plan.numbers.empty?
      @log&.print_all # rake would have come so far
    end

    # Plans what is not going to run, so that it is counted.
    # @param tasks [Array<Rake::Task>]
    def plan_unreached(tasks)
      @planner.plan_unreached(tasks)
    end

    # @return [Boolean] whether a task of the plan failed with it
    def failure_of_task?(exception)
      @failures.given?(exception)
    end

    # After a dry run: has the hub tell what would run, and writes it.
    # @param format [String] one of Protocol::PlanFormat
    # @param output [IO]
    def show_plan(format, output)
      @link.send_message("DescribePlan", format)
      @plan_output = output
      @reactor.run { @plan_output.nil? || @broken }
      raise @broken if @broken

      @signals.raise_pending
      output.flush
    end

    # A task got prerequisites or actions.
    def on_enhanced(task, names)
      @planner.extend_task(task, names) if @reactor.home?
    end

    # @return [Activity, nil] the activity whose code is running
    def current_activity
      @reactor.current if @reactor.home?
    end

    # @return [Hash{Symbol => Array<Integer>}] device numbers of the action whose code is running, by resource
    def current_devices
      activity = current_activity
      (activity.is_a?(Action) && activity.devices) || {}
    end

    # @return [Boolean] whether Ruby's own output goes elsewhere than the engine's
    def reopened?
      @shell.reopened
    end

    # @return [Array<Integer>] how many actions were under way at once, and how many there were
    def action_counts
      [@actions_max, @actions]
    end

    # A rule has been tried.
    # @return [Boolean] whether the line about it is printed later, where rake would print it
    def log_rule(text)
      return false unless @log && @planner.walking?

      @log.note(text)
      true
    end

    # An activity of the pool begins.
    def begin_activity
      Rake::FileUtilsExt.verbose_flag = @verbose
      Rake::FileUtilsExt.nowrite_flag = @nowrite
    end

    # An action begins; raises what went wrong before it could.
    def begin_action(action)
      begin_activity
      early = @failures.take_early(action.number)
      raise early if early
    end

    # An activity of the pool has ended.
    def end_activity(activity)
      activity.ended = true
      @verbose = Rake::FileUtilsExt.verbose_flag
      @nowrite = Rake::FileUtilsExt.nowrite_flag
      @output&.finish(activity)
      @display.end_hold(activity)
      @moved[activity.number] = true if tell_directory
    end

    # An action has ended.
    # @param exception [Exception, nil]
    def end_action(action, exception)
      end_activity(action)
      @actions_now -= 1
      number = action.number
      if action.lost
        @link.send_action_ended(number, Protocol::ActionOutcome::FAILED, "") # how it ended does not count
      elsif exception.nil?
        # The action may have given its task a `timestamp` of its own.
        @link.send_message("AskAfter", number) if action.task.rakuda_singular && @planner.asked?(action.task)
        tell_of_silence(action) unless action.commanded
        @link.send_action_ended(number, Protocol::ActionOutcome::OK, "", action.began_ns)
      else
        exception = Failures.name_bound(exception, action.killed_by)
        @failures.add(number, action.task, exception, action.killed_by)
        outcome = exception.is_a?(SystemExit) ? Protocol::ActionOutcome::EXIT : Protocol::ActionOutcome::FAILED
        message = Failures.account(exception, @directory.base, always: @application.ci?, killed_by: action.killed_by)
        @link.send_action_ended(number, outcome, message.b, action.began_ns)
      end
    end

    # The activity waits until its action has a core.
    def wait_for_lease(action)
      raise action.lost if action.lost

      @link.send_message("WantLease", action.number)
      @leases[action.number] = Fiber.current
      action.keep_status { @reactor.park }
      action.leased = true
    rescue Exception # rubocop:disable Lint/RescueException -- the Fiber may serve another activity when the answer comes
      @leases.delete(action.number)
      raise
    end

    # An exception that no action raised has come out of an activity: it ends the loop.
    def broken(exception)
      @broken ||= exception
    end

    # The opaque task whose own way of invoking runs in the current activity.
    # @return [Rake::Task, nil]
    def opaque_task
      activity = current_activity
      activity.task if activity.is_a?(Action) && activity.opaque
    end

    # @return [Rake::InvocationChain] what led to an action's task, without it
    def chain_before(number)
      @planner.chain(number).tail
    end

    # Ends the run.
    # @param failed [Boolean] whether because of an error
    def close(failed)
      @output&.remove
      @signals.defer { @engine.finish(failed) }
      @signals.remove
      Fiber.set_scheduler(nil)
      @signals.raise_pending unless failed
    end

    # @return [String, nil] name of the run, once the engine has said it
    def run_name
      @engine.run
    end

    # @return [String] the engine's program
    def engine_program
      @engine.find
    end

    # In a child made by fork: the loop and the engine are the parent's.
    def forget
      Fiber.set_scheduler(nil)
      @engine.forget
    end

    # Another session follows: tasks invoked in this one are done.
    def retire
      @planner.release_tasks
    end

    # Remembers which activity a new thread belongs to: an invocation of the thread is one of that activity. So is a
    # command, where the activity is a task that a stream joins.
    def adopt(thread)
      activity = current_activity || @threads[Thread.current]
      return unless activity

      @threads[thread] = activity
      activity.turns ||= [] if activity.is_a?(Action) && @application.streams.joins?(activity.task)
    end

    # @return [Action, nil] whose commands those of the running thread are
    def owner_of_thread
      return if @reactor.home? || !@reactor.at_home? || !@reactor.running?

      activity = @threads[Thread.current]
      activity if activity && activity.turns && activity.number_while_running
    end

    # In front of Thread#initialize.
    module ThreadHook
      class << self
        attr_accessor :session
      end

      def initialize(...)
        ThreadHook.session&.adopt(self)
        super
      end
    end

    # In front of Process._fork: the child has no loop.
    module ForkHook
      class << self
        attr_accessor :session
      end

      def _fork
        pid = super
        ForkHook.session&.forget if pid.zero?
        pid
      end
    end

    private

    # What a task writes into a stream its commands write; what Ruby starts or prints itself is easily taken for that.
    def tell_of_silence(action)
      stream = @application.streams.written_by(action.task) or return
      $stderr.puts "#{@application.name}: stream #{stream.name}: task #{action.task.name} started no command with sh, " \
                   "so nothing went into it"
    end

    def install_hooks(settings)
      Shell::Hooks.shell = @shell
      Shell::Hooks.session = self
      FileUtils.prepend(Shell::Hooks) unless FileUtils.include?(Shell::Hooks)
      File.singleton_class.prepend(Shell::Umask) unless File.singleton_class.include?(Shell::Umask)
      [STDOUT, STDERR].map(&:singleton_class).each { |place| place.prepend(Shell::Reopen) unless place.include?(Shell::Reopen) }
      WorkingDirectory::Hooks.session = self
      Dir.singleton_class.prepend(WorkingDirectory::Hooks) unless Dir.singleton_class.include?(WorkingDirectory::Hooks)
      Fiber.set_scheduler(@reactor)
      LocalProcesses.install(self)
      BlockingCalls.install(@reactor, @display)
      NodeFiles.install(self, @link, @reactor, @told) if settings.dig("cluster", "filesystem") == "local"
      ThreadHook.session = self
      Thread.prepend(ThreadHook) unless Thread.include?(ThreadHook)
      ForkHook.session = self
      Process.singleton_class.prepend(ForkHook) unless Process.singleton_class.include?(ForkHook)
      collect = settings["output"] == "task"
      prefix = settings["prefix"] && settings["output"] != "none"
      lines = collect || prefix || @display.wanted? || !@application.serial?
      @output = LineOutput.install(self, collect, prefix, @display) if lines
      @shell.stderr = $stderr
    end

    def plan(task, arguments, base, waiting)
      @planner.plan(task, arguments, base, waiting)
    rescue StandardError
      @log&.print_all
      raise
    end

    # Relative names of files are looked at where activities start.
    # @return [Boolean] whether that has changed
    def tell_directory
      directory = @directory.base
      return false if directory.equal?(@told) || directory == @told

      @told = @shell.start_directory = directory
      @link.send_message("ChangeDirectory", directory.b)
      true
    end

    # What the Rakefile's body has set is what activities begin with.
    def prepare_top_level
      @directory.base = Dir.pwd
      @verbose = Rake::FileUtilsExt.verbose_flag
      @nowrite = Rake::FileUtilsExt.nowrite_flag
    end

    # The caller, and those whose actions wait for the invocation that runs it.
    # @return [Planner::Waiting, nil]
    def waiting_actions(activity)
      number = activity.number or return
      place = (@live.bsearch_index { |one| one.begins > number } || @live.size) - 1
      place -= 1 until place.negative? || number < @live[place].ends
      outer = @live[place].waiting unless place.negative?
      Planner::Waiting.new(number, [number, outer&.least || number].min, outer)
    end

    def wait(numbers, first, caller_activity, waiting)
      id = @next_invocation
      @next_invocation += 1
      invocation = Invocation.new(caller_activity && Fiber.current, waiting, first, @planner.tasks.size, false)
      @invocations[id] = invocation
      @live.insert(@live.bsearch_index { |one| one.begins > first } || @live.size, invocation)
      @display.give_back unless caller_activity
      @link.send_message("Invoke", id, numbers, caller_activity&.number)
      caller_activity ? park(invocation) : watch(invocation)
      raise @broken if @broken

      @signals.raise_pending unless caller_activity
      conclude(invocation)
    end

    # The action waits for its invocation.
    def park(invocation)
      @reactor.park
    ensure
      invocation.fiber = nil # which may serve another activity when the invocation ends
    end

    # Runs the loop until an invocation of the Rakefile's own code has ended. However it ends, the display is gone then.
    def watch(invocation)
      @signals.defer do
        begin
          @reactor.run { invocation.ended || @broken }
        ensure
          @display.take_over
        end
      end
    rescue EngineLost
      @display.wipe
      raise
    end

    def conclude(invocation)
      last = @planner.tasks.size
      @planner.settle_all if @invocations.empty?
      ended_early = @output_error || @stopped
      raise ended_early if ended_early

      exception = @failures.of(invocation.failed, invocation.abandoned)
      return unless exception

      @planner.forget_unstarted(invocation.begins...last)
      raise_here(exception)
    end

    # The backtrace goes on where the action was invoked, as it would without Fibers.
    def raise_here(exception)
      trace = exception.backtrace
      if trace && !@extended.key?(exception)
        @extended[exception] = true
        exception.set_backtrace(trace + caller(1))
      end
      raise exception
    end

    # Another thread invokes: an activity of the loop does it, and the thread waits. Without a loop rake does it.
    def from_elsewhere(task, arguments, base, serially)
      return serially.call unless @reactor.running? && @reactor.at_home?

      answer = Thread::Queue.new
      owner = @threads[Thread.current]
      @reactor.hand_over(Question.new(self, owner&.number_while_running) do
        invoke(task, arguments, base) { nil }
        answer << nil
      rescue Exception => e # rubocop:disable Lint/RescueException -- belongs to the thread
        answer << e
      end)
      exception = answer.pop
      raise exception if exception
    end

    # --- messages of the hub -----------------------------------------------------------------------------------------

    def handle(name, fields)
      case name
      when :CommandEnded then @shell.on_command_ended(*fields)
      when :RunAction then on_run_action(*fields)
      when :FileFetched then NodeFiles.on_fetched(*fields)
      when :RoundEnded, :WorkerOutput then on_round(name, fields)
      when :Leased then @reactor.resume(@leases.delete(fields[0]))
      when :InvocationEnded then on_invocation_ended(*fields)
      when :TaskSettled then @log&.settled(fields[0], @planner.tasks[fields[0]], fields[1])
      when :Resolve, :AskNeeded then on_question(name, fields[0])
      when :AbortAction then on_abort_action(fields[0])
      when :ActionLost then @reactor.lose(fields[0], NodeLost.new(text(fields[1])))
      when :TaskBlamed, :GangRefused then on_task_blamed(name, *fields)
      when :TargetNotStagedOut, :TargetNotMade, :OutputSpoilt then add_failure(name, *fields)
      when :NodesGone, :NeedsRefused then @stopped = (name == :NodesGone ? NodesGone : RakefileError).new(text(fields[0]))
      when :AttemptFailed then @failures.on_attempt(*fields)
      when :TargetMissing then on_target_missing(fields[0])
      when :Plan then on_plan(*fields)
      when :DisplayHeld then @display.on_held
      when :OutputLost then on_output_lost(fields[0])
      when :NothingLeft then @reactor.nothing_left(fields[0])
      when :Warning then $stderr.puts(text(fields[0]))
      when :Welcome then on_welcome(fields)
      when :Refused then raise ConfigurationError, text(fields[0])
      else raise EngineError, "the engine sent a message that this front does not know: #{name}"
      end
    end

    def on_round(name, fields)
      name == :RoundEnded ? @rounds.on_ended(*fields) : @rounds.on_output(*fields)
    end

    def text(bytes)
      bytes.dup.force_encoding(Encoding::UTF_8)
    end

    def on_welcome(fields)
      @engine.welcome(*fields)
      @application.show_page(engine_program, run_name)
    end

    def on_run_action(number, attempt, node, devices, leased)
      return @link.send_action_ended(number, Protocol::ActionOutcome::OK, "") if @planner.superseded?(number)

      task = @planner.tasks[number]
      task.rakuda_started = true
      @log&.run(number)
      action = Action.new(self, number, task, @planner.arguments(number))
      action.attempt = attempt
      action.node = node
      action.opaque = @planner.traits(task).opaque
      action.leased = leased
      action.devices = devices
      @actions += 1
      @actions_now += 1
      @actions_max = @actions_now if @actions_now > @actions_max
      @reactor.start(action)
    end

    def on_invocation_ended(id, failed, abandoned)
      invocation = @invocations.delete(id) or return
      @live.delete_if { |one| one.equal?(invocation) }
      invocation.ended = true
      invocation.failed = failed
      invocation.abandoned = abandoned
      @reactor.resume(invocation.fiber) if invocation.fiber
    end

    # The hub says why a task failed, of which its action knows nothing.
    def add_failure(name, number, reason)
      kind = { TargetNotMade: TargetNotMade, OutputSpoilt: OutputSpoilt }.fetch(name, StagingFailed)
      task = @planner.tasks[number]
      error = kind.new(text(reason))
      error.set_backtrace([place_of(task)].compact)
      @failures.add(number, task, error)
    end

    # File and line of a task.
    def place_of(task)
      file, line = task.actions.first&.source_location
      task.locations.first || ("#{file}:#{line}" if file)
    end

    def on_task_blamed(name, number, reason, slots = nil)
      task = @planner.tasks[number]
      if name == :GangRefused
        @failures.add_refusal(number, task, refusal_of(task, text(reason), slots))
      else
        @failures.add(number, task, TaskBlamed.new(text(reason)))
      end
      @failures.told_by_engine(number)
    end

    # Who has made the gang may have better words than its tasks.
    def refusal_of(task, reason, slots)
      @application.gangs.of(task)&.refusal&.call(reason, slots) || GangRefused.new(reason)
    end

    def on_question(name, number)
      name == :Resolve ? on_resolve(number) : on_ask_needed(number)
    end

    def on_resolve(number)
      question = Question.new(self, nil) do
        @planner.resolve(number)
        @link.send_message("Resolved", number, true)
      rescue StandardError => e
        @log&.print_all
        @failures.add(number, @planner.tasks[number], e)
        @failures.tell_at_once(number)
        @link.send_message("Resolved", number, false)
      end
      @reactor.start(question)
    end

    def on_ask_needed(number)
      task = @planner.tasks[number]
      question = Question.new(self, nil) do
        needed = @planner.traits(task).opaque || task.needed?
        @link.send_message("NeededAnswered", number, needed ? true : false, stamp(task, needed))
      rescue StandardError => e
        @failures.add_before_action(number, task, e)
        @link.send_message("NeededAnswered", number, true, Protocol::Timestamp::NOW)
      end
      @reactor.start(question)
    end

    # A file's time after its action is not known before it: dependents of one that will run take it as new.
    def stamp(task, needed)
      time = task.timestamp
      return Protocol::Timestamp::EARLY if time.equal?(Rake::EARLY)
      return Protocol::Timestamp::NOW if needed && task.is_a?(Rake::FileTask)
      return Protocol::Timestamp::LATE if time.equal?(Rake::LATE)
      return Protocol::Timestamp::NOW if time.is_a?(Time) && task.method(:timestamp).owner == Rake::Task

      Protocol::Timestamp.at(time.to_i.clamp(SECONDS), time.nsec)
    end

    def on_abort_action(number)
      @failures.on_abort(number)
      @reactor.abort(number, ActionAborted.new("aborted: another task failed"))
    end

    # A piece of the answer to DescribePlan.
    def on_plan(bytes, last)
      @plan_output.write(bytes.dup.force_encoding(Encoding::UTF_8))
      @plan_output = nil if last
    end

    # The hub is stopping the run; this is why it fails.
    def on_output_lost(reason)
      @output_error = OutputError.new("cannot write what commands print: #{text(reason)}")
    end

    def on_target_missing(number)
      task = @planner.tasks[number]
      # An action that has moved may have made its file where it was before.
      return if task.nil? || task.actions.empty? || @moved.key?(number)

      place = place_of(task)
      $stderr.puts "#{@application.name}: task #{task.name} ended well but its file does not exist#{" (#{place})" if place}"
    end
  end
end
