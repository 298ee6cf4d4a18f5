# frozen_string_literal: true

require "json"
require "minitest/autorun"
require_relative "../hosts_case"

# Rounds that begin at one instant on several hosts: what only real hosts, links and clocks can show. The machine of
# rounds and the filter of clocks are tested in crates/core, gates and everything on one machine in
# test/e2e/sync_test.rb. No test asks how large a lag is.
class ClusterSyncTest < ClusterHostsCase
  # How far the clock of a host is ahead of this machine's, seconds.
  AHEAD = { "host1" => 7200, "host2" => 259_200, "host3" => 0 }.freeze

  CONF = <<~'RUBY'
    WORKER_COUNT = 4
    TASK_FILE = "./command"
    PARAMETER_ARRAY = %w[4k 8k]
    ARGUMENTS = "%w"
  RUBY

  def test_workers_of_all_hosts_begin_at_one_instant_whatever_their_clocks_show
    in_time_namespaces do
      write("conf.rb", CONF)
      write("command", "#!/bin/sh\necho \"$1 $2 $RAKUDA_NODE $RAKUDA_LOCAL_RANK $(uname -n)\" >> said.$1\n")
      FileUtils.chmod(0o755, File.join(@folder, "command"))
      result = sync("--rounds", "3", "--json", "conf.rb")
      assert_equal 0, result.status, result.err
      answer = JSON.parse(result.out)
      assert_equal 6, answer["rounds"].size
      answer["rounds"].each do |round|
        assert_operator round["clock_bound_s"], :>, 0
        assert_equal [0, "preload", nil], round.values_at("failed", "gate", "fault")
      end
      said = (0..3).flat_map { |worker| read("said.#{worker}").lines(chomp: true) }
      places = said.map { |line| line.split.values_at(0, 2, 3, 4) }
      assert_equal [%w[0 0 0 host1], %w[1 0 1 host1], %w[2 1 0 host2], %w[3 1 1 host2]], places.uniq.sort
    end
    rounds.each { |round| assert_clocks_true round }
    by_place = rounds.map { |round| round.values_at("nodes", "processors") }
    assert_equal 1, by_place.uniq.size, "worker i is on the same node and core in every round"
  end

  def test_hosts_behind_a_leader_are_asked_through_it
    in_time_namespaces do
      write("hosts.toml", "[[group]]\nname = \"far\"\nleader = \"host3\"\nhosts = [\"host3 2\", \"host2 2\"]\n")
      result = sync("--json", "conf.rb", hosts: "hosts.toml", conf: CONF.sub("./command", "true"))
      assert_equal 0, result.status, result.err
    end
    rounds.each { |round| assert_clocks_true round }
    assert_equal 2, rounds[0]["clocks"].size
  end

  WAITS = <<~'RUBY'
    sync(:lost, workers: 3, overhead: false) do |w|
      File.write("begun.#{w.id}", "x")
      w.id.zero? && !File.exist?("go") ? sleep : sh("exec sleep 600.75")
    end
  RUBY

  def test_a_host_that_is_lost_while_its_worker_waits_ends_the_round_and_leaves_nobody_at_a_gate
    out, status = while_worker_waits { @testbed.fault("kill-host", "host2") }
    assert_given_up out, status
    wait_for("the gate on host1 to be free") { at_gate("host1").zero? }
    Testbed.spoilt
  end

  def test_an_agent_that_is_killed_while_its_worker_waits_takes_that_with_it
    out, status = while_worker_waits do
      waiting = gate_processes("host2")
      @testbed.run!("host2", "pkill", "-KILL", "-x", "rakuda-agent")
      wait_for("who waited for it to end") { (gate_processes("host2") & waiting).empty? }
    end
    assert_given_up out, status
    %w[host1 host2].each { |host| wait_for("the gate on #{host} to be free") { at_gate(host).zero? } }
  end

  def test_more_workers_than_all_hosts_have_slots_is_an_error_with_their_number
    result = sync("conf.rb", conf: CONF.sub("4", "5").sub("./command", "true"))
    assert_equal 1, result.status
    assert_match(/together need 5 slots at once, but this run has 4/, result.err)
  end

  private

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
      truth = AHEAD.fetch("host#{host_number(clock["node"])}") * 1_000_000_000
      assert_operator (clock["ahead_ns"] - truth).abs, :<=, clock["bound_ns"], clock.inspect
      assert_operator (clock["before_ns"] - truth).abs, :<=, clock["before_bound_ns"], clock.inspect
      assert_operator clock["round_trip_ns"], :>, 0
      # The formula has the time there as it was at one moment of the round trip.
      assert_operator (clock["paper_ns"] + truth).abs, :<=, clock["round_trip_ns"]
      clock["bound_ns"]
    end
    assert_equal bounds.max(2).sum, round["clock_bound_ns"]
  end

  def host_number(node)
    joined = events("node_joined").find { |event| event["node"] == node }
    joined["name"].delete_prefix("host")
  end

  # Whoever comes over ssh is in a time namespace of its host meanwhile.
  def in_time_namespaces
    write("elsewhen", <<~SH)
      #!/bin/sh
      case $(uname -n) in
      #{AHEAD.map { |host, ahead| "#{host}) ahead=#{ahead} ;;" }.join("\n")}
      esac
      exec unshare --time --monotonic "$ahead" --fork --kill-child sh -c "$SSH_ORIGINAL_COMMAND"
    SH
    FileUtils.chmod(0o755, File.join(@folder, "elsewhen"))
    keys = File.join(@testbed.state, "ssh/authorized_keys")
    before = File.read(keys)
    File.write(keys, before.gsub(/^(?=ssh-)/) { "command=\"#{File.join(@folder, "elsewhen")}\" " })
    yield
  ensure
    File.write(keys, before) if before
  end

  # Yields when a worker on each host waits, and stops the run when the round has been given up.
  def while_worker_waits
    while_command_waits(RAKUDA, "-F", "hosts", "lost", "HEARTBEAT=4", begun: 3, rakefile: WAITS) do |pid|
      %w[host1 host2].each { |host| wait_for("a worker on #{host} to wait") { at_gate(host).positive? } }
      yield
      wait_for("the round to be given up") { !rounds.empty? }
      Process.kill(:INT, pid)
    end
  end

  def assert_given_up(out, status)
    refute_equal 0, status.exitstatus
    assert_match(/sync lost: round 0 did not begin: node host2 was lost, where worker 2 was to begin/, out)
    assert_match(/node host2 was lost/, rounds[0]["fault"])
    assert_nil rounds[0]["t0_ns"]
  end

  # @return [Array<String>] processes of a host that wait at a gate: in read(2) of the descriptor 198
  def gate_processes(host)
    @testbed.run(host, "sh", "-c", "grep -l '^0 0xc6 ' /proc/[0-9]*/syscall 2>/dev/null").lines
  end

  def at_gate(host) = gate_processes(host).size
end
