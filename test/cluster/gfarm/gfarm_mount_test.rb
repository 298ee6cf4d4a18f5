# frozen_string_literal: true

require "minitest/autorun"
require_relative "../gfarm_case"

# `--filesystem gfarm`: hosts that have not mounted Gfarm do so for the run, and nothing of it is left, however that
# ends there.
class ClusterGfarmMountTest < ClusterGfarmCase
  MAKE = <<~'RUBY'
    made = %w[host1 host2 host3].map { |host| "sub/on_#{host}" }
    directory "sub"
    task default: [*made, "out"]
    made.each do |name|
      desc "allow=#{name[/host\d/]} steal=no"
      file name => "sub" do
        cd("sub", verbose: false) { sh "pwd; hostname > #{File.basename(name)}" }
      end
    end
    # head puts away the half; then the name can be written at once.
    shared = ENV.fetch("SHARED")
    desc "allow=host1"
    file "out" do
      sh "if test -e #{shared}/tried; then echo whole > out; else echo half > out; touch #{shared}/tried; exit 1; fi"
    end
  RUBY
  PRIVATE = "/tmp/rakuda-0"

  def setup
    super
    %w[host1 host2].each { |host| @testbed.run!(host, "sh", "-c", "! mountpoint -q /srv/gfarm || umount /srv/gfarm") }
  end

  def teardown
    return super if @spoilt || !passed?

    %w[host1 host2].each { |host| @testbed.run!(host, "gfarm2fs", "/srv/gfarm") }
  end

  def test_hosts_without_a_mount_make_one_for_the_run
    printed, status = running(MAKE, "--filesystem", "gfarm", "--retry", "1") { nil }
    assert status.success?, printed
    assert_equal "whole\n", read("out")
    %w[host1 host2 host3].each { |host| assert_equal "#{host}\n", read("sub/on_#{host}") }
    folders = printed.lines.grep(%r{/sub$}).sort
    assert_equal 3, folders.size, printed
    assert_equal "#{@folder}/sub\n", folders.first, "host3 has it mounted there"
    folders.drop(1).each { |line| assert_match(%r{\A#{PRIVATE}/\d+-\h{16}/gfarm/#{name}/sub\n\z}, line) }
    assert_nothing_left
  end

  def test_a_killed_agent_leaves_no_mount_and_takes_no_file_with_it
    printed, status = running(CHAIN, "--filesystem", "gfarm") do |so_far|
      maker(so_far)
      wait_until_up(so_far, "host1")
      before = mounts("host1")
      assert_equal 1, before.size
      @testbed.run!("host1", "pkill", "-KILL", "-x", "rakuda-agent")
      wait_for("its mount to go", so_far) { (mounts("host1") & before).empty? }
      wait_for("the host to be back", so_far) { so_far.call.include?("rakuda: node host1 is back") }
      go
    end
    assert status.success?, printed
    assert_whole
    assert_equal 1, printed.scan("mid made on").size, "no file went with it: #{printed}"
    refute_includes printed, "out of reach"
    assert_nothing_left
  end

  def test_what_a_killed_agent_and_its_guard_leave_is_cleaned_up
    printed, status = running(CHAIN, "--filesystem", "gfarm") do |so_far|
      maker(so_far)
      wait_until_up(so_far, "host1")
      # The guard is stopped first, or it might clean up in between.
      kill = "pkill -STOP -x rakuda-guard && pkill -KILL -x rakuda-agent && pkill -KILL -x rakuda-guard"
      @testbed.run!("host1", "sh", "-c", kill)
      wait_for("the host to be back", so_far) { so_far.call.include?("rakuda: node host1 is back") }
      assert_match(%r{\Ahost1: would unmount #{PRIVATE}/\S+\n\z}, clean("--dry-run"), "what runs is left alone")
      go
    end
    assert status.success?, printed
    assert_whole
    # An agent unmounts after it has said goodbye.
    ended = -> { @testbed.run("host1", "pgrep", "-x", "rakuda-(agent|guard)").out.empty? }
    wait_for("the second agent to end", &ended)
    left = mounts("host1")
    assert_equal 1, left.size, "that of the agent that was killed"
    dry = clean("--dry-run")
    assert_equal "host1: would unmount #{left.first}\n", dry
    assert_equal left, mounts("host1")
    assert_equal "host1: unmounted #{left.first}\n", clean
    assert_nothing_left
    assert_equal "", clean
  end

  def test_a_host_that_cannot_mount_it_is_named_with_the_reason
    @spoilt = true
    @testbed.run!("host2", "mount", "--bind", "/dev/null", "/usr/bin/gfarm2fs")
    printed, status = running(CHAIN, "--filesystem", "gfarm") do |so_far|
      wait_for("the reason", so_far) { so_far.call.include?("node host2 cannot be used") }
      go
    end
    assert status.success?, printed
    assert_match(%r{^rakuda: node host2 cannot be used: .*failed to mount Gfarm on #{PRIVATE}/\S+/gfarm}, printed)
    assert_match(/node host2 .* \(gfarm2fs\): .*denied.* \(on host2\)/, printed)
    assert_nothing_left
  end

  private

  def mounts(host)
    points = @testbed.run!(host, "cut", "-d ", "-f5", "/proc/self/mountinfo").lines.map(&:chomp)
    points.select { |point| point.start_with?(PRIVATE) }
  end

  def assert_nothing_left
    %w[host1 host2 host3].each do |host|
      wait_for("the agent on #{host} to end") { @testbed.run(host, "pgrep", "-x", "rakuda-(agent|guard)").out.empty? }
      assert_empty mounts(host), host
      assert_equal "", @testbed.run!(host, "sh", "-c", "ls -A #{PRIVATE} 2>/dev/null || true"), host
    end
  end

  def clean(*words)
    @testbed.run!("head", RAKUDACTL, "clean", "-F", "#{@shared}/hosts", *words, chdir: @shared)
  end
end
