# frozen_string_literal: true

require "minitest/autorun"
require_relative "../hosts_case"

# Runs on many hosts over ssh: what users see of them, and what happens when something dies. Hosts that fall silent are
# tested in ../sites/leaders_test.rb, with a leader and without one.
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
    assert_equal 0, rakuda("task(:default) { sh 'hostname' }", "-q").status
    assert_equal first, cached, "the second run ships nothing"
  end

  def cached
    @testbed.run!("host1", "sh", "-c", "find ${XDG_CACHE_HOME:-~/.cache}/rakuda/bin -type f -printf '%i %s %T@ %f\\n'").lines.sort
  end

  def test_environment_and_directory_go_along
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

  def test_statuses_signals_and_programs_that_are_not_there_are_told_as_here
    result = rakuda(<<~'RUBY', "-q")
      task :default do
        sh("exit 7") { |ok, status| puts [ok, status.exitstatus].inspect }
        sh("kill -9 $$") { |ok, status| puts [ok, status.termsig].inspect }
        sh("no-such-program") { |ok, status| puts [ok, status.exitstatus].inspect }
        sh "exit 5"
      end
    RUBY
    assert_equal ["[false, 7]", "[false, 9]", "[nil, 127]"], result.lines
    assert_equal 1, result.status
    assert_includes result.err, "Command failed with status (5)"
    assert_match(/ on host[12]/, result.err)
  end

  def test_lines_come_whole_and_in_order
    result = rakuda(<<~'RUBY', "-q")
      task default: (1..8).map { |number| "t#{number}" }
      (1..8).each { |number| task("t#{number}") { sh "seq -f 't#{number} %g #{"x" * 200}' 1 300" } }
    RUBY
    assert_equal 0, result.status
    by_task = result.lines.group_by { |line| line[/\At\d+/] }
    assert_equal 8, by_task.size
    by_task.each { |task, lines| assert_equal (1..300).map { |number| "#{task} #{number} #{"x" * 200}" }, lines }
  end

  def test_allow_and_deny_choose_hosts
    result = rakuda(<<~'RUBY', "-q")
      task default: (1..4).map { |number| "t#{number}" }
      (1..4).each { |number| desc "deny=*1"; task("t#{number}") { sh "hostname" } }
    RUBY
    assert_equal ["host2"], result.lines.uniq
  end

  def test_a_host_that_cannot_be_reached_is_named_with_the_words_of_ssh
    write("hosts", "nosuch 2\nhost1 2\n")
    result = rakuda_until_told("nosuch cannot be used", "task(:default) { #{UNTIL_GO} }")
    assert_equal [0, "host1\n"], [result.status, result.out], result.err
    assert_match(/\Arakuda: node nosuch cannot be used: ssh: Could not resolve hostname nosuch: /, result.err)
  end

  def test_without_any_host_the_run_ends_with_status_three
    write("hosts", "nosuch 2\n")
    result = rakuda("task(:default) { sh 'hostname' }", "-q")
    assert_equal [3, ""], [result.status, result.out]
    assert_match(/no node is left to run on:\n  nosuch: ssh: Could not resolve hostname nosuch: /, result.err)
  end

  def test_tasks_of_a_killed_agent_run_again_and_use_up_no_retry
    printed, status = while_waiting("--retry", "0") do
      @testbed.run!("host2", "pkill", "-KILL", "-x", "rakuda-agent")
      wait_for("the loss to be noticed") { names("*._fail_").size == 2 }
      write("go", "")
    end
    assert status.success?, printed
    assert_match(/rakuda: node host2 was lost \(.+\): 2 tasks run again elsewhere/, printed)
    assert_all_made
    wait_until_nothing_runs("host1", "host2")
  end

  def test_an_engine_that_is_killed_leaves_no_process_and_the_next_run_goes_on
    while_waiting do
      @testbed.run!("head", "pkill", "-KILL", "-x", "rakudad")
    end
    wait_until_nothing_runs("host1", "host2", "head")
    write("go", "")
    result = @testbed.run("head", RAKUDA, "-F", "hosts", "-q", chdir: @folder)
    assert_equal 0, result.status, result.err
    assert_all_made
    assert_empty names("*._fail_"), "they went when their targets were made"
  end

  def test_an_interrupt_ends_all_commands_on_all_hosts
    printed, status = while_waiting { |pid| Process.kill(:INT, pid) }
    assert_equal 130, status.exitstatus, printed
    wait_until_nothing_runs("host1", "host2")
    assert_empty names("by.*")
    assert_equal 4, names("*._fail_").size
  end

  def test_the_nodes_of_a_run_are_listed
    rows = nil
    while_waiting do
      rows = ctl("nodes")
      write("go", "")
    end
    assert_match(/^  head +spare /, rows)
    assert_match(/^  host1 +up +2 cores, 2 running, 0 done$/, rows)
  end
end
