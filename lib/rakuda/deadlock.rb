# frozen_string_literal: true

# Finds out whether what actions wait for can never come: Ruby does so for its threads, but does not know Fibers. All
# others must be waiting for ever too: the threads, and the hub. It does not know what the Fibers wait for, and
# raises nothing itself.

module Rakuda
  # The Fibers of a reactor that wait for another Fiber or thread without a limit.
  class Deadlock
    # Seconds between looks at threads that are still at something.
    PATIENCE = 0.5
    # Ruby's word for a thread that only another one can wake.
    FOR_EVER = /\bsleep_forever>\z/.freeze

    # @param reactor [Reactor]
    # @param link [Link]
    def initialize(reactor, link)
      @reactor = reactor
      @link = link
      @waiting = {}.compare_by_identity   # Fiber => true
      @asked = nil                        # the turn of the loop in which the hub was asked last
      @confirmed = nil                    # that of its answer
      @bell = Thread::Queue.new           # on which the loop's thread waits while Ruby looks
      @listening = false
      @error = nil                        # Ruby's, when there was a deadlock before
    end

    def add(fiber)
      @waiting[fiber] = true
    end

    def remove(fiber)
      @waiting.delete(fiber)
    end

    # @return [Array<Fiber>]
    def fibers
      @waiting.keys
    end

    # The hub has answered.
    def confirm(turn)
      @confirmed = turn
    end

    # Something may have happened; from any thread and from signal handlers.
    def wake
      @bell << true if @listening
    end

    # @return [Float, nil] seconds until it is worth looking again
    def patience
      PATIENCE unless @waiting.empty? || @asked == @reactor.turn
    end

    # Looks, when all Fibers that do not wait for the hub wait in here. Asks the hub first; after its answer, Ruby.
    # @return [Boolean] whether there was a deadlock: the Fibers are to go on with Ruby's error
    def found?
      return false if @waiting.empty? || !threads_asleep?
      return ask && false unless @confirmed == @reactor.turn

      @confirmed = nil
      known = @error
      @error ||= ask_ruby
      return false unless known ? still_asleep? : @error

      @reactor.raise_in_blocked(@error)
      true
    end

    private

    def threads_asleep?
      Thread.list.all? { |thread| thread.equal?(Thread.current) || FOR_EVER.match?(thread.inspect) }
    end

    # Ruby looks for a deadlock once only: having raised its error, it takes the thread for interrupted.
    def still_asleep?
      Thread.list.one? || (sleep(PATIENCE) && threads_asleep?)
    end

    def ask
      return if @asked == @reactor.turn

      @asked = @reactor.turn
      @link.send_message("Stuck", @reactor.turn & 0xffff_ffff)
      @link.flush
    end

    # A thread that has just been woken looks asleep until it runs; Ruby knows.
    # @return [Exception, nil]
    def ask_ruby
      @bell.clear
      @listening = true
      @reactor.asleep { @bell.pop }
      nil
    rescue Exception => e # rubocop:disable Lint/RescueException -- Ruby has no name for the class of this one
      raise unless e.class.name == "fatal"

      e
    ensure
      @listening = false
    end
  end
end
