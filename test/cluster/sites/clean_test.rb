# frozen_string_literal: true

require "minitest/autorun"
require_relative "../hosts_case"

# What `rakudactl clean` finds on hosts that only their leader can reach, and what killed runs have left on this
# machine.
class ClusterCleanTest < ClusterHostsCase
  PRIVATE = "/tmp/rakuda-0"

  def testbed_settings = { HOSTS: 4, GFARM: 0, SLURM: 0, WAN_MS: 5 }

  def clean(*words) = @testbed.run("head", RAKUDACTL, "clean", *words, chdir: @folder)

  # head has no way to host2 and host4 while the block runs.
  def where_only_leaders_reach_hosts
    route = ->(what) { "for host in host2 host4; do ip route #{what} unreachable $(getent hosts $host | cut -d ' ' -f 1); done" }
    @testbed.run!("head", "sh", "-c", route.call("add"))
    refute @testbed.run("head", "ssh", "host4", "true").success?
    yield
  ensure
    @testbed.run!("head", "sh", "-c", route.call("del"))
  end

  def test_hosts_behind_leaders_are_reached_through_them_or_told_with_them
    write("hosts.toml", NESTED)
    where_only_leaders_reach_hosts do
      write("Rakefile", "desc 'allow=host2'\ntask(:default) { sh 'hostname' }")
      result = @testbed.run("head", RAKUDA, "-F", "hosts.toml", "-q", chdir: @folder)
      assert_equal [0, "host2\n"], [result.status, result.out], result.err
      all = %w[host2 host3 host4]
      mark = "RAKUDA_RUN=99998-01234567:99999-0123456789abcdef"
      all.each { |host| @testbed.run!(host, "sh", "-c", "#{mark} setsid sleep 1000 >/dev/null 2>&1 </dev/null &") }
      all.each { |host| wait_for("sleep on #{host}") { @testbed.run(host, "pgrep", "-xf", "sleep 1000").status.zero? } }
      dry = clean("-F", "hosts.toml", "--ssh-option", "-oUser=root", "--dry-run")
      assert_equal [0, ""], [dry.status, dry.err]
      assert_equal(all, dry.lines.map { |line| line[/\A(host\d): would kill \d+ \(sleep\)\z/, 1] })
      assert_equal dry.out.gsub("would kill", "killed"), clean("-F", "hosts.toml").out
      all.each { |host| wait_for("sleep to end on #{host}") { @testbed.run(host, "pgrep", "-xf", "sleep 1000").out.empty? } }
    end
    assert_told_with_its_leader
  end

  def assert_told_with_its_leader
    write("hosts.toml", NESTED.sub("host2 2", "nosuch"))
    result = clean("-F", "hosts.toml")
    assert_equal 1, result.status
    assert_match(/\Arakudactl: nosuch was not cleaned: .*ssh: Could not resolve .+ \(through its leader host4\)\n\z/, result.err)
  end

  # A process of a run that is over, a program that was not used for 40 days, and a socket that nobody listens on.
  def test_what_runs_that_are_over_have_left_on_this_machine_is_removed
    dead, living = "#{PRIVATE}/dead.sock", "#{PRIVATE}/living.sock"
    @testbed.run!("head", "sh", "-c", <<~SH)
      RAKUDA_RUN=99998-01234567:99999-0123456789abcdef setsid sleep 1001 >/dev/null 2>&1 </dev/null &
      mkdir -p -m 700 #{PRIVATE}
      mkdir -p ~/.cache/rakuda/bin/old ~/.cache/rakuda/bin/new
      touch -d '40 days ago' ~/.cache/rakuda/bin/old/rakudad
      touch ~/.cache/rakuda/bin/new/rakudad
    SH
    home = @testbed.run!("head", "sh", "-c", "echo ~").chomp
    @testbed.run!("head", "ruby", "-rsocket", "-e", "UNIXServer.new('#{dead}')")
    # It is there before somebody listens on it.
    listens = "UNIXServer.new('#{living}'); File.write('listens', ''); sleep"
    listener = @testbed.start("head", "ruby", "-rsocket", "-e", listens, chdir: @folder)
    wait_for("the socket") { names("listens").any? }
    @testbed.run!("head", "touch", "#{PRIVATE}/file.sock")
    wait_for("the process") { @testbed.run("head", "pgrep", "-xf", "sleep 1001").success? }
    left = ["#{home}/.cache/rakuda/bin/old/rakudad", dead]
    dry, told = [clean("--dry-run"), clean].map { |result| result.lines.sort }
    assert_equal left.map { |path| "would remove #{path}" }.sort, dry.grep_v(/\Awould kill \d+ \(sleep\)\z/)
    assert_equal left.map { |path| "removed #{path}" }.sort, told.grep_v(/\Akilled \d+ \(sleep\)\z/)
    assert_equal [left.size + 1] * 2, [dry.size, told.size]
    wait_for("the process to end") { @testbed.run("head", "pgrep", "-xf", "sleep 1001").out.empty? }
    assert_equal "file.sock\nliving.sock\n", @testbed.run!("head", "ls", PRIVATE)
  ensure
    Process.kill(:KILL, listener)
    Process.wait(listener)
    @testbed.run!("head", "rm", "-rf", PRIVATE)
  end

  def test_nothing_is_removed_from_a_folder_that_others_may_write_to
    mark = "99999-0123456789abcdef"
    @testbed.run!("head", "mkdir", "-p", "#{PRIVATE}/#{mark}")
    @testbed.run!("head", "ruby", "-rsocket", "-e", "UNIXServer.new('#{PRIVATE}/dead.sock')")
    @testbed.run!("head", "chmod", "777", PRIVATE)
    [clean("--dry-run"), clean("--files")].each do |result|
      assert_match(/\Afailed to use #{PRIVATE} on this node: .+ that nobody else may write to .+\n\z/, result.out)
    end
    @testbed.run!("head", "chmod", "755", PRIVATE)
    assert_equal "removed #{PRIVATE}/#{mark}\nremoved #{PRIVATE}/dead.sock\n", clean.out
  ensure
    @testbed.run!("head", "rm", "-rf", PRIVATE)
  end

  def test_an_invitation_whose_address_leads_elsewhere_is_kept_while_its_run_lives
    invitation = nil
    while_command_waits(RAKUDA, "-q", "-j", "2", "--joinable", begun: 2) do
      wait_for("the invitation") do
        invitation = Dir[File.join(@folder, ".rakuda/join/*")].first
        invitation && !File.empty?(invitation)
      end
      # Nobody listens on port 1.
      File.write(invitation, File.read(invitation).sub(/\S+:\d+/, "127.0.0.1:1"))
      assert_equal "", clean.out
      kill_newest_run
    end
    assert_includes clean.out, "removed #{invitation}\n"
  end

  def test_invitations_to_runs_that_were_killed_are_removed
    while_command_waits(RAKUDA, "-q", "-j", "2", "--launch", "ssh host1 {agent}", begun: 2) do
      assert_equal "", clean.out, "the run goes on"
      kill_newest_run
    end
    left = Dir[File.join(@folder, ".rakuda/join/launch-*")]
    assert_equal 1, left.size
    assert_includes clean("--dry-run").out, "would remove #{left.first}\n"
    assert_includes clean.out, "removed #{left.first}\n"
    refute_path_exists left.first
    wait_until_nothing_runs("host1")
  end
end
