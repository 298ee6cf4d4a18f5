# frozen_string_literal: true

# SIGINT and SIGTERM while an engine runs: told to the hub at once, and to local waits. The handlers only push bytes
# and set fields, since they may come in between anything.

module Rakuda
  # Signal handlers of a session.
  class Signals
    # After so many SIGINTs nothing is waited for.
    PATIENCE = 3

    # @param link [Link]
    # @param reactor [Reactor]
    def initialize(link, reactor)
      @link = link
      @reactor = reactor
      @process = Process.pid
      @interrupts = 0
      @pending = nil
      @deferring = false
      @before = { "INT" => trap("INT") { on_interrupt }, "TERM" => trap("TERM") { on_terminate } }
    end

    # Raises what a signal asked for, once nothing runs any more.
    def raise_pending
      raise @pending if @pending
    end

    # What comes during the block and cannot be told to the loop is kept for raise_pending: the display is still
    # there, or the engine about to end.
    def defer
      before = @deferring
      @deferring = true
      yield
    ensure
      @deferring = before
    end

    # Puts the former handlers back. When a signal is what ends the run, further ones do not disturb its end, as long as
    # they are no more than PATIENCE.
    def remove
      return @deferring = true if @pending

      @before.each { |name, handler| trap(name, handler || "DEFAULT") }
    end

    private

    def on_interrupt
      raise Interrupt, "" unless Process.pid == @process

      @interrupts += 1
      exit!(130) if @interrupts > PATIENCE
      stop(Interrupt.new(""), @interrupts == 1 ? "interrupt" : "kill")
    end

    def on_terminate
      raise SignalException, "TERM" unless Process.pid == @process

      stop(SignalException.new("TERM"), "interrupt")
    end

    def stop(exception, how)
      @pending ||= exception
      unless @reactor.running?
        raise exception unless @deferring || ending?

        return
      end
      @link.interject("Stop", how)
      # Waits are ended by the loop; Ruby code of an action is interrupted where it is.
      @reactor.interrupt_later(exception)
      raise exception if @reactor.inside? && !@reactor.waiting
    end

    # What the first signal has begun is not interrupted by the next.
    def ending?
      current = $! # rubocop:disable Style/SpecialGlobalVars
      current.is_a?(SystemExit) || (!current.nil? && current.equal?(@pending))
    end
  end
end
