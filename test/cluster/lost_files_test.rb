# frozen_string_literal: true

require "minitest/autorun"
require_relative "gfarm_case"

# Files in Gfarm whose only replica is out of reach: what is needed is made again, and what can be read is not.
class ClusterLostFilesTest < ClusterGfarmCase
  def test_a_file_that_went_with_its_host_is_made_again
    host = nil
    printed, status = running(CHAIN, "HEARTBEAT=2", "-L", "#{@shared}/log") do |so_far|
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
  ensure
    Testbed.spoilt
  end

  def test_an_agent_that_dies_alone_takes_no_file_with_it
    printed, status = running(CHAIN) do |so_far|
      host = maker(so_far)
      @testbed.run!(host, "pkill", "-KILL", "-x", "rakuda-agent")
      wait_for("the host to be back", so_far) { so_far.call.include?("rakuda: node #{host} is back") }
      go
    end
    assert status.success?, printed
    assert_whole
    assert_equal 1, printed.scan("mid made on").size, printed
    refute_includes printed, "out of reach"
  end

  def test_a_reader_that_fails_because_gfsd_is_gone_uses_up_no_retry
    host = nil
    printed, status = running(CHAIN, "--retry", "0") do |so_far|
      host = maker(so_far)
      @testbed.fault("stop-gfsd", host)
      go
    end
    assert status.success?, printed
    assert_whole
    assert_equal 2, printed.scan("mid made on").size, printed
    assert_match(/^rakuda: mid is out of reach in Gfarm/, printed)
  ensure
    @testbed.fault("start-gfsd", host) if host
  end

  def test_an_input_that_nothing_makes_is_waited_for
    write("src", "3\n1\n2\n", host: "host3")
    @testbed.fault("stop-gfsd", "host3")
    printed, status = running("file('end' => 'src') { sh 'sort src > end' }\ntask default: 'end'") do |so_far|
      wait_for("the loss to be noticed", so_far) { so_far.call.include?("src is needed, and out of reach in Gfarm") }
      @testbed.fault("start-gfsd", "host3")
    end
    assert status.success?, printed
    assert_equal "1\n2\n3\n", read("end")
  end

  def test_a_failure_that_has_nothing_to_do_with_gfarm_is_one
    write("src", "1\n")
    printed, status = running("file('end' => 'src') { sh 'echo tried; false' }\ntask default: 'end'", "--retry", "1") { nil }
    assert_equal 1, status.exitstatus, printed
    assert_equal 2, printed.scan(/^tried$/).size, printed
    refute_includes printed, "out of reach"
  end
end
