# frozen_string_literal: true

require "minitest/autorun"
require_relative "../gfarm_case"

# Files in Gfarm whose only replica is out of reach: what is needed is made again, and what can be read is not.
class ClusterLostFilesTest < ClusterGfarmCase
  OUT_OF_REACH = /^rakuda: mid is out of reach in Gfarm/

  def test_a_file_that_went_with_its_host_is_made_again
    host = nil
    @spoilt = true
    printed, status = running(CHAIN, "HEARTBEAT=16", "-L", "#{@shared}/log") do |so_far|
      host = maker(so_far)
      @testbed.fault("kill-host", host)
      wait_for("the file to be made again", so_far) { so_far.call.scan("mid made on").size == 2 }
      go
    end
    assert status.success?, printed
    assert_whole
    refute_equal host, printed.scan(/mid made on (\S+)/).last.first
    assert_match(/^rakuda: mid is out of reach in Gfarm \(.+\); what is needed is made again$/, printed)
    assert_includes @testbed.run!("head", RAKUDACTL, "story", "mid", chdir: @folder), "lost"
  end

  # One task at a time, and where places of files are not asked for.
  def test_a_reader_that_fails_because_gfsd_is_gone_uses_up_no_retry
    assert_match(OUT_OF_REACH, without_the_server_of_mid(CHAIN, "-j1", "--disable-affinity"))
  end

  # `end` is made on host2 of `half` there, and reads `mid`, too, which host1 has. (That it may stand behind a task that
  # only names it is tested in crates/core/tests/apart.rs.)
  BEHIND = <<~'RUBY'
    shared = ENV.fetch("SHARED")
    task default: "end"
    desc "allow=host1"
    file("mid") { sh "seq 1 20000 > mid; echo mid made on $(hostname)" }
    desc "allow=host2"
    file("half" => "mid") { sh "head mid > half" }
    desc "allow=host2"
    task gate: "half" do
      sh "touch #{shared}/begun; until test -e #{shared}/go; do sleep 0.05; done"
    end
    desc "allow=host2"
    file("end" => %w[gate half]) { sh "sort -n -r mid > end && echo end made on $(hostname)" }
  RUBY

  def test_a_file_that_is_read_without_being_named_is_made_again_and_uses_up_no_retry
    assert_match(OUT_OF_REACH, without_the_server_of_mid(BEHIND))
  end

  def test_an_input_that_nothing_makes_is_waited_for_and_another_failure_is_one
    write("src", "3\n1\n2\n", host: "host3")
    @testbed.fault("stop-gfsd", "host3")
    printed, status = running("file('end' => 'src') { sh 'sort src > end' }\ntask default: 'end'") do |so_far|
      wait_for("the loss to be noticed", so_far) { so_far.call.include?("src is needed, and out of reach in Gfarm") }
      @testbed.fault("start-gfsd", "host3")
    end
    assert status.success?, printed
    assert_equal "1\n2\n3\n", read("end")
    failed, status = running("file('other' => 'src') { sh 'echo tried; false' }", "other", "--retry", "1") { nil }
    assert_equal [1, 2], [status.exitstatus, failed.scan(/^tried$/).size], "this has nothing to do with Gfarm: #{failed}"
    refute_includes failed, "out of reach"
  end

  # `end` is written by Ruby, on head, which has no disk of its own in Gfarm. What fails waits until the loss of host2
  # is known. Attempts after the first wait for file servers that run: with none at all a failure counts.
  WRITTEN_ON_HEAD = <<~'RUBY'
    shared = ENV.fetch("SHARED")
    desc "allow=host2"
    file("mid") { sh "seq 1 20000 > mid" }
    task gate: "mid"
    file("end" => "gate") do
      signal = File.exist?("#{shared}/tried") ? "served" : "go"
      File.open("#{shared}/tried", "a") { |file| file.puts "tried" }
      touch "#{shared}/begun", verbose: false
      sleep 0.05 until File.exist?("#{shared}/#{signal}")
      begin
        File.write("end", (1..20_000).to_a.reverse.join("\n") + "\n")
      rescue SystemCallError
        sleep 0.05 until File.exist?("#{shared}/lost")
        raise
      end
    end
    task default: "end"
  RUBY

  def test_a_new_file_that_gfarm_sends_to_a_dead_host_uses_up_no_retry
    @spoilt = true
    printed, status = running(WRITTEN_ON_HEAD, "HEARTBEAT=16", "--retry", "0", "-L", "#{@shared}/log") do |so_far|
      wait_for_the_gate(so_far)
      %w[host1 host3].each { |host| @testbed.fault("stop-gfsd", host) }
      @testbed.fault("cut-link", "host2")
      go
      wait_for("the loss", so_far) { so_far.call.include?("node host2 was lost") }
      FileUtils.touch("#{@shared}/lost")
      wait_for("the failure of its first attempt", so_far) { so_far.call.include?("end failed while gfsd") || tries > 1 }
      %w[host1 host3].each { |host| @testbed.fault("start-gfsd", host) }
      FileUtils.touch("#{@shared}/served")
    end
    assert status.success?, printed
    assert_whole
    assert_operator tries, :>, 1
  end

  private

  # Stops the file server of the host that has `mid` before it is read; `mid` is made again, without a retry.
  # @return [String] what the run printed
  def without_the_server_of_mid(rakefile, *words)
    host = nil
    printed, status = running(rakefile, *words, "--retry", "0") do |so_far|
      host = maker(so_far)
      @testbed.fault("stop-gfsd", host)
      go
    end
    assert status.success?, printed
    assert_whole
    assert_equal 2, printed.scan("mid made on").size, printed
    printed
  ensure
    @testbed.fault("start-gfsd", host) if host
  end

  def tries = File.exist?("#{@shared}/tried") ? File.readlines("#{@shared}/tried").size : 0
end
