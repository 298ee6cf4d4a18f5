# frozen_string_literal: true

require "minitest/autorun"
require_relative "../hosts_case"

# Runs on many hosts over ssh: what comes to them and stays there, and a host that loses power and has it again. What
# needs no network of its own is in test/near/hosts_test.rb, hosts that fall silent in ../sites/leaders_test.rb, with a
# leader and without one, agents that die in stream_faults_test.rb.
class ClusterHostsTest < ClusterHostsCase
  def test_tasks_run_on_the_hosts_of_the_file_and_leave_only_the_cache_there
    result = rakuda(<<~'RUBY', "-q")
      made = (1..12).map { |number| "out#{number}" }
      task default: made
      # Until both hosts have begun one, none ends.
      both = "until grep -q host1 begun && grep -q host2 begun; do sleep 0.05; done"
      made.each { |name| file(name) { sh "hostname >> begun; #{both}; hostname > #{name}" } }
    RUBY
    assert_equal [0, ""], [result.status, result.err]
    assert_equal %W[host1\n host2\n], (1..12).map { |number| read("out#{number}") }.uniq.sort
    wait_until_nothing_runs("host1", "host2")
    first = cached
    assert_equal 2, first.size, "the program, and the folder's name"
    check_environment_and_directory
    assert_equal first, cached, "the second run ships nothing"
  end

  # sshd gives commands an environment of its own.
  def check_environment_and_directory
    result = rakuda(<<~'RUBY', "-q", "-j2", "PASS_ENV=PASSED", environment: { "PASSED" => "a b", "KEPT" => "here" })
      task default: %i[given set moved]
      task(:given) { sh({ "GIVEN" => "x" }, "echo given=$GIVEN passed=$PASSED kept=$KEPT.") }
      task(:set) { ENV["SET"] = "y"; sh "echo set=$SET" }
      task(:moved) { cd("/usr", verbose: false) { sh "pwd" }; sh "pwd", chdir: "/var"; sh "pwd" }
    RUBY
    assert_equal [0, ""], [result.status, result.err]
    assert_equal ["/usr", "/var", @folder, "given=x passed=a b kept=.", "set=y"].sort, result.lines.sort
    assert_equal %w[/usr /var] + [@folder], result.lines.grep(%r{\A/})
  end

  def cached
    @testbed.run!("host1", "sh", "-c", "find ${XDG_CACHE_HOME:-~/.cache}/rakuda/bin -type f -printf '%i %s %T@ %f\\n'").lines.sort
  end

  # A host is tried for half a minute, and starting one here may wait longer than that for other testbeds: then once
  # more.
  ROUNDS_MAX = 4
  TRIED_S = 60

  def test_a_host_that_has_power_again_is_used_again
    write("hosts", "host1 2\nhost3 2\n")
    printed, status = nil
    ROUNDS_MAX.times do
      printed, status = while_waiting("HEARTBEAT=20") { lose_and_start_host3 }
      assert status.success?, printed
      break if made_by.include?("host3\n")

      FileUtils.rm_rf(Dir["#{@folder}/{go,begun.*,by.*,out*,.rakuda}"])
    end
    assert_match(/rakuda: node host3 was lost \(.+\): 2 tasks run again elsewhere/, printed)
    assert_includes printed, "rakuda: node host3 is back\n"
    assert_all_made
    assert_includes made_by, "host3\n"
  ensure
    @testbed.fault("start-host", "host3")
  end

  def made_by = (1..6).map { |number| read("by.out#{number}") }

  # Until a task has begun on it, or it is tried no more.
  def lose_and_start_host3
    @testbed.fault("kill-host", "host3")
    wait_for("the loss to be noticed") { names("*._fail_").size == 2 }
    forget_begun_on("host3")
    @testbed.fault("start-host", "host3")
    until_s = Process.clock_gettime(Process::CLOCK_MONOTONIC) + TRIED_S
    sleep 0.05 until begun_on("host3").any? || Process.clock_gettime(Process::CLOCK_MONOTONIC) > until_s
    write("go", "")
  end
end
