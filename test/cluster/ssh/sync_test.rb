# frozen_string_literal: true

require "minitest/autorun"
require_relative "../sync_case"

# Rounds that begin at one instant on several hosts: what only real hosts, links and clocks can show. The machine of
# rounds and the filter of clocks are tested in crates/core, gates and everything on one machine in
# test/e2e/sync_test.rb, who dies in sync_faults_test.rb. No test asks how large a lag is.
class ClusterSyncTest < ClusterSyncCase
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

  def test_more_workers_than_all_hosts_have_slots_is_an_error_with_their_number
    result = sync("conf.rb", conf: CONF.sub("4", "5").sub("./command", "true"))
    assert_equal 1, result.status
    assert_match(/together need 5 slots at once, but this run has 4/, result.err)
  end
end
