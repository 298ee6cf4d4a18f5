# frozen_string_literal: true

module Peers
  # Runs one command and says how long it took; on request also the peak memory of its whole process tree. It knows
  # neither tools nor work.
  class Meter
    # `failure` is nil after exit status 0; `seconds` wall time; `peak_bytes` nil unless asked for or too short to see.
    Reading = Struct.new(:seconds, :failure, :peak_bytes)

    # Between two looks at the process tree.
    SAMPLE_SECONDS = 0.01

    # A tree smaller than this was seen before its program was loaded.
    LOADED_BYTES = 500_000

    # @param timeout [Numeric] seconds after which the whole tree is killed
    def initialize(timeout)
      @timeout = timeout
    end

    # Runs `command` in `directory`; what it prints goes to the file `output` there.
    # @return [Reading]
    def run(command, directory, memory: false, environment: {})
      start = clock
      pid = Process.spawn(environment, *command, chdir: directory, pgroup: true, in: File::NULL,
                                                 %i[out err] => [File.join(directory, "output"), "w"])
      waiter = Process.detach(pid)
      peak = memory ? sample(waiter) : nil
      ended = waiter.join([@timeout - (clock - start), 0].max)
      seconds = clock - start
      kill_tree(pid) unless ended
      Reading.new(seconds, failure(ended && waiter.value), peak)
    end

    private

    def clock = Process.clock_gettime(Process::CLOCK_MONOTONIC)

    def failure(status)
      return "no end within #{@timeout} s" unless status
      return "killed by signal #{status.termsig}" if status.signaled?

      "exit status #{status.exitstatus}" unless status.success?
    end

    # Sums the proportional set sizes of the tree until the command ends; the greatest sum, or nil.
    def sample(waiter)
      limit = clock + @timeout
      peak = 0
      loop do
        peak = [peak, tree(waiter.pid).sum { |pid| proportional_bytes(pid) }].max
        break if waiter.join(SAMPLE_SECONDS) || clock > limit
      end
      peak < LOADED_BYTES ? nil : peak
    end

    def tree(pid)
      [pid] + children(pid).flat_map { |child| tree(child) }
    end

    def children(pid)
      Dir.glob("/proc/#{pid}/task/*/children").flat_map { |path| File.read(path).split.map(&:to_i) }
    rescue SystemCallError
      []
    end

    def proportional_bytes(pid)
      File.read("/proc/#{pid}/smaps_rollup")[/^Pss: *(\d+)/, 1].to_i * 1024
    rescue SystemCallError
      0
    end

    # The tree is read before anything is killed, because orphans leave it.
    def kill_tree(pid)
      tree(pid).each do |member|
        Process.kill(:KILL, member)
      rescue Errno::ESRCH
        next
      end
    end
  end
end
