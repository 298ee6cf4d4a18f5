# frozen_string_literal: true

require "rakuda/bench/errors"
require "rakuda/bench/figures"
require "rakuda/bench/guard"
require "rakuda/bench/processes"
require "tempfile"

module Rakuda
  module Bench
    # Starts a program, waits for it, and says what went wrong. What it prints goes into a file that does not lie on the
    # file system which is measured, and is looked at only then.
    module Launch
      # Nobody who started the comparison tells an engine anything: a make above it would share its slots with one
      # below.
      ENVIRONMENT = %w[RUBYOPT MAKEFLAGS MAKELEVEL MFLAGS].to_h { |name| [name, nil] }.freeze
      # Lines that say nothing of why: rulers and frames, how to go on, where in a program, what mpirun and make add.
      IDLE = [/\A\W*\z/, /\Ato resume:/, /\Afrom \S+:\d+:in /, /\A\S+\.rb:\d+:in [`'][^:]*\z/,
              /\A(?:Primary job|mpirun (?:has exited|does not)|a non-zero exit code|Per user-direction)/,
              /\Amake(?:\[\d+\])?: (?:Leaving|Entering|\*\*\* Waiting)/,
              /\A(?:Tasks: TOP|\(See full trace)/].freeze
      # Lines that do say why, the best first.
      TELLING = [/: failed: /, /No space left|Disk quota exceeded|Read-only file system|Permission denied/,
                 /noticed that process rank/,
                 /\b(?:cannot|could not|error|failed|killed|no such|refused|exceeded|wrong|expected)\b/i].freeze
      LINE_MAX = 300
      # What starting and waiting take themselves: the median over programs that do nothing, and the part of the
      # shortest round that it may be.
      NULL_RUNS = 5
      NULL_LIMIT_S = 60
      NULL_SHARE_MAX = 0.05
      # How long what was killed may take to end. A process that waits for a file server ends when that answers, and not
      # before.
      KILLED_S = 30
      # How long before that what is in no group with it has: a program may end itself what it has started.
      REST_S = 10

      module_function

      # @param command [Array<String>]
      # @param folder [String] where it runs
      # @param environment [Hash{String => String}]
      # @param timeout [Numeric] seconds after which it and all that it started are killed
      # @param grace [Numeric] seconds that it has before, when it is asked to end
      # @return [String, nil] what went wrong
      def call(command, folder, environment, timeout, grace: 0)
        Tempfile.create("rakuda-bench") do |log|
          status = ran(command, folder, ENVIRONMENT.merge(environment), timeout, log, grace: grace)
          next "did not end within #{timeout.ceil} s" unless status
          next if status.success?

          ["ended with #{ended(status)}", reason(read(log))].compact.join(": ")
        end
      end

      # For what is no engine: its output is wanted.
      # @param timeout [Numeric] seconds after which it is killed
      # @return [Array(String, Process::Status)]
      # @raise [Failure] when its time was over
      def capture(environment, *command, timeout:, chdir: ".")
        Tempfile.create("rakuda-bench") do |log|
          status = ran(command, chdir, environment, timeout, log)
          raise Failure, "#{File.basename(command.first)} did not end within #{timeout.ceil} s" unless status

          [read(log), status]
        end
      end

      # @return [Process::Status, nil] nil when its time was over
      def ran(command, folder, environment, timeout, log, grace: 0)
        pid = Process.spawn(environment, *command, chdir: folder, pgroup: true, in: File::NULL, %i[out err] => log)
        waiter = Process.detach(pid)
        Guard.over(pid) { waiter.join(timeout)&.value }
      ensure
        stop(pid, waiter, grace) if waiter&.alive?
      end

      # With all that it started: also when the comparison itself is interrupted. What it started on other hosts it ends
      # itself.
      # @param grace [Numeric] seconds that it has when it is asked to end, before it is killed; 0 for no such question
      # @param killed [Numeric] seconds that it has then
      # @param rest [Numeric] seconds until also that is killed which is in no group with it
      # @raise [Stuck] when something of it has not ended then
      def stop(pid, waiter, grace, killed: KILLED_S, rest: REST_S)
        # Who they are cannot be asked any more when they are about to end.
        started = Processes.of(Guard.current&.folder, pid)
        if grace.positive?
          signal(:TERM, pid)
          waiter.join(grace)
        end
        signal(:KILL, -pid) if waiter.alive?
        # With what it has started since it was asked.
        left = Processes.remaining(started | Processes.of(Guard.current&.folder, pid), rest)
        Processes.kill(left)
        left = Processes.remaining(left, killed)
        return if left.empty? && waiter.join(killed)

        told = left.empty? ? pid : left.join(", ")
        told = "#{told}; nothing in #{Guard.current.folder} is removed: wait until it answers, or name another with --dir" if
          Guard.current
        Guard.current&.give_up(left)
        raise Stuck, "killed, and still there after #{killed} s, as where a file server does not answer: #{told}"
      end

      def signal(name, pid)
        Process.kill(name, pid)
      rescue Errno::ESRCH
        nil # it has ended meanwhile
      end

      def read(log)
        log.rewind
        log.read.scrub
      end

      def ended(status) = status.exitstatus || "signal #{status.termsig}"

      # @param output [String] of what has failed
      # @return [String, nil] the line that says why, as far as one does
      def reason(output)
        lines = output.lines.map(&:strip).reject { |line| IDLE.any? { |idle| line.match?(idle) } }
        found = TELLING.filter_map { |telling| lines.find { |line| line.match?(telling) } }.first || lines.last
        found&.slice(0, LINE_MAX)
      end

      # The first round tells how long all will take.
      # @param options [Hash] :rounds, :timeout, :say
      # @param begin_ns [Integer] when that round began
      # @raise [UsageError] when that is longer than all may take
      def foresee(name, options, begin_ns)
        rounds, limit = options.fetch_values(:rounds, :timeout)
        return if rounds == 1

        all = (now_ns - begin_ns) / 1e9 * rounds
        options.fetch(:say).call("#{name}: #{rounds} rounds take about #{all.ceil} s")
        return if all <= limit

        raise UsageError, "#{name}: #{rounds} rounds would take about #{all.ceil} s: expected at most #{limit} s (--timeout)"
      end

      # @return [Float] s that starting a program and waiting for it take, in the way of engines
      # @raise [Failure] when it cannot be started
      def null_s
        Figures.median(Array.new(NULL_RUNS) do
          begin_ns = now_ns
          fault = call(["true"], ".", {}, NULL_LIMIT_S)
          raise Failure, "true: #{fault}" if fault

          (now_ns - begin_ns) / 1e9
        end)
      end

      # @param null_s [Numeric, nil] of results before there was one
      # @param makespans [Array<Numeric>] s
      # @return [Array<String>] that the harness would be measured, too; a reason where a size is fixed and long enough,
      #   else a note
      def null_faults(null_s, makespans)
        shortest = makespans.min
        return [] if null_s.nil? || shortest.nil? || null_s <= shortest * NULL_SHARE_MAX

        ["a program that does nothing takes #{Figures.seconds(null_s)}, the shortest round #{Figures.seconds(shortest)}: " \
         "expected at most #{(NULL_SHARE_MAX * 100).round} % of it"]
      end

      # @return [Boolean] whether rounds of this size must be long beside what starting a program takes
      def long?(size) = %w[small large].include?(size)

      # @param ended [String, nil] why there were no more
      # @return [Array<String>] that rounds are missing
      def unfinished(done, rounds, ended)
        done < rounds ? ["#{done} of #{rounds} rounds: #{ended || "the comparison did not come to its end"}"] : []
      end

      # What is left of the time that all rounds have.
      # @param begin_ns [Integer] when the first one began
      # @return [Float] s; not positive when it is over
      def left(options, begin_ns) = options.fetch(:timeout) - ((now_ns - begin_ns) / 1e9)

      # ns of CLOCK_MONOTONIC, which the tasks' own times are in, too.
      # @return [Integer]
      def now_ns = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
    end
  end
end
