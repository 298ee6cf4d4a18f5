# frozen_string_literal: true

require "minitest/autorun"
require_relative "../hosts_case"

# Host groups behind a leader, on two sites: head, host1 and host2 on one, host3 and host4 on the other. What goes over
# the line between them, and what happens when a leader, or what is behind it, dies.
class ClusterLeadersTest < ClusterHostsCase
  TWO_SITES = <<~TOML
    hosts = ["host1 2"]

    [[group]]
    name = "far"
    leader = "host3"
    hosts = ["host[[3-4]] 2"]
  TOML

  def setup
    @testbed = Testbed.up(HOSTS: 4, GFARM: 0, SLURM: 0, WAN_MS: 5)
    @folder = File.join(@testbed.folder, name)
    FileUtils.rm_rf(@folder)
    FileUtils.mkdir_p(@folder)
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
    assert_match(/^  host1 +up +2 cores, 2 running, 0 done$/, rows)
    assert_match(/^  host4 +up +2 cores, 2 running, 0 done, group far, leader host3$/, rows)
    wait_until_nothing_runs("host1", "host3", "host4")
    assert_equal [nil, nil, "far", "far"], groups_in_the_journal
  end

  def test_environment_output_and_statuses_come_through_a_leader_as_directly
    rakefile = <<~'RUBY'
      task :default do
        sh "echo out; echo err >&2; echo $GIVEN; pwd"
        sh("exit 7") { |ok, status| puts [ok, status.exitstatus].inspect }
        sh "seq -f '%g #{"x" * 200}' 1 20000 > /dev/stdout"
        sh "exit 5"
      end
    RUBY
    results = ["", "host4"].map do |leader|
      write("hosts.toml", "[[group]]\nname = \"far\"\nleader = \"#{leader}\"\nhosts = [\"host[[3-4]] 2\"]\n")
      write("Rakefile", "#desc\n#{rakefile.sub("task :default", "desc 'allow=host3'\ntask :default")}")
      @testbed.run("head", RAKUDA, "-F", "hosts.toml", "-q", "PASS_ENV=GIVEN", chdir: @folder, environment: { "GIVEN" => "a b" })
    end
    assert_equal results[0].out, results[1].out
    assert_equal [1, 1], results.map(&:status)
    assert_equal 4 + 1 + 20_000, results[1].out.lines.size + 1
    results.each { |result| assert_includes result.err, "Command failed with status (5)" }
  end

  def test_a_leader_that_is_killed_takes_its_group_along_and_both_come_back
    printed, status = while_waiting(hosts: "hosts.toml", begun: 6) do
      @testbed.run!("host3", "pkill", "-KILL", "-x", "rakuda-leader")
      wait_for("the loss to be noticed") { names("*._fail_").size == 4 }
      lost_names = names("begun.*").reject { |path| read(path) == "host1\n" }
      lost_names.each { |path| File.delete(File.join(@folder, path)) }
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
    printed, status = while_waiting("HEARTBEAT=8", hosts: "hosts.toml", begun: 6) do
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

  def test_a_member_that_dies_is_lost_alone_and_comes_back
    printed, status = while_waiting(hosts: "hosts.toml", begun: 6) do
      @testbed.run!("host4", "pkill", "-KILL", "-x", "rakuda-agent")
      wait_for("the loss to be noticed") { names("*._fail_").size == 2 }
      begun_on("host4").each { |path| File.delete(File.join(@folder, path)) }
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
    printed, status = while_waiting("HEARTBEAT=8", hosts: "hosts.toml", begun: 6) do
      %w[host3 host4].each { |host| @testbed.fault("cut-link", host) }
      wait_for("the loss to be noticed") { names("*._fail_").size == 4 }
      wait_until_nothing_runs("host3", "host4")
      write("go", "")
    end
    assert status.success?, printed
    assert_all_made
    assert_equal %w[host1], makers
  ensure
    mend_the_far_site
  end

  def test_a_group_without_a_leader_that_is_cut_off_is_told_in_one_line_and_what_it_ran_is_killed_there
    write("hosts.toml", TWO_SITES.sub('leader = "host3"', 'leader = ""'))
    printed, status = while_waiting("HEARTBEAT=8", hosts: "hosts.toml", begun: 6) do
      %w[host3 host4].each { |host| @testbed.fault("cut-link", host) }
      wait_for("the loss to be noticed") { names("*._fail_").size == 4 }
      wait_until_nothing_runs("host3", "host4")
      write("go", "")
    end
    assert status.success?, printed
    assert_match(/^rakuda: 2 of 2 nodes of group far were lost \(host3, host4: .+\): 4 tasks run again elsewhere$/, printed)
    assert_equal 1, printed.scan(" lost (").size, printed
    assert_all_made
    assert_equal %w[host1], makers
  ensure
    mend_the_far_site
  end

  def test_this_machine_has_a_group_too
    write("hosts.toml", "[[group]]\nname = \"here\"\nleader = \"host1\"\nhosts = [\"localhost 2\", \"host1 2\"]\n")
    rows = nil
    printed, status = while_waiting(hosts: "hosts.toml", begun: 4) do
      rows = ctl("nodes")
      write("go", "")
    end
    assert status.success?, printed
    assert_match(/^  head +up +2 cores, 2 running, 0 done, group here$/, rows)
    assert_match(/^  host1 +up +2 cores, 2 running, 0 done, group here, leader host1$/, rows)
    assert_equal %w[here here], groups_in_the_journal
  end

  def test_groups_in_groups_have_leaders_behind_leaders
    write("hosts.toml", NESTED)
    counts = rows = nil
    printed, status = while_waiting(hosts: "hosts.toml", begun: 6) do
      rows = ctl("nodes")
      counts = %w[head host3 host4 host2].map { |host| count_of("ssh", host) }
      write("go", "")
    end
    assert status.success?, printed
    assert_all_made
    assert_equal %w[host2 host3 host4], makers
    assert_equal [1, 1, 1, 0], counts
    assert_match(%r{^  host2 +up .+, group far/inner, leader host4$}, rows)
    wait_until_nothing_runs("host2", "host3", "host4")
  end

  def test_an_inner_leader_that_is_killed_takes_only_its_own_group_along
    write("hosts.toml", NESTED)
    printed, status = while_waiting(hosts: "hosts.toml", begun: 6) do
      @testbed.run!("host4", "pkill", "-KILL", "-x", "rakuda-leader")
      wait_for("the loss to be noticed") { names("*._fail_").size == 4 }
      write("go", "")
    end
    assert status.success?, printed
    assert_match(%r{^rakuda: 2 of 2 nodes of group far/inner were lost \(host4, host2: .*its leader host4 was lost: .+\): 4 },
                 printed)
    refute_includes printed, "node host3 was lost"
    assert_all_made
    wait_until_nothing_runs("host2", "host3", "host4")
  end

  def test_a_leader_that_cannot_be_reached_leaves_the_others
    write("hosts.toml", TWO_SITES.sub('leader = "host3"', 'leader = "nosuch"').sub("host[[3-4]] 2\"", "host3 2\", \"nosuch 2\""))
    result = rakuda_until_told("host3 cannot be used", "task(:default) { #{UNTIL_GO} }", hosts: "hosts.toml")
    assert_equal [0, "host1\n"], [result.status, result.out], result.err
    assert_match(/^rakuda: node host3 cannot be used: its leader nosuch cannot be used: ssh: Could not resolve/, result.err)
  end

  def test_a_member_that_its_leader_cannot_reach_is_named_with_the_words_of_ssh
    write("hosts.toml", TWO_SITES.sub("host[[3-4]] 2\"", "host3 2\", \"nosuch 2\""))
    rakefile = "desc 'allow=host3'\ntask(:default) { #{UNTIL_GO} }"
    result = rakuda_until_told("nosuch cannot be used", rakefile, hosts: "hosts.toml")
    assert_equal [0, "host3\n"], [result.status, result.out], result.err
    assert_match(/^rakuda: node nosuch cannot be used: ssh: Could not resolve .+ \(tried from its leader host3\)$/, result.err)
  end

  def test_without_any_host_behind_a_leader_the_run_ends_with_status_three
    write("hosts.toml", "[[group]]\nname = \"far\"\nleader = \"nosuch\"\nhosts = [\"host3 2\", \"nosuch\"]\n")
    result = rakuda_with_groups("task(:default) { sh 'hostname' }")
    assert_equal [3, ""], [result.status, result.out]
    assert_match(/no node is left to run on:\n  host3: its leader nosuch cannot be used: ssh: /, result.err)
  end

  def test_an_engine_that_is_killed_leaves_no_process_on_either_site
    while_waiting(hosts: "hosts.toml", begun: 6) do
      @testbed.run!("head", "pkill", "-KILL", "-x", "rakudad")
    end
    wait_until_nothing_runs("head", "host1", "host3", "host4")
  end

  def test_an_interrupt_ends_all_commands_behind_a_leader
    printed, status = while_waiting(hosts: "hosts.toml", begun: 6) { |pid| Process.kill(:INT, pid) }
    assert_equal 130, status.exitstatus, printed
    wait_until_nothing_runs("host1", "host3", "host4")
    assert_empty names("by.*")
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
    %w[host3 host4].each { |host| @testbed.fault("mend-link", host) }
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

  def begun_on(host)
    names("begun.*").select { |path| read(path) == "#{host}\n" }
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
