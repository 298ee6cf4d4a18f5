# frozen_string_literal: true

require "minitest/autorun"
require_relative "../sync_case"

# Rounds over two sites whose line takes 2 ms there and 10 ms back. No exchange of messages can tell the two apart, so
# what is said of a clock is off by some 4 ms; how far it really is ahead is known here, since hosts share a kernel.
class ClusterSitesSyncTest < ClusterSyncCase
  THERE_MS = 2
  BACK_MS = 10
  # Half of the shortest trip that there can be: the least that a bound over the line can be.
  BOUND_NS_MIN = (THERE_MS + BACK_MS) * 1_000_000 / 2
  FAR = %w[host3 host4].freeze

  def testbed_settings = { HOSTS: 4, GFARM: 0, SLURM: 0, WAN_MS: THERE_MS, WAN_BACK_MS: BACK_MS }

  def test_a_clock_beyond_a_line_whose_ways_differ_is_known_to_within_its_bound
    write("hosts.toml", <<~TOML)
      hosts = ["host1 2"]

      [[group]]
      name = "far"
      leader = "host3"
      hosts = ["host[[3-4]] 1"]
    TOML
    in_time_namespaces do
      result = sync("--rounds", "3", "--json", "conf.rb", hosts: "hosts.toml", conf: "WORKER_COUNT = 4\nTASK_FILE = 'true'\n")
      assert_equal 0, result.status, result.err
    end
    # With the round of programs that do nothing.
    assert_equal 4, rounds.size
    rounds.each { |round| assert_clocks_true round }
    clocks = rounds.flat_map { |round| round["clocks"] }
    assert_equal({ "host1" => 4, "host3" => 4, "host4" => 4 }, clocks.map { |clock| clock["name"] }.tally)
    far = clocks.select { |clock| FAR.include?(clock["name"]) }
    far.each do |clock|
      assert_operator clock["bound_ns"], :>=, BOUND_NS_MIN, clock.inspect
      assert_operator clock["before_bound_ns"], :>=, BOUND_NS_MIN, clock.inspect
      assert_operator clock["round_trip_ns"], :>=, 2 * BOUND_NS_MIN, clock.inspect
    end
  end
end
