# frozen_string_literal: true

# The processes of a run, found in /proc by where they stand: rakuda itself, the guard below it, Ruby and the hub below
# that.
module RunProcesses
  # A process as /proc tells of it.
  Seen = Struct.new(:pid, :name, :state, :parent)

  # @param starter [Integer] the process that was started as rakuda
  # @return [Hash{Symbol => Integer}] starter, guard, front and, once it runs, hub
  def self.of(starter)
    all = RunProcesses.all
    guard = all.find { |process| process.parent == starter && process.name == "rakuda-guard" }
    below = guard ? all.select { |process| process.parent == guard.pid } : []
    front = below.find { |process| process.name.start_with?("ruby") }
    hub = below.find { |process| process.name == "rakudad" }
    { starter: starter, guard: guard&.pid, front: front&.pid, hub: hub&.pid }.compact
  end

  # Kills all of them at once, so that nobody is left to clean up.
  def self.kill_all(starter)
    processes = of(starter)
    Process.kill(:STOP, *processes.values_at(:starter, :guard))
    # The hub before those by whose end it would notice.
    Process.kill(:KILL, *processes.values.reverse)
  end

  # @return [Array<Integer>] what stands below a process
  def self.below(pid)
    children = all.select { |process| process.parent == pid }.map(&:pid)
    children + children.flat_map { |child| below(child) }
  end

  # Stops all that stands below a process, until nothing is found that was not stopped.
  def self.stop_below(pid)
    stopped = []
    until (fresh = below(pid) - stopped).empty?
      fresh.each { |id| stop(id) }
      stopped += fresh
    end
  end

  def self.stop(pid)
    Process.kill(:STOP, pid)
  rescue Errno::ESRCH
    nil # It has ended meanwhile.
  end
  private_class_method :stop

  # @return [Array<Seen>]
  def self.all
    Dir.children("/proc").grep(/\A\d+\z/).filter_map { |pid| see(pid.to_i) }
  end

  # @return [Seen, nil]
  def self.see(pid)
    stat = File.binread("/proc/#{pid}/stat")
    name = stat[(stat.index("(") + 1)...stat.rindex(")")]
    state, parent = stat[(stat.rindex(")") + 2)..].split
    Seen.new(pid, name, state, parent.to_i)
  rescue SystemCallError
    nil
  end

  # @return [Boolean] whether it is there, and not only its status
  def self.alive?(pid)
    seen = see(pid)
    !seen.nil? && seen.state != "Z"
  end

  # @return [String] its words, separated by NUL; empty when it is gone
  def self.words(pid)
    File.binread("/proc/#{pid}/cmdline")
  rescue SystemCallError
    ""
  end
end
