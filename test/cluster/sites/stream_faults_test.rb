# frozen_string_literal: true

require "minitest/autorun"
require_relative "../hosts_case"
require_relative "../spooled_members"

# Streams, live and over spools, over three groups within one another, each behind a leader, while leaders and lines
# stop, slow down or die: what comes out is what comes out of a run in which nothing happens. None hangs.
class NestedStreamFaultsTest < ClusterHostsCase
  include SpooledMembers

  def testbed_settings = { HOSTS: 4, GFARM: 0, SLURM: 0, WAN_MS: 5 }

  # head reaches host1 and host2, from there host3, from there host4.
  NESTED = <<~TOML
    hosts = ["host1 2"]

    [[group]]
    name = "far"
    leader = "host2"
    hosts = ["host2 2"]

    [[group.group]]
    name = "inner"
    leader = "host3"
    hosts = ["host3 2"]

    [[group.group.group]]
    name = "deep"
    leader = "host4"
    hosts = ["host4 2"]
  TOML

  # One of each end is before all groups, and one in the deepest.
  PLACES = { "w1" => "host1", "w2" => "host4", "a" => "host1", "b" => "host4" }.freeze
  MODES = %w[gang journal].freeze

  def setup
    super
    write("hosts.toml", NESTED)
  end

  def struck(mode, stage, *words, &block)
    strike(mode, stage, PLACES, RAKUDA, "-F", "hosts.toml", "--stream-route", "relay", *words, &block)
  end

  # What a spool has of a writer that did not end is not read.
  def test_a_leader_in_the_middle_is_killed_while_writers_write
    %w[gang journal atomic].each do |mode|
      printed, status = struck(mode, WRITERS, PATIENT) { signal("host3", "KILL", "rakuda-leader") }
      assert_made(mode, printed, status)
      assert_operator ran("w2").size, :>, 1, printed
    end
  end

  def test_a_leader_in_the_middle_is_killed_while_readers_read
    MODES.each do |mode|
      printed, status = struck(mode, READERS, PATIENT) do
        ending_what_runs { signal("host3", "KILL", "rakuda-leader") }
      end
      assert_made(mode, printed, status)
      assert_readers_ran_again(mode, printed)
    end
  end

  # host3 has no task, and what host4 says and hears goes over it.
  def test_the_line_to_a_group_in_the_middle_is_cut_for_a_moment
    go_through_meanwhile { |meanwhile| unheard("host3", &meanwhile) }
  end

  def test_the_line_to_a_group_in_the_middle_is_cut_too_long
    MODES.each do |mode|
      printed, status = struck(mode, READERS, STRICT) do
        ending_what_runs { |host| unheard("host3") { wait_until_lost(host) } }
      end
      assert_made(mode, printed, status)
      assert_readers_ran_again(mode, printed)
    end
  end

  def test_the_lines_of_groups_are_slow
    MODES.each do |mode|
      printed, status = struck(mode, WRITERS, PATIENT) do
        %w[host3 host4].each { |host| @testbed.fault("slow-link", host, "2mbit") }
      end
      assert_made(mode, printed, status)
      assert_nothing_lost(printed)
    ensure
      %w[host3 host4].each { |host| @testbed.fault("slow-link", host, "none") }
    end
  end

  # What goes between host1 and host4 goes over the hub and three leaders then, by a process for data on each host.
  def test_a_data_process_behind_three_leaders_stands_still_or_is_killed
    without_a_way do
      printed = striking_data(PATIENT) do
        signal("host4", "STOP", "rakuda-files")
        go_on(WRITERS)
        wait_until_over("w1")
        signal("host4", "CONT", "rakuda-files")
      end
      assert_nothing_lost(printed)
      printed = striking_data(STRICT, "RETRY=1") { signal("host4", "KILL", "rakuda-files") }
      assert_match(/the connection to host\d was lost/, printed)
    end
  end

  def test_the_hub_is_killed_and_the_next_run_makes_all
    MODES.each do |mode|
      printed, status = struck(mode, WRITERS, PATIENT) { signal("head", "KILL", "rakudad") }
      refute_predicate status, :success?
      refute_empty printed
      wait_until_nothing_runs("host1", "host2", "host3", "host4")
      result = @testbed.run("head", RAKUDA, "-F", "hosts.toml", "-q", chdir: @folder)
      assert_equal 0, result.status, printed + result.err
      assert_all_came(mode)
      assert_empty Dir.glob("#{@folder}/.rakuda/spools/*")
    end
  end

  private

  # Over spools those that write have ended well, and are not run again.
  def assert_readers_ran_again(mode, printed)
    assert_operator ran("b").size, :>, 1, printed
    assert_equal [1, 1], WRITERS.map { |name| ran(name).size }, printed if mode == "journal"
  end

  # Live, the other half of what is written has all gone into the streams when the block goes on; over spools, all that
  # was written is read.
  def go_through_meanwhile
    MODES.each do |mode|
      stage = mode == "gang" ? WRITERS : READERS
      printed, status = struck(mode, stage, PATIENT) do
        yield(lambda do
          go_on(stage)
          wait_until_over(*stage)
        end)
      end
      assert_made(mode, printed, status)
      assert_nothing_lost(printed)
    end
  end

  def striking_data(*words, &block)
    printed, status = strike("gang", WRITERS, PLACES, RAKUDA, "-F", "hosts.toml", "--stream-route", "direct", *words, &block)
    assert_made("gang", printed, status)
    ways = events("streams_ended").last.fetch("streams").flat_map { |stream| stream.fetch("hops") }.map { |hop| hop["way"] }
    assert_equal ["hub"], ways.uniq
    printed
  end

  # host1 and host4 do not reach each other.
  def without_a_way
    address = @testbed.run!("host1", "getent", "hosts", "host4").split.first
    @testbed.run!("host1", "ip", "route", "add", "blackhole", address)
    yield
  ensure
    @testbed.run("host1", "ip", "route", "del", "blackhole", address) if address
  end
end
