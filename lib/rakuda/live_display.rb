# frozen_string_literal: true

# The front's part of the live display, which the engine draws at the bottom of the terminal: says when the terminal is
# wanted for something else, and sees to it that what Ruby code writes past the engine does not end up in the middle of
# it. It does not know what the display shows.

module Rakuda
  # Who may write to the terminal just now.
  class LiveDisplay
    # Erases what the engine has drawn: its cursor rests at the beginning.
    ERASE = "\r\e[J"

    # By descriptor.
    STREAMS = { 1 => STDOUT, 2 => STDERR }.freeze

    # A Fiber, or the loop's own caller, that waits until the display is gone.
    Hold = Struct.new(:fiber, :done)

    # @param wanted [Boolean] whether there is a display at all
    # @param link [Link]
    # @param reactor [Reactor]
    def initialize(wanted, link, reactor)
      @wanted = wanted
      @link = link
      @reactor = reactor
      @holds = []         # in the order in which the engine answers
      @top_level = false  # nothing is invoked: the terminal is the Rakefile's
      @count = 0          # holds that the engine has granted and that have not been given back
      install if wanted
    end

    # @return [Boolean]
    def wanted?
      @wanted
    end

    # Whether what the loop and its activities write is to go through the engine.
    # @param activity [Activity, nil] that writes
    def through_engine?(activity)
      @wanted && @reactor.running? && @reactor.home? && !@top_level && !activity&.display_held
    end

    # A task is invoked from the Rakefile's own code: the engine may draw.
    def give_back
      return unless @top_level

      @top_level = false
      release
    end

    # Nothing is invoked any more: waits until all that was to be written is, and the display is gone.
    def take_over
      return if !@wanted || @top_level

      hold = request(nil)
      @reactor.run { hold.done }
      @top_level = true
    end

    # An activity is about to start a process, or to read from the terminal: waits until the display is gone.
    # @param activity [Activity, nil]
    # @yield afterwards the display may be there again; without a block not before the end of the activity
    def without(activity)
      return (yield if block_given?) if !@wanted || activity.nil? || activity.display_held || !@reactor.inside?

      hold_for(activity)
      return unless block_given?

      begin
        yield
      ensure
        end_hold(activity)
      end
    end

    # An activity has ended.
    def end_hold(activity)
      return unless activity.display_held

      activity.display_held = false
      release
    end

    # The message DisplayHeld has come.
    def on_held
      hold = @holds.shift
      @count += 1
      return release if hold.done == :given_up

      hold.done = true
      @reactor.resume(hold.fiber) if hold.fiber
    end

    # @return [Boolean] whether something may be drawn that a write past the engine would meet
    def visible?
      @wanted && @reactor.running? && @count.zero?
    end

    # The engine is gone without a word: what it has drawn is taken away.
    def wipe
      STDERR.syswrite(ERASE) if @wanted && @count.zero? && Process.pid == @process
    rescue SystemCallError
      nil # no terminal any more
    end

    # In front of the `write` of STDOUT and STDERR, for what is written past the engine.
    module DirectWrite
      class << self
        # @return [LiveDisplay, nil]
        attr_accessor :display
      end

      def write(*texts)
        return super unless DirectWrite.display&.visible? && tty?

        super("#{ERASE}#{texts.join}")
      end

      def syswrite(text)
        super(DirectWrite.display&.visible? && tty? ? "#{ERASE}#{text}" : text)
      end
    end

    private

    def install
      @process = Process.pid
      DirectWrite.display = self
      [STDOUT, STDERR].map(&:singleton_class).each { |place| place.prepend(DirectWrite) unless place.include?(DirectWrite) }
    end

    def request(fiber)
      hold = Hold.new(fiber, false)
      @holds << hold
      @link.send_message("HoldDisplay", true)
      hold
    end

    def hold_for(activity)
      hold = request(Fiber.current)
      activity.keep_status { @reactor.park }
      activity.display_held = true
    ensure
      give_up(hold) unless activity.display_held
    end

    # The wait was ended by something else.
    def give_up(hold)
      hold.done == true ? release : hold.done = :given_up
    end

    def release
      @count -= 1
      @link.send_message("HoldDisplay", false)
    end
  end
end
