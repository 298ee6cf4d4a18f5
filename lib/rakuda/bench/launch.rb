# frozen_string_literal: true

require "rakuda/bench/errors"

module Rakuda
  module Bench
    # Starts an engine, waits for it, and says what went wrong. What it prints goes into a file, and is looked at only then.
    module Launch
      # An engine is told nothing by whoever started the comparison: a make above it would share its slots with one below.
      ENVIRONMENT = %w[RUBYOPT MAKEFLAGS MAKELEVEL MFLAGS].to_h { |name| [name, nil] }.freeze
      LOG = ".output"

      module_function

      # @param command [Array<String>]
      # @param folder [String] where it runs
      # @param environment [Hash{String => String}]
      # @param timeout [Integer] seconds after which it and all that it started are killed
      # @return [String, nil] what went wrong
      def call(command, folder, environment, timeout)
        log = File.join(folder, LOG)
        pid = Process.spawn(ENVIRONMENT.merge(environment), *command, chdir: folder, pgroup: true, in: File::NULL,
                                                                      %i[out err] => [log, "w"])
        waiter = Process.detach(pid)
        return "did not end within #{timeout} s" unless waiter.join(timeout)
        return if waiter.value.success?

        "ended with #{waiter.value.exitstatus || "signal #{waiter.value.termsig}"}: #{File.read(log).lines.last.to_s.strip}"
      ensure
        stop(pid, waiter) if waiter&.alive?
      end

      # With all that it started: also when the comparison itself is interrupted.
      def stop(pid, waiter)
        Process.kill(:KILL, -pid)
        waiter.join
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

      # ns of CLOCK_MONOTONIC, which the tasks' own times are in, too.
      # @return [Integer]
      def now_ns = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
    end
  end
end
