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
      @before = { "INT" => trap("INT") { on_interrupt }, "TERM" => trap("TERM") { on_terminate } }
    end

    # Raises what a signal asked for, once nothing runs any more.
    def raise_pending
      raise @pending if @pending
    end

    # Puts the former handlers back.
    def remove
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
      raise exception unless @reactor.running?

      @link.interject("Stop", how)
      # Waits are ended by the loop; Ruby code of an action is interrupted where it is.
      @reactor.interrupt_later(exception)
      raise exception if @reactor.inside? && !@reactor.waiting
    end
  end
end
