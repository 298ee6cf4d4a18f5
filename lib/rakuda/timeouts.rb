# frozen_string_literal: true

# `Timeout.timeout` in actions. One that waits is woken by the reactor's timers; one that computes is interrupted here:
# a thread watches the clock and sends SIGURG (which does nothing elsewhere) to the process, whose handler runs in
# the Fiber that computes and can tell whether the time is up for its activity. It does not know what the activities do.

module Rakuda
  # The limits that hold now.
  class Timeouts
    # @!attribute fired [Boolean] its exception has been raised, or is about to be
    # @!attribute over [Boolean] its block has ended
    Entry = Struct.new(:time, :fiber, :activity, :exception, :fired, :over)

    # Seconds between looks at the clock, and between signals when the time is up.
    PERIOD = 0.05
    # Nothing of Rakuda itself is interrupted: a message would be left half written.
    OWN = "#{__dir__}/".freeze

    # @param reactor [Reactor]
    def initialize(reactor)
      @reactor = reactor
      @entries = []
      @added = Thread::Queue.new
      @watchdog = nil
    end

    # @return [Integer] threads of our own
    def threads
      @watchdog ? 1 : 0
    end

    # @return [Entry] to be ended with `remove`
    def add(time, activity, exception)
      @watchdog ||= start_watchdog
      entry = Entry.new(time, Fiber.current, activity, exception, false, false)
      @entries << entry
      @added << entry
      entry
    end

    def remove(entry)
      entry.over = true
      @entries.delete_if { |one| one.equal?(entry) }
    end

    private

    def start_watchdog
      process = Process.pid
      trap("URG") { interrupt if Process.pid == process }
      Thread.new { watch }
    end

    def watch
      pending = []
      loop do
        pending << @added.pop while pending.empty? || !@added.empty?
        pending.reject!(&:over)
        Process.kill("URG", Process.pid) if pending.any? { |entry| entry.time <= Reactor.now }
        sleep(PERIOD) unless pending.empty?
      end
    end

    # In the signal handler: raises where the time is up, unless the loop sees to it.
    def interrupt
      activity = @reactor.computing or return
      return if caller_locations(2, 1)&.first&.absolute_path&.start_with?(OWN)

      now = Reactor.now
      entry = @entries.find { |one| one.activity.equal?(activity) && !one.fired && one.time <= now } or return
      entry.fired = true
      raise entry.exception
    end
  end
end
