# frozen_string_literal: true

require "minitest/autorun"
require_relative "../hosts_case"

# Host groups behind a leader, on two sites: head, host1 and host2 on one, host3 and host4 on the other. What goes over
# the line between them, and what happens when a leader, or what is behind it, dies. What needs no line is in
# test/near/hosts_test.rb.
class ClusterLeadersTest < ClusterHostsCase
  TWO_SITES = <<~TOML
    hosts = ["host1 2"]

    [[group]]
    name = "far"
    leader = "host3"
    hosts = ["host[[3-4]] 2"]
  TOML

  def testbed_settings = { HOSTS: 4, GFARM: 0, SLURM: 0, WAN_MS: 5 }

  def setup
    super
    write("hosts.toml", TWO_SITES)
  end

  def test_the_hub_has_one_connection_for_a_group_and_its_tasks_run_as_elsewhere
    rows = counts = nil
    printed, status = while_waiting(hosts: "hosts.toml", begun: 6) do
      rows = ctl("nodes")
      counts = %w[head host3 host4].map { |host| count_of("ssh", host) }
      write("go", "")
    end
    assert status.success?, printed
    assert_all_made
    assert_equal %w[host1 host3 host4], makers
    assert_equal [2, 1, 0], counts, "from head to host1 and to the leader, from there to host4"
    assert_match(/^  head +spare /, rows)
    assert_match(/^  host1 +up +2 cores, 2 running, 0 done$/, rows)
    assert_match(/^  host4 +up +2 cores, 2 running, 0 done, group far, leader host3$/, rows)
    wait_until_nothing_runs("host1", "host3", "host4")
    assert_equal [nil, nil, "far", "far"], groups_in_the_journal
  end

  def test_a_leader_that_is_killed_takes_its_group_along_and_both_come_back
    printed, status = while_waiting(hosts: "hosts.toml", begun: 6) do
      forget_begun_on("host3", "host4")
      @testbed.run!("host3", "pkill", "-KILL", "-x", "rakuda-leader")
      wait_for("the loss to be noticed") { names("*._fail_").size == 4 }
      wait_for("tasks to begin again") { %w[host3 host4].all? { |host| begun_on(host).any? } }
      write("go", "")
    end
    assert status.success?, printed
    assert_match(/^rakuda: 2 of 2 nodes of group far were lost \(host3, host4: .*its leader host3 was lost: .+\): 4 tasks run/,
                 printed)
    assert_equal 1, printed.scan(" lost (").size, printed
    %w[host3 host4].each { |host| assert_includes printed, "rakuda: node #{host} is back\n" }
    assert_equal [2, 3], lost_in_the_journal, "each for itself"
    assert_all_made
    wait_until_nothing_runs("host1", "host3", "host4")
  end

  def test_a_leader_that_hangs_is_started_again
    printed, status = while_waiting("HEARTBEAT=16", hosts: "hosts.toml", begun: 6) do
      @testbed.run!("host3", "pkill", "-STOP", "-x", "rakuda-leader")
      wait_for("the loss to be noticed") { names("*._fail_").size == 4 }
      write("go", "")
    end
    assert status.success?, printed
    assert_match(/rakuda: 2 of 2 nodes of group far were lost \(host3, host4: .+\): 4 tasks run again elsewhere/, printed)
    assert_all_made
    @testbed.run!("host3", "pkill", "-CONT", "-x", "rakuda-leader")
    wait_until_nothing_runs("host1", "host3", "host4")
  end

  # It uses up no retry.
  def test_a_member_that_dies_is_lost_alone_and_comes_back
    printed, status = while_waiting("--retry", "0", hosts: "hosts.toml", begun: 6) do
      forget_begun_on("host4")
      @testbed.run!("host4", "pkill", "-KILL", "-x", "rakuda-agent")
      wait_for("the loss to be noticed") { names("*._fail_").size == 2 }
      wait_for("a task to begin on host4") { begun_on("host4").any? }
      write("go", "")
    end
    assert status.success?, printed
    assert_match(/rakuda: node host4 was lost \(.+\): 2 tasks run again elsewhere/, printed)
    assert_includes printed, "rakuda: node host4 is back\n"
    refute_includes printed, "node host3 was lost"
    assert_all_made
  end

  def test_tasks_of_a_site_that_is_cut_off_run_on_the_other
    printed, status = while_waiting("HEARTBEAT=16", hosts: "hosts.toml", begun: 6) do
      @testbed.fault("cut-link", "host3", "host4")
      wait_for("the loss to be noticed") { names("*._fail_").size == 4 }
      wait_until_nothing_runs("host3", "host4")
      write("go", "")
    end
    assert status.success?, printed
    assert_all_made
    assert_equal %w[host1], makers
    mend_the_far_site
  end

  def test_a_group_without_a_leader_that_is_cut_off_is_told_in_one_line_and_what_it_ran_is_killed_there
    write("hosts.toml", TWO_SITES.sub('leader = "host3"', 'leader = ""'))
    printed, status = while_waiting("HEARTBEAT=16", hosts: "hosts.toml", begun: 6) do
      @testbed.fault("cut-link", "host3", "host4")
      wait_for("the loss to be noticed") { names("*._fail_").size == 4 }
      wait_until_nothing_runs("host3", "host4")
      write("go", "")
    end
    assert status.success?, printed
    assert_match(/^rakuda: 2 of 2 nodes of group far were lost \(host3, host4: .+\): 4 tasks run again elsewhere$/, printed)
    assert_equal 1, printed.scan(" lost (").size, printed
    assert_all_made
    assert_equal %w[host1], makers
    mend_the_far_site
  end

  # This machine is of the outer group, too, and has no leader.
  def test_groups_in_groups_have_leaders_behind_leaders_and_one_that_is_killed_takes_only_its_own_group_along
    write("hosts.toml", NESTED.sub('"host3 2"', '"host3 1", "localhost 1"'))
    counts = rows = begun = nil
    printed, status = while_waiting(hosts: "hosts.toml", begun: 6) do
      rows = ctl("nodes")
      counts = %w[head host3 host4 host2].map { |host| count_of("ssh", host) }
      begun = names("begun.*").map { |path| read(path).chomp }.uniq.sort
      @testbed.run!("host4", "pkill", "-KILL", "-x", "rakuda-leader")
      wait_for("the loss to be noticed") { names("*._fail_").size == 4 }
      write("go", "")
    end
    assert status.success?, printed
    assert_all_made
    assert_equal [%w[head host2 host3 host4], [1, 1, 1, 0]], [begun, counts]
    assert_match(/^  head +up +1 core, 1 running, 0 done, group far$/, rows)
    assert_match(%r{^  host2 +up .+, group far/inner, leader host4$}, rows)
    lost = %r{^rakuda: 2 of 2 nodes of group far/inner were lost \(host4, host2: .*its leader host4 was lost: .+\): 4 }
    assert_match(lost, printed)
    assert_equal 1, printed.scan(" lost (").size, printed
    wait_until_nothing_runs("host2", "host3", "host4")
  end

  def test_an_engine_that_is_killed_leaves_no_process_on_either_site_and_the_next_run_goes_on
    while_waiting(hosts: "hosts.toml", begun: 6) do
      @testbed.run!("head", "pkill", "-KILL", "-x", "rakudad")
    end
    wait_until_nothing_runs("head", "host1", "host3", "host4")
    write("go", "")
    result = @testbed.run("head", RAKUDA, "-F", "hosts.toml", "-q", chdir: @folder)
    assert_equal 0, result.status, result.err
    assert_all_made
    assert_empty names("*._fail_"), "they went when their targets were made"
  end

  def test_an_interrupt_ends_all_commands_directly_and_behind_a_leader
    printed, status = while_waiting(hosts: "hosts.toml", begun: 6) { |pid| Process.kill(:INT, pid) }
    assert_equal 130, status.exitstatus, printed
    wait_until_nothing_runs("host1", "host3", "host4")
    assert_empty names("by.*")
    assert_equal 6, names("*._fail_").size
  end

  def test_the_program_goes_over_the_line_between_the_sites_once
    @testbed = Testbed.up(HOSTS: 4, GFARM: 0, SLURM: 0, WAN_MS: 5, HOME_FOLDER: "private")
    FileUtils.mkdir_p(@folder = File.join(@testbed.folder, name))
    write("hosts.toml", "[[group]]\nname = \"far\"\nleader = \"host3\"\nhosts = [\"host[[3-4]] 2\"]\n")
    before = sent_by_head
    result = rakuda_with_groups("desc 'allow=host4'\ntask(:default) { sh 'hostname' }")
    assert_equal [0, "host4\n"], [result.status, result.out], result.err
    program = File.size(File.expand_path("../../../target/release/rakudad", __dir__))
    assert_includes program..(program * 3 / 2), sent_by_head - before
    %w[host3 host4].each { |host| refute_empty @testbed.run!(host, "sh", "-c", "ls ~/.cache/rakuda/bin/*/rakudad") }
  end

  private

  def mend_the_far_site
    @testbed.fault("mend-link", "host3", "host4")
    wait_until_nothing_runs("host3", "host4")
  end

  def rakuda_with_groups(rakefile)
    write("Rakefile", rakefile)
    @testbed.run("head", RAKUDA, "-F", "hosts.toml", "-q", chdir: @folder)
  end

  def count_of(program, host)
    @testbed.run(host, "pgrep", "-xc", program).out.to_i
  end

  def makers
    names("by.*").map { |path| read(path).chomp }.uniq.sort
  end

  def groups_in_the_journal
    events("node_joined").sort_by { |line| line["node"] }.map { |line| line["group"] }
  end

  # Numbers of nodes.
  def lost_in_the_journal
    events("node_lost").map { |line| line["node"] }.sort
  end

  # Bytes that have left head by its cable.
  def sent_by_head
    table = @testbed.run!("head", "cat", "/proc/net/dev").lines.drop(2).map { |line| line.split(/[:\s]+/).reject(&:empty?) }
    table.reject { |row| row.first == "lo" }.sum { |row| row[9].to_i }
  end
end
