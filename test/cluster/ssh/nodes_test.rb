# frozen_string_literal: true

require "minitest/autorun"
require_relative "../hosts_case"

# Hosts that fail, fall silent, come back, or are named otherwise: who gets the tasks, and what is said.
class ClusterNodesTest < ClusterHostsCase
  def test_a_task_that_takes_its_nodes_down_is_blamed_everywhere
    write("hosts", "host1 1\nhost2 1\nhost3 1\n")
    result = rakuda("task(:default) { sh 'echo so far; pkill -KILL -x rakuda-agent; sleep 600' }", "-q")
    assert_equal 1, result.status, result.err
    names = result.err[/task default was lost with 3 different nodes \((.+)\) and is suspected of taking them down/, 1]
    assert_equal %w[host1 host2 host3], names.to_s.split(", ").sort, result.err
    assert_match(/^rakuda aborted!\nRakuda::TaskBlamed: task default was lost with 3 different nodes /, result.err)
    assert_match(/^default: failed after .+ on host\d\n  it was lost with 3 different nodes /, result.err)
    refute_match(/host\d was lost .+: 1 task runs again elsewhere\nrakuda: task default was lost/, result.err)
    story = ctl("story", "default")
    assert_equal 3, story.scan(/attempt \d was lost with its node after/).size, story
    assert_equal 2, story.scan(/; there will be another attempt$/).size, story
    assert_includes story, "failed: it was lost with 3 different nodes (#{names}) and is suspected of taking them down"
  end

  def test_a_host_where_all_fails_is_drained
    result = rakuda(<<~'RUBY', "-q", "--retry", "3", "HOST_FAILURE=2")
      made = (1..12).map { |number| "out#{number}" }
      task default: made
      # host1 waits until host2 has begun both that it has room for; these fail when one has ended well.
      waits = "until test $(grep -c host2 begun) -ge 2; do sleep 0.05; done"
      fails = "until grep -q '\"outcome\":\"done\"' .rakuda/runs/*/journal.jsonl; do sleep 0.05; done; exit 1"
      made.each do |name|
        file(name) { sh "hostname >> begun; if test $(hostname) = host2; then #{fails}; fi; #{waits}; hostname > #{name}" }
      end
    RUBY
    assert_equal 0, result.status, result.err
    drained = "rakuda: node host2 is drained: 2 actions failed there one after the other, while others did well\n"
    assert_includes result.err, drained
    assert_equal ["host1\n"], (1..12).map { |number| read("out#{number}") }.uniq
  end

  def test_commands_run_where_work_dir_says
    FileUtils.mkdir_p(%w[sub there/sub].map { |path| File.join(@folder, path) })
    result = rakuda(<<~'RUBY', "-q", "WORK_DIR=#{@folder}/there")
      task :default do
        sh "pwd"
        cd("sub", verbose: false) { sh "pwd" }
      end
    RUBY
    assert_equal [0, ""], [result.status, result.err]
    assert_equal ["#{@folder}/there", "#{@folder}/there/sub"], result.lines
  end

  def test_a_host_that_has_power_again_is_used_again
    write("hosts", "host1 2\nhost3 2\n")
    printed, status = while_waiting("HEARTBEAT=8") do
      @testbed.fault("kill-host", "host3")
      wait_for("the loss to be noticed") { names("*._fail_").size == 2 }
      begun_on("host3").each { |path| File.delete(File.join(@folder, path)) }
      @testbed.fault("start-host", "host3")
      wait_for("a task to begin on host3") { begun_on("host3").any? }
      write("go", "")
    end
    assert status.success?, printed
    assert_match(/rakuda: node host3 was lost \(.+\): 2 tasks run again elsewhere/, printed)
    assert_includes printed, "rakuda: node host3 is back\n"
    assert_all_made
    assert_includes((1..6).map { |number| read("by.out#{number}") }, "host3\n")
  ensure
    @testbed.fault("start-host", "host3")
  end

  def test_a_host_file_with_groups_names_hosts_and_their_cores
    write("hosts.toml", <<~'TOML')
      hosts = ["host1 2"]

      [[group]]
      name = "east"
      leader = "host2"
      cores = 1
      hosts = ["host[[2-3]]"]
    TOML
    rows = nil
    while_waiting(hosts: "hosts.toml") do
      rows = ctl("nodes")
      write("go", "")
    end
    assert_all_made
    assert_equal %w[host1 host2 host3], names("by.*").map { |path| read(path).chomp }.uniq.sort
    assert_match(/^  host1 +up +2 cores, 2 running/, rows)
    %w[host2 host3].each { |host| assert_match(/^  #{host} +up +1 core, 1 running/, rows) }
  end

  def begun_on(host)
    names("begun.*").select { |path| read(path) == "#{host}\n" }
  end
end
