# frozen_string_literal: true

# The rakuda that a MegaScript program starts and waits for. Signals that are to end the program end that first, and it
# does not outlive the program. It knows nothing of what is run.

require "fiddle"

module MegaScript
  # A child process.
  class Child
    # What ends a run in good order.
    SIGNALS = %w[INT TERM HUP QUIT].freeze
    # What the parent sends to the child. Ctrl-C is sent to the whole group, and a second SIGINT would end its commands
    # at once.
    PASSED_AS = { "INT" => "TERM" }.freeze
    # Seconds in which a SIGINT that was sent to the group arrives in the child, which then ends as by that.
    GROUP_SECONDS = 0.2
    # prctl(PR_SET_PDEATHSIG, signal): the caller gets the signal when the thread that made it is gone.
    PRCTL = Fiddle::Function.new(Fiddle::Handle::DEFAULT["prctl"], [Fiddle::TYPE_INT] + ([Fiddle::TYPE_LONG] * 4),
                                 Fiddle::TYPE_INT)
    PR_SET_PDEATHSIG = 1
    private_constant :PRCTL, :PR_SET_PDEATHSIG

    # @param words [Array] as of `exec`
    def initialize(words)
      @words = words
      @id = nil                  # of the process while it is there
      @signal = nil              # the first that has come
      @before = {}               # name of a signal => the handler of the program
    end

    # Runs it. When a signal has come meanwhile, the program then does what it would have done at once: its own handler
    # runs, or the signal's exception is raised, with no backtrace of these lines.
    # @return [Integer] the exit status, as a shell has it
    def run
      @id = start
      handle_signals
      status = wait
      restore_handlers
      answer_signal
      status.exitstatus || (128 + status.termsig)
    ensure
      restore_handlers
    end

    private

    def start
      program = Process.pid
      fork do
        PRCTL.call(PR_SET_PDEATHSIG, Signal.list["TERM"], 0, 0, 0)
        exit!(1) unless Process.ppid == program
        begin
          exec(*@words)
        rescue SystemCallError => e
          $stderr.puts "#{$PROGRAM_NAME}: #{e.message}"
          exit!(127)
        end
      end
    end

    # @return [Process::Status] once it has ended, also when the program does not want to wait for that any more
    def wait
      Process.wait2(@id).last.tap { @id = nil }
    rescue Exception # rubocop:disable Lint/RescueException -- the child must not outlive the wait, whatever ends it
      pass("TERM")
      Process.wait(@id) if @id
      raise
    end

    def handle_signals
      SIGNALS.each do |name|
        before = trap(name) { on_signal(name) }
        next trap(name, before) if before == "IGNORE" # as below nohup; the child ignores it, too

        @before[name] = before || "DEFAULT"
      end
    end

    def restore_handlers
      @before.each { |name, handler| trap(name, handler) }
    end

    def on_signal(name)
      @signal ||= name
      return pass(name) unless PASSED_AS.key?(name)

      Thread.new do
        sleep GROUP_SECONDS
        pass(PASSED_AS[name])
      end
    end

    def pass(name)
      id = @id
      Process.kill(name, id) if id
    rescue Errno::ESRCH
      nil # it has ended
    end

    def answer_signal
      return unless @signal
      return Process.kill(@signal, Process.pid) if @before[@signal].is_a?(Proc) || !Thread.current.equal?(Thread.main)

      exception = @signal == "INT" ? Interrupt.new("") : SignalException.new(@signal)
      exception.set_backtrace([])
      raise exception
    end
  end
end
