# frozen_string_literal: true

# The Fiber scheduler: runs activities (actions, and questions of the hub) in Fibers of a pool and keeps them from
# holding up one another. It knows Fibers, clocks, IO and directories, and neither tasks nor messages: what comes in on
# the link is handed to a block.
#
# All switches are `transfer`s between the loop's Fiber and the others, so that a Fiber nested in an activity (an
# Enumerator) can wait too. The loop waits in one plain read of the link when nothing else can wake it.

require "rakuda/timeouts"
require "rakuda/deadlock"

module Rakuda
  # Ruby's Fiber::Scheduler interface over one link.
  class Reactor
    # The activity whose Fiber runs now; nil in the loop itself and outside.
    # @return [#directory, nil]
    attr_reader :current

    # How often the loop has switched to a Fiber: what was found out of all that wait holds for one turn.
    # @return [Integer]
    attr_reader :turn

    # @param link [Link]
    # @param directory [WorkingDirectory] told whenever an activity is switched to
    # @param on_message [Proc] called with the name and fields of every message
    def initialize(link, directory, &on_message)
      @link = link
      @directory = directory
      @on_message = on_message
      @process = Process.pid                      # a child made by fork has no loop
      @thread = Thread.current
      @loop_fiber = nil
      @current = nil
      @idle = []                                  # Fibers of the pool without an activity
      @ready = []                                 # [Fiber, activity, value]: to be switched to
      @activities = {}.compare_by_identity        # Fiber that waits => its activity
      @timers = []                                # [time, Fiber, token, entry of a Timeout or nil], the latest first
      @waits = []                                 # [io, events, Fiber, token]
      @blocked = 0                                # Fibers in `block`
      @turn = 0
      @deadlock = Deadlock.new(self, link)
      @tokens = {}.compare_by_identity            # Fiber => token of what it waits for; a stale token is not served
      @foreign = Thread::Queue.new                # blocks handed over by other threads, and Fibers that they unblock
      @wake_reader, @wake_writer = IO.pipe
      @interruption = nil                         # raised in all local waits when the loop comes round
      @timeouts = Timeouts.new(self)
      @waiting = false                            # in select or read: a signal handler must not raise here
    end

    attr_reader :waiting

    # @return [Boolean] whether the caller may wait for the loop
    def inside?
      !@current.nil? && Thread.current == @thread && Process.pid == @process
    end

    # @return [Activity, nil] the activity whose Fiber runs now and is not about to wait
    def computing
      @current if inside? && !@waiting && !Fiber.current.equal?(@loop_fiber) && !@activities.key?(Fiber.current)
    end

    # @return [Float] seconds
    def self.now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end

    # @return [Boolean] whether the loop runs, here or further up the stack
    def running?
      !@loop_fiber.nil?
    end

    # @return [Boolean] whether this is the process that made the loop
    def at_home?
      Process.pid == @process
    end

    # @return [Boolean] whether this is the loop's own thread in the process that made it
    def home?
      Thread.current == @thread && Process.pid == @process
    end

    # Runs the loop until the block says that it is done.
    def run
      outer = @loop_fiber
      @loop_fiber = Fiber.current
      until yield
        run_ready
        next unless @ready.empty?

        @link.flush
        break if yield

        wait
      end
    ensure
      @loop_fiber = outer
      @current = nil unless outer # also when a signal's exception has come out of an activity's Fiber
    end

    # Starts an activity in a Fiber of the pool, from the loop.
    # @param activity [#run, #directory] something that runs and raises nothing
    def start(activity)
      fiber = @idle.pop || new_fiber
      switch(fiber, activity, activity)
    end

    # The Fiber waits until `resume` names it. Raises the value when it is an exception.
    def park
      fiber = Fiber.current
      activity = @current
      activity.suspend
      @activities[fiber] = activity
      value = @loop_fiber.transfer
      activity.continue
      raise value if value.is_a?(Exception)

      value
    end

    # Lets a waiting Fiber go on with a value, at once; only from the loop.
    def resume(fiber, value = nil)
      activity = fiber && @activities.delete(fiber)
      switch(fiber, activity, value) if activity
    end

    # Lets a waiting Fiber go on soon; from anywhere in the thread.
    def resume_later(fiber, value = nil)
      activity = @activities.delete(fiber)
      @ready << [fiber, activity, value] if activity
    end

    # Ends the waiting of every Fiber of the pool that waits for something local (no command, no invocation).
    def interrupt_local(exception)
      # Those whose waiting is over already, and that are about to go on.
      @ready.each { |entry| entry[2] = exception unless entry[2].equal?(entry[1]) }
      @tokens.keys.each do |fiber| # rubocop:disable Style/HashEachMethods -- the hash changes meanwhile
        @tokens.delete(fiber)
        resume_later(fiber, exception)
      end
    end

    # Raises in the activity of a task's action, which waits now; an activity that does not wait is past the point
    # already.
    def abort(number, exception)
      fiber, = @activities.find { |_fiber, activity| activity.number == number }
      return unless fiber

      @tokens.delete(fiber)
      resume_later(fiber, exception)
    end

    # Ends whatever the activities of a task's action wait for, also what is about to go on, and has them know.
    def lose(number, exception)
      @ready.each do |entry|
        next unless entry[1].number == number

        entry[1].lost = exception
        entry[2] = exception unless entry[2].equal?(entry[1])
      end
      @activities.select { |_fiber, activity| activity.number == number }.each do |fiber, activity|
        activity.lost = exception
        @tokens.delete(fiber)
        resume_later(fiber, exception)
      end
    end

    # Ends the local waits of all activities as soon as the loop comes round; from signal handlers.
    def interrupt_later(exception)
      @interruption = exception
      wake
    end

    # Runs an activity in the loop's thread; from another thread.
    def hand_over(activity)
      @foreign << activity
      wake
    end

    # Runs a block in a further Fiber of an activity, in the loop's thread; from another thread.
    # @yield must deal with its own exceptions
    def hand_over_for(activity, &block)
      @foreign << [activity, block]
      wake
    end

    # The hub says that nothing is left that could wake an activity that waits.
    # @param turn [Integer] of the loop when it was asked
    def nothing_left(turn)
      @deadlock.confirm(turn)
    end

    # Raises in all Fibers that wait for another Fiber or thread without a limit.
    # @param exception [Exception] raised in each as one of its own
    def raise_in_blocked(exception)
      @deadlock.fibers.each do |fiber|
        @tokens.delete(fiber)
        resume_later(fiber, exception.exception(exception.message).tap { |one| one.set_backtrace(nil) })
      end
    end

    # @yield while what other threads and signal handlers do wakes the loop
    def asleep
      @waiting = true
      yield
    ensure
      @waiting = false
    end

    # Wakes the loop; may be called from other threads and from signal handlers.
    def wake
      @deadlock.wake
      @wake_writer.write_nonblock(".", exception: false)
    end

    # --- the Fiber::Scheduler interface -------------------------------------------------------------------------

    def io_wait(io, events, timeout = nil)
      @current.ensure_lease
      fiber = Fiber.current
      token = [fiber]
      @tokens[fiber] = token
      @waits << [io, events, fiber, token]
      add_timer(timeout, fiber, token) if timeout
      @current.keep_status { park } || false
    ensure
      @waits.reject! { |wait| wait[3].equal?(token) }
      @tokens.delete(fiber)
    end

    def kernel_sleep(duration = nil)
      block(duration.nil? && of_condition?(caller_locations(1, 2)) ? :condition : :sleep, duration)
      true
    end

    # Whether a Fiber sleeps in a condition variable: only another one can wake it, and not a signal.
    def of_condition?(callers)
      callers.map { |frame| frame.base_label[/\w+\z/] } == %w[sleep wait]
    end
    private :of_condition?

    def block(blocker, timeout = nil)
      @current.ensure_lease
      fiber = Fiber.current
      token = [fiber]
      @tokens[fiber] = token
      @blocked += 1
      @deadlock.add(fiber) unless timeout || blocker == :sleep # which a signal may end, says Ruby
      add_timer(timeout, fiber, token) if timeout
      @current.keep_status { park } ? true : false
    ensure
      @blocked -= 1
      @deadlock.remove(fiber)
      @tokens.delete(fiber)
    end

    def unblock(_blocker, fiber)
      if Thread.current == @thread && !@waiting
        @foreign << fiber
      else
        @foreign << fiber
        wake
      end
    end

    def process_wait(pid, flags)
      Thread.new { Process::Status.wait(pid, flags) }.value
    end

    def timeout_after(duration, klass, message)
      exception = klass.is_a?(Class) ? klass.new(message) : RuntimeError.new(message)
      entry = @timeouts.add(now + duration, @current, exception)
      add_timer(duration, entry.fiber, entry, entry)
      yield duration
    ensure
      @timeouts.remove(entry)
      @timers.reject! { |timer| timer[2].equal?(entry) }
    end

    # `Fiber.schedule` inside an activity: a further Fiber of the same activity.
    def fiber(&block)
      here = Fiber.current
      activity = @current
      fresh = Fiber.new(blocking: false) do
        begin
          block.call
        rescue StandardError => e
          warn e.full_message
        end
        @loop_fiber.transfer
      end
      @ready << [here, activity, nil]
      @activities.delete(fresh)
      @ready.unshift([fresh, activity, nil])
      @loop_fiber.transfer if @current
      fresh
    end

    def close; end

    private

    def new_fiber
      Fiber.new(blocking: false) do |activity|
        loop do
          activity.run
          @idle << Fiber.current
          activity = @loop_fiber.transfer
        end
      end
    end

    def fiber_of(block)
      Fiber.new(blocking: false) do
        block.call
        @loop_fiber.transfer
      end
    end

    def switch(fiber, activity, value)
      @current = activity
      @turn += 1
      @directory.enter(activity)
      fiber.transfer(value)
      @current = nil
    end

    def run_ready
      take_foreign unless @foreign.empty?
      if @interruption
        interrupt_local(@interruption)
        @interruption = nil
      end
      until @ready.empty?
        fiber, activity, value = @ready.shift
        switch(fiber, activity, value)
        take_foreign unless @foreign.empty?
      end
    end

    def take_foreign
      until @foreign.empty?
        item = @foreign.pop
        if item.is_a?(Fiber)
          @tokens.delete(item)
          resume_later(item, true)
        elsif item.is_a?(Array)
          @ready << [fiber_of(item.last), item.first, nil]
        else
          @ready << [@idle.pop || new_fiber, item, item]
        end
      end
    end

    # Waits for whatever comes first. Nothing but the link can wake a loop without timers, IO and other threads.
    def wait
      if @timers.empty? && @waits.empty? && @blocked.zero? && Thread.list.size == 1 + @timeouts.threads
        receive
      else
        return if @deadlock.fibers.size == @blocked && @timers.empty? && @waits.empty? && @deadlock.found?

        select
        fire_timers unless @timers.empty?
      end
    end

    def receive
      @waiting = true
      @link.receive do |name, fields|
        @waiting = false
        @on_message.call(name, fields)
      end
    ensure
      @waiting = false
    end

    def select
      readers = [@link.socket, @wake_reader]
      writers = []
      @waits.each do |io, events, _fiber, _token|
        readers << io unless (events & (IO::READABLE | IO::PRIORITY)).zero?
        writers << io unless (events & IO::WRITABLE).zero?
      end
      @waiting = true
      readable, writable, = IO.select(readers, writers, nil, timeout)
      @waiting = false
      return unless readable

      @wake_reader.read_nonblock(4096, exception: false) if readable.include?(@wake_reader)
      serve_io(readable, writable) unless @waits.empty?
      receive if readable.first.equal?(@link.socket)
    ensure
      @waiting = false
    end

    def serve_io(readable, writable)
      @waits.dup.each do |io, events, fiber, token|
        got = 0
        got |= events & (IO::READABLE | IO::PRIORITY) if readable.include?(io)
        got |= IO::WRITABLE if events & IO::WRITABLE != 0 && writable.include?(io)
        resume_later(fiber, got) if got != 0 && @tokens[fiber].equal?(token)
      end
    end

    def now
      Reactor.now
    end

    def timeout
      return @deadlock.patience if @timers.empty?

      [@timers.last[0] - now, 0].max
    end

    def add_timer(seconds, fiber, token, timeout = nil)
      time = now + seconds
      at = @timers.bsearch_index { |timer| timer[0] <= time } || @timers.size
      @timers.insert(at, [time, fiber, token, timeout])
    end

    def fire_timers
      time = now
      while @timers.any? && @timers.last[0] <= time
        _, fiber, token, timeout = @timers.pop
        next end_wait(timeout) if timeout
        next unless @tokens[fiber].equal?(token)

        @tokens.delete(fiber)
        resume_later(fiber, false)
      end
    end

    # The time of a Timeout is up: any wait of its activity is ended, or what was about to go on after one.
    # @param entry [Timeouts::Entry]
    def end_wait(entry)
      return if entry.fired

      entry.fired = true
      fiber = @activities.key?(entry.fiber) ? entry.fiber : @activities.key(entry.activity)
      @tokens.delete(fiber)
      return resume_later(fiber, entry.exception) if fiber

      ready = @ready.find { |_, activity, value| activity.equal?(entry.activity) && !value.equal?(activity) }
      ready ? ready[2] = entry.exception : entry.fired = false
    end
  end
end
