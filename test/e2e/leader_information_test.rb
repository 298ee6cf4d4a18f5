# frozen_string_literal: true

require "minitest/autorun"
require_relative "../support/near_hosts"

# What a leader answers for: the states of its agents' nodes, by which tasks are placed, and beats, which keep quiet
# agents among the living for longer than the hub bears silence.
class LeaderInformationTest < Minitest::Test
  include NearHosts

  GROUP = <<~TOML
    [[group]]
    name = "far"
    leader = "host1"
    hosts = ["host[[1-2]] 1"]
  TOML

  # Each waits until the other has begun, so that both hosts have one, and then longer than the hub bears silence.
  RAKEFILE = <<~'RUBY'
    2.times do |n|
      needs where: "mem_available > 1MiB && threads >= 1", prefer: "-load1"
      file("out#{n}") do |t|
        sh "touch $NEAR_HOSTS/begun#{n}; until test -e $NEAR_HOSTS/begun#{1 - n}; do sleep 0.05; done; sleep 11; echo made > #{t.name}"
      end
    end
    task default: %w[out0 out1]
  RUBY

  def test_tasks_choose_nodes_behind_a_leader_and_quiet_agents_are_not_lost
    near_hosts do |run|
      run.write("hosts.toml", GROUP)
      result = run.rakuda(RAKEFILE, "-F", "hosts.toml")
      assert_equal 0, result.status, result.err
      events = run.events
      assert_empty(events.select { |event| event["event"] == "node_lost" })
      chosen = events.select { |event| event["event"] == "node_chosen" }
      assert_equal %w[load1 mem_available threads], chosen.flat_map { |event| event["values"].keys }.uniq.sort
      started = events.select { |event| event["event"] == "attempt_started" }
      assert_equal [1, 2], started.map { |event| event["node"] }.sort
    end
  end
end
