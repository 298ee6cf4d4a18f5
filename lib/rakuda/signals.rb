# frozen_string_literal: true

# SIGINT, SIGTERM, SIGHUP and SIGQUIT while an engine runs: told to the hub at once, and to local waits. The handlers
# only push bytes and set fields, since they may come in between anything. A handler that the Rakefile has set before
# comes first, and as with rake the run goes on unless it raises; one that an action sets takes the place of ours.

module Rakuda
  # Signal handlers of a session.
  class Signals
    # Number of SIGINTs after which nothing is waited for.
    PATIENCE = 3
    # What ends a run in good order. Others end Ruby as they do with rake, and the engine then ends the rest.
    NAMES = %w[INT TERM HUP QUIT].freeze

    # Those of them that this process ignores, as below nohup or in the background of a script: what it starts ignores
    # them, too.
    # @return [Array<String>]
    def self.ignored
      mask = File.read("/proc/self/status")[/^SigIgn:\s*(\h+)/, 1].to_s.hex
      NAMES.select { |name| mask[Signal.list[name] - 1] == 1 }
    end

    # @param link [Link]
    # @param reactor [Reactor]
    def initialize(link, reactor)
      @link = link
      @reactor = reactor
      @process = Process.pid
      @interrupts = 0
      @pending = nil
      @deferring = false
      @own = NAMES.to_h { |name| [name, name == "INT" ? proc { on_interrupt } : proc { on_terminate(name) }] }
      ignored = Signals.ignored
      @own.reject! { |name, _| ignored.include?(name) }
      @before = @own.to_h { |name, handler| [name, trap(name, handler)] }
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

      @before.each do |name, handler|
        last = trap(name, handler || "DEFAULT")
        trap(name, last) unless last.equal?(@own[name]) # an action's
      end
    end

    private

    def on_interrupt
      given = ask_rakefile("INT") { return }
      raise Interrupt, "" unless Process.pid == @process

      @interrupts += 1
      exit!(130) if @interrupts > PATIENCE
      stop(given || Interrupt.new(""), @interrupts == 1 ? Protocol::StopHow::INTERRUPT : Protocol::StopHow::KILL)
    end

    def on_terminate(name)
      given = ask_rakefile(name) { return }
      raise SignalException, name unless Process.pid == @process

      stop(given || SignalException.new(name), Protocol::StopHow::INTERRUPT)
    end

    # Calls the handler that the Rakefile had set.
    # @yield when it has, and the signal means nothing more
    # @return [Exception, nil] what it has raised; nil: it had set none
    def ask_rakefile(name)
      handler = @before[name]
      exit if handler == "EXIT"
      return unless handler.is_a?(Proc) || %w[IGNORE SIG_IGN].include?(handler)

      handler.call(Signal.list[name]) if handler.is_a?(Proc)
      yield
    rescue Exception => e # rubocop:disable Lint/RescueException -- whatever it is, it ends the run and not a message half sent
      raise unless Process.pid == @process

      e
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
