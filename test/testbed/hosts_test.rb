# frozen_string_literal: true

require "minitest/autorun"
require "tmpdir"
require "support/testbed"
require "support/waiting"

# What a testbed's hosts are: machines with names, disks and sshd of their own, joined by Gfarm and Slurm.
class TestbedHostsTest < Minitest::Test
  include Waiting

  def setup
    @testbed = Testbed.up(HOSTS: 3, LOST_AFTER: 8)
    # One that a test of this process has stopped may still be away.
    wait_for("all file servers") { @testbed.run("head", "gfsched", "-w").lines.size == 3 }
  end

  def test_each_host_is_reached_by_ssh_from_head_and_from_this_machine
    @testbed.hosts.each do |host|
      assert_equal "#{host}\n", @testbed.run!("head", "ssh", host, "hostname")
      out, status = Open3.capture2("timeout", "60", "ssh", "-n", "-F", @testbed.ssh_config, host, "hostname")
      assert status.success?
      assert_equal "#{host}\n", out
    end
  end

  def test_the_host_file_names_each_host_with_its_cpus
    assert_equal ["host1 2", "host2 2", "host3 2"], File.readlines(@testbed.hosts_file, chomp: true)
  end

  def test_hosts_have_their_own_tmp_and_srv_and_share_the_rest
    %w[/tmp /srv].each do |folder|
      path = "#{folder}/mine.#{Process.pid}"
      @testbed.run!("host1", "touch", path)
      refute @testbed.run("host2", "test", "-e", path).success?
      refute_path_exists path
    end
    @testbed.write("ours", "seen by all")
    assert_equal "seen by all", @testbed.run!("host2", "cat", "ours")
  end

  def test_processes_of_one_host_are_not_seen_on_another
    pid = @testbed.start("host1", "sleep", "1234.5")
    found = -> (host) { @testbed.run(host, "pgrep", "-fx", "sleep 1234.5").success? }
    Thread.pass until found.call("host1")
    refute found.call("host2")
  ensure
    Process.kill(:TERM, pid)
    Process.wait(pid)
  end

  def test_a_file_written_through_gfarm_lies_where_it_was_written_and_is_seen_elsewhere
    @testbed.run!("host1", "sh", "-c", "echo from host1 > /srv/gfarm/written")
    assert_equal "from host1\n", @testbed.run!("host2", "cat", "/srv/gfarm/written")
    assert_equal "from host1\n", @testbed.run!("head", "cat", "/srv/gfarm/written")
    assert_equal "host1\n", @testbed.run!("host3", "gfwhere", "/srv/gfarm/written")
  end

  def test_srun_runs_on_two_nodes
    assert_equal 2, @testbed.run!("head", "srun", "-N2", "hostname").lines.uniq.size
  end

  def test_exec_gives_exit_status_signals_and_input
    assert_equal 7, @testbed.run("host1", "sh", "-c", "exit 7").status
    assert_equal "words", @testbed.run!("host1", "cat", stdin: "words")
    pid = @testbed.start("host1", "sh", "-c", "trap 'exit 9' TERM; touch trapped; while :; do sleep 0.01; done")
    Thread.pass until File.exist?("#{@testbed.folder}/trapped")
    Process.kill(:TERM, pid)
    Process.wait(pid)
    assert_equal 9, Process.last_status.exitstatus
  end

  def test_a_folder_that_is_not_there_is_said_in_one_line
    Dir.mktmpdir do |folder|
      result = @testbed.run("head", "true", chdir: folder)
      assert_equal 125, result.status
      assert_equal 1, result.err.lines.size
      assert_match(/#{folder} is not on that host/, result.err)
    end
  end

  def test_an_unknown_host_and_an_unknown_setting_are_said_with_what_there_is
    assert_match(/no host host4: there are head and host1 to host3/, @testbed.run("host4", "true").err)
    assert_match(/unknown setting HSTS; there are: NAME HOSTS/, @testbed.script("up", "HSTS=3").err)
    assert_match(/HOSTS=none: a number from 1 to 99 is expected/, @testbed.script("up", "HOSTS=none").err)
    assert_match(/DISK_TOTAL=fast: a number of bytes a second is expected/, @testbed.script("up", "DISK_TOTAL=fast").err)
  end
end
