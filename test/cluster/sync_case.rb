# frozen_string_literal: true

require_relative "hosts_case"

# What tests of synchronised rounds over hosts share: hosts whose clocks are hours apart, who waits at a gate on which
# of them, and what the record says of rounds. It tests nothing.
class ClusterSyncCase < ClusterHostsCase
  # How far the clock of a host is ahead of this machine's, seconds.
  AHEAD = { "host1" => 7200, "host2" => 259_200, "host3" => 0, "host4" => 86_400 }.freeze

  # A process is in read(2) of the descriptor 198 until it learns the instant, and from then on in clock_nanosleep(2)
  # until a moment of the monotonic clock.
  AT_GATE = "^0 0xc6 "
  UNTIL_INSTANT = "^230 0x1 0x1 "

  # @return [Testbed::Result] of `rakudactl sync` on head
  def sync(*words, hosts: "hosts", conf: nil)
    write("conf.rb", conf) if conf
    @testbed.run("head", RAKUDACTL, "sync", *words, "--", "-F", hosts, chdir: @folder)
  end

  def rounds = events("round_ended")

  # What is said of a clock is true to within its bound, before the round and after it.
  def assert_clocks_true(round)
    assert_nil round["fault"]
    bounds = round["clocks"].map do |clock|
      truth = AHEAD.fetch(clock["name"]) * 1_000_000_000
      assert_operator (clock["ahead_ns"] - truth).abs, :<=, clock["bound_ns"], clock.inspect
      assert_operator (clock["before_ns"] - truth).abs, :<=, clock["before_bound_ns"], clock.inspect
      assert_operator clock["round_trip_ns"], :>, 0
      # The formula has the time there as it was at one moment of the round trip.
      assert_operator (clock["paper_ns"] + truth).abs, :<=, clock["round_trip_ns"]
      clock["bound_ns"]
    end
    assert_equal bounds.max(2).sum, round["clock_bound_ns"]
  end

  # Whoever comes over ssh is in a time namespace of its host meanwhile.
  def in_time_namespaces(&) = @testbed.in_time_namespaces(AHEAD, &)

  # @return [Array<String>] processes of a host that wait at a gate
  def gate_processes(host, where = AT_GATE)
    @testbed.run(host, "sh", "-c", "grep -l '#{where}' /proc/[0-9]*/syscall 2>/dev/null").lines
  end

  def at_gate(host, where = AT_GATE) = gate_processes(host, where).size

  # Waits until this many workers wait on each host.
  def wait_at_gates(workers, where = AT_GATE)
    workers.each do |host, count|
      wait_for("#{count} workers on #{host} to wait") { at_gate(host, where) == count }
    end
  end

  def wait_until_gates_are_free(*hosts)
    hosts.each do |host|
      wait_for("the gates on #{host} to be free") { [AT_GATE, UNTIL_INSTANT].all? { |where| at_gate(host, where).zero? } }
    end
  end
end
