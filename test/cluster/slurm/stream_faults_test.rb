# frozen_string_literal: true

require "minitest/autorun"
require_relative "../hosts_case"
require_relative "../spooled_members"

# Streams, live and over spools, between the nodes of an allocation of Slurm, while agents and lines stop or die:
# what comes out is what comes out of a run in which nothing happens. None hangs.
class SlurmStreamFaultsTest < ClusterHostsCase
  include SpooledMembers

  # One of each end is on host1, and one is not.
  ELSEWHERE = "host2,host3"
  PLACES = { "w1" => "host1", "w2" => ELSEWHERE, "a" => "host1", "b" => ELSEWHERE }.freeze

  def testbed_settings = { HOSTS: 3, GFARM: 0, SLURM: 1, LOST_AFTER: 60 }

  MODES = { "gang" => WRITERS, "journal" => READERS }.freeze

  # Live, writers are in the middle; over spools, readers are, so that what ended well can stay so.
  # @yieldparam stage [Array<String>] who waits
  def struck(mode, *words)
    stage = MODES.fetch(mode)
    command = %w[salloc -Q -N3 -c2 -t30] + [RAKUDA, *words]
    printed, status = strike(mode, stage, PLACES, *command) { yield stage }
    assert_made(mode, printed, status)
    printed
  end

  def test_an_agent_that_is_killed_is_lost_and_what_it_ran_runs_again
    MODES.each_key do |mode|
      printed = struck(mode, PATIENT) { ending_what_runs { |host| signal(host, "KILL", "rakuda-agent") } }
      assert_run_again(mode, printed)
    end
  end

  def test_an_agent_that_stands_still_too_long_is_lost_and_what_it_ran_runs_again
    MODES.each_key do |mode|
      printed = struck(mode, STRICT) do
        ending_what_runs do |host|
          signal(host, "STOP", "rakuda-agent")
          wait_until_lost(host)
          signal(host, "CONT", "rakuda-agent")
        end
      end
      assert_run_again(mode, printed)
    end
  end

  # What is on host1 goes through meanwhile.
  def test_an_agent_that_stands_still_for_a_moment_loses_nothing
    MODES.each_key do |mode|
      printed = struck(mode, PATIENT) do |stage|
        host = ran(stage.last).last
        signal(host, "STOP", "rakuda-agent")
        go_on(stage)
        wait_until_over(stage.first)
        signal(host, "CONT", "rakuda-agent")
      end
      assert_nothing_lost(printed)
    end
  end

  # Nobody hears host1 while all that waited goes through.
  def test_a_line_that_is_cut_for_a_moment_loses_nothing
    MODES.each_key do |mode|
      printed = struck(mode, PATIENT) do |stage|
        unheard("host1") do
          go_on(stage)
          wait_until_over(*stage)
        end
      end
      assert_nothing_lost(printed)
      assert_equal ["direct"], ways_of_streams if mode == "gang"
    end
  end

  private

  # Over spools those that write have ended well, and are not run again.
  def assert_run_again(mode, printed)
    assert_match(/node host\d was lost/, printed)
    assert_operator ran("b").size, :>, 1, printed
    assert_equal [1, 1], WRITERS.map { |name| ran(name).size }, printed if mode == "journal"
  end

  def ways_of_streams
    ended = JSON.parse(ctl("report", "--json")).fetch("streams")
    ended.flat_map { |stream| stream["hops"].map { |hop| hop["way"] } }.uniq
  end
end
