# frozen_string_literal: true

require "minitest/autorun"
require_relative "../support/near_hosts"
require_relative "../support/waiting"

# What a leader answers for: the states of its agents' nodes, by which tasks are placed, and beats, which keep quiet
# agents among the living for longer than the hub bears silence.
class LeaderInformationTest < Minitest::Test
  include NearHosts
  include Waiting

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
        sh "touch $NEAR_HOSTS/begun#{n}; until test -e $NEAR_HOSTS/begun#{1 - n}; do sleep 0.05; done; sleep 21; echo made > #{t.name}"
      end
    end
    task default: %w[out0 out1]
  RUBY

  def test_tasks_choose_nodes_behind_a_leader_and_quiet_agents_are_not_lost
    near_hosts(heartbeat: 20) do |run|
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

  # Each waits until it is told to go on, on the one core of its host.
  WAITING = <<~'RUBY'
    2.times do |n|
      needs where: "mem_available > 1MiB", prefer: "-load1"
      file("out#{n}") { |t| sh "until test -e $NEAR_HOSTS/go; do sleep 0.05; done; echo made > #{t.name}" }
    end
    task default: %w[out0 out1]
  RUBY

  def test_a_leader_that_is_killed_takes_the_values_of_its_group_along_and_they_come_back
    near_hosts do |run|
      run.write("hosts.toml", GROUP)
      output = File.join(run.base, "said")
      pid = run.begin_rakuda(WAITING, "-F", "hosts.toml", output: output)
      printed = -> { File.read(output) }
      wait_for("values of both hosts", printed) { ages(run).size == 2 }
      leader = leader_of(run) or flunk "there is no leader"
      Process.kill(:KILL, leader)
      killed = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      wait_for("the loss to be known", printed) { run.events.count { |event| event["event"] == "node_lost" } == 2 }
      # Samples that were taken since.
      wait_for("new values of both", printed) do
        told = ages(run)
        told.size == 2 && told.values.max < Process.clock_gettime(Process::CLOCK_MONOTONIC) - killed
      end
      refute_equal leader, leader_of(run)
      File.write(File.join(run.base, "go"), "")
      Process.wait(pid)
      assert_equal 0, $?.exitstatus, printed.call # rubocop:disable Style/SpecialGlobalVars
      assert_equal(["made\n"] * 2, %w[out0 out1].map { |name| run.read(name) })
    end
  end

  # Agents elsewhere are told which folders tasks choose by.
  def test_tasks_choose_by_the_file_systems_of_folders_that_are_no_mount_points
    near_hosts do |run|
      rakefile = <<~RUBY
        needs where: "fs_free('#{run.base}/home') > 1"
        file("here") { |t| sh "echo made > \#{t.name}" }
        needs where: "fs_free('/no/such/folder') > 1"
        file("nowhere") { |t| sh "echo made > \#{t.name}" }
        file("after" => %w[begun nowhere])
        file("begun") { |t| sh "echo made > \#{t.name}" }
        file("folder") { |t| sh "mkdir #{run.base}/new; echo made > \#{t.name}" }
        needs where: "fs_free('#{run.base}/new') > 1"
        file("there" => "folder") { |t| sh "echo made > \#{t.name}" }
      RUBY
      result = run.rakuda(rakefile, "here")
      assert_equal [0, "made\n"], [result.status, run.read("here")], result.err
      result = run.rakuda(rakefile, "nowhere")
      assert_equal 1, result.status, result.err
      assert_includes result.err, "task nowhere: where: no node has fs_free('/no/such/folder')"
      result = run.rakuda(rakefile, "there")
      assert_equal [0, "made\n"], [result.status, run.read("there")], result.err
      # What has run elsewhere may be seen later.
      result = run.rakuda(rakefile, "VISIBLE_WITHIN=1", "after")
      ended = run.events.filter_map { |event| event["outcome"] if event["event"] == "attempt_ended" }
      assert_equal [1, ["done"]], [result.status, ended], result.err
      assert_includes result.err, "task nowhere: where: no node has fs_free('/no/such/folder')"
    end
  end

  private

  # @return [Hash{String => Float}] of hosts that are up
  def ages(run)
    out, = Open3.capture2(RAKUDACTL, "nodes", "--json", "--cols", "load1", "--where", "state == 'up' && has(load1)",
                          chdir: File.dirname(run.path("hosts")), err: File::NULL)
    return {} unless out.start_with?("{")

    told = JSON.parse(out).fetch("nodes").to_h { |node| [node["node"], node.dig("values", "load1", "age_s")] }
    told.slice("host1", "host2")
  end

  # @return [Integer, nil] the process that is the leader of this run's group
  def leader_of(run)
    found = Dir["/proc/[0-9]*"].find do |process|
      File.read("#{process}/comm") == "rakuda-leader\n" &&
        File.read("#{process}/environ").split("\0").include?("NEAR_HOSTS=#{run.base}")
    rescue SystemCallError
      false # it has ended, or is not ours
    end
    found && File.basename(found).to_i
  end
end
