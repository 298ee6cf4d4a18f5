# frozen_string_literal: true

require "minitest/autorun"
require_relative "../sync_case"

# What becomes of a round over hosts when a node, its link, a leader or the hub dies: while workers wait at their gates,
# when the instant is known and has not come, and when the news of it comes too late. The same at any moment of a round
# is tested from seeds (crates/core/tests/rounds). The round before is kept whatever happens.
class ClusterSyncFaultsTest < ClusterSyncCase
  GROUPED = <<~TOML
    hosts = ["host1 2"]

    [[group]]
    name = "far"
    leader = "host3"
    hosts = ["host3 1", "host2 1"]
  TOML

  # In the second round worker 0 never comes to its gate.
  WAITS = <<~'RUBY'
    sync(:lost, workers: 3, rounds: 2, overhead: false) do |w|
      next sh("true") if w.round.zero?

      File.write("begun.#{w.id}", "x")
      w.id.zero? ? sleep : sh("exec sleep 600.75")
    end
  RUBY

  # In the second round worker 0 begins with the instant, and the others ten minutes later, unless there is a file
  # `again`.
  SPREAD = <<~'RUBY'
    later = ->(w) { w.round.zero? || w.id.zero? || File.exist?("again") ? 0 : 600 }
    sync(:spread, workers: 3, rounds: 2, overhead: false, offset: later) do |w|
      sh(w.round.zero? ? "true" : "echo x > begun.#{w.id}; until test -e go; do sleep 0.05; done")
    end
  RUBY

  # In the second round worker 0 comes to its gate when there is a file `go`.
  TOLD = <<~'RUBY'
    sync(:told, workers: 3, rounds: 2, overhead: false) do |w|
      next sh("true") if w.round.zero?

      File.write("begun.#{w.id}", "x")
      sleep 0.05 until w.id.positive? || File.exist?("go")
      sh "echo x > passed.#{w.id}"
    end
  RUBY

  def test_a_host_that_is_cut_off_while_its_worker_waits_ends_the_round_on_both_sides_of_the_cut
    out, status = while_workers_wait("HEARTBEAT=20") do
      @testbed.fault("cut-link", "host2")
      wait_until_gates_are_free("host2")
    end
    assert_given_up out, status, /node host2 was lost, where worker 2/
    wait_until_gates_are_free("host1")
    @testbed.fault("mend-link", "host2")
    wait_until_nothing_runs("host1", "host2")
  end

  def test_a_leader_that_is_killed_while_workers_wait_behind_it_ends_the_round
    out, status = while_workers_wait(hosts: "hosts.toml", waiting: { "host1" => 1, "host3" => 1, "host2" => 1 }) do
      @testbed.run!("host3", "pkill", "-KILL", "-x", "rakuda-leader")
    end
    assert_given_up out, status, /node (?:host3 was lost, where worker 2|host2 was lost, where worker 3)/
    wait_until_gates_are_free("host1", "host2", "host3")
    wait_until_nothing_runs("host1", "host2", "host3")
  end

  # Worker 0 has begun, worker 1 waits for its instant, and worker 2 does when its node is lost.
  def test_a_node_that_is_lost_after_the_instant_was_told_ends_its_round_which_runs_again
    out, status = while_instant_is_ahead do
      write("again", "")
      @testbed.run!("host2", "pkill", "-KILL", "-x", "rakuda-agent")
      # Worker 0 has no other end than with its gang: there is no file `go` yet.
      wait_for("the round to end") { rounds.size == 2 }
      wait_for("the gang to run again") { events("command_prepared").size == 9 }
      write("go", "")
    end
    assert status.success?, out
    assert_match(/node host2 was lost/, out)
    assert_equal([[0, nil, 0], [1, nil, 3], [1, nil, 0]], rounds.map { |round| round.values_at("number", "fault", "failed") })
    assert_equal([true, false, true], rounds.map { |round| !round["lag_ns"].nil? })
    assert rounds[1]["t0_ns"], "it was decided"
    assert_counted 2
  end

  def test_no_process_stays_at_a_gate_on_any_host_when_the_hub_is_killed
    write("hosts.toml", GROUPED)
    rakefile = WAITS.sub("workers: 3", "workers: 4")
    _, status = while_command_waits(RAKUDA, "-F", "hosts.toml", "lost", begun: 4, rakefile: rakefile) do
      wait_at_gates({ "host1" => 1, "host2" => 1, "host3" => 1 })
      @testbed.run!("head", "pkill", "-KILL", "-x", "rakudad")
    end
    assert_all_left status
  end

  def test_a_worker_on_a_host_that_was_cut_off_when_the_instant_was_told_is_late_and_counted
    out, status = while_command_waits(RAKUDA, "-F", "hosts", "told", "HEARTBEAT=600", begun: 3, rakefile: TOLD) do
      wait_at_gates({ "host1" => 1, "host2" => 1 })
      @testbed.fault("cut-link", "host2")
      write("go", "")
      wait_for("the others to begin") { names("passed.*") == %w[passed.0 passed.1] }
    ensure
      @testbed.fault("mend-link", "host2")
    end
    assert status.success?, out
    late = rounds[1]
    assert_equal [1, nil, 0], late.values_at("number", "fault", "failed")
    assert_operator late["late"], :>=, 1
    assert_equal late["starts_ns"].max - late["starts_ns"].min, late["lag_ns"]
    assert_counted 2
  end

  private

  # Yields when these numbers of workers of the second round wait on their hosts, and stops the run when that has been
  # given up.
  def while_workers_wait(*words, hosts: "hosts", waiting: { "host1" => 1, "host2" => 1 })
    write("hosts.toml", GROUPED)
    workers = waiting.values.sum + 1
    rakefile = WAITS.sub("workers: 3", "workers: #{workers}")
    while_command_waits(RAKUDA, "-F", hosts, "lost", *words, begun: workers, rakefile: rakefile) do |pid|
      wait_at_gates(waiting)
      yield
      wait_for("the round to be given up") { rounds.size == 2 }
      Process.kill(:INT, pid)
    end
  end

  # Yields when worker 0 of the second round has begun, and one on each host sleeps until its own instant.
  def while_instant_is_ahead
    while_command_waits(RAKUDA, "-F", "hosts", "spread", begun: 1, rakefile: SPREAD) do
      wait_at_gates({ "host1" => 1, "host2" => 1 }, UNTIL_INSTANT)
      yield
    end
  end

  def assert_given_up(out, status, whose)
    refute_equal 0, status.exitstatus
    assert_match(/sync lost: round 1 did not begin: #{whose} was to begin/, out)
    kept, given_up = rounds
    assert_equal [0, nil, 0], kept.values_at("number", "fault", "failed")
    assert kept["lag_ns"]
    assert_match(whose, given_up["fault"])
    assert_equal [nil, nil], given_up.values_at("t0_ns", "lag_ns")
  end

  def assert_all_left(status)
    refute_equal 0, status.exitstatus
    wait_until_gates_are_free("host1", "host2", "host3")
    wait_until_nothing_runs("head", "host1", "host2", "host3")
    assert_equal([[0, nil]], rounds.map { |round| round.values_at("number", "fault") })
    assert rounds[0]["lag_ns"]
  end

  # What the report says of rounds: how many are in means, with those that had a late worker.
  def assert_counted(count)
    told = JSON.parse(ctl("report", "--json"))["sync"]
    counted = told["lag"].sum { |one| one["count"] }
    assert_equal count, counted
    assert_equal rounds.count { |round| round["late"].positive? }, told["rounds_late"]
  end
end
