# frozen_string_literal: true

# The last lines of a run that failed or was stopped: what went wrong, what was not run because of it, how to go on.

require "minitest/autorun"
require "shellwords"
require_relative "../support/rakefile_run"

class FailureSummaryTest < Minitest::Test
  include RakefileRun

  def setup
    engine = File.join(Engines::ROOT, "target", "release", "rakudad")
    @engine_environment = Engines::COMMON.merge("FAILED_TARGET" => nil, "RAKUDA_ENGINE" => engine)
  end

  RAKEFILE = <<~'RUBY'
    task default: %w[top other]
    file("top" => "part") { |t| touch t.name, verbose: false }
    file("part") { |t| sh "touch part; for i in 1 2 3 4 5 6; do echo line $i; done; kill -9 $$" }
    task(:other) { raise ArgumentError, "no such thing" }
    task(:well) { puts "well" }
    task(missing_program: :well) { sh "no_such_program_at_all 1 2" }
    task(:loud) { sh %q(printf 'a\033[31mred\r\nb\tc\n'; exit 7) }
    task(:rescued) { puts "after" }
    Rake::Task[:rescued].enhance([]) { begin; Rake::Task[:other].invoke; rescue ArgumentError; puts "rescued"; end }
  RUBY

  # @return [Array<String>] lines of the block, which must be the last that stderr has
  def block_of(run)
    lines = run.err.lines.map(&:chomp)
    start = lines.rindex { |line| line.start_with?("== rakuda: ") }
    refute_nil start, run.err
    assert_match(/^to resume: /, lines.last)
    lines[start..]
  end

  def test_a_killed_command_is_told_with_signal_output_target_and_what_hangs_on_it
    %w[-j1 -j4].each do |jobs|
      rakuda(RAKEFILE, jobs, "top") do |run|
        block = block_of(run)
        assert_equal "== rakuda: 1 failed, 1 not run because of it, 0 done ==", block[0]
        assert_match(/^part: failed after \d+(\.\d)? m?s on \S+$/, block[1])
        assert_equal "  command: touch part; for i in 1 2 3 4 5 6; do echo line $i; done; kill -9 $$", block[2]
        assert_equal ["  signal 9 (SIGKILL)", "  the end of its output:"], block[3, 2]
        assert_equal (2..6).map { |number| "    line #{number}" }, block[5, 5]
        assert_match(%r{\A  all of it: rakudactl log part \(\.rakuda/runs/[^/]+/output\.log\)\z}, block[10])
        assert_equal ["  its target was renamed to part._fail_", "  not run because of it: top", "to resume: rakuda #{jobs} top"],
                     block[11..]
        assert_equal 1, run.status
      end
    end
  end

  def test_the_log_is_named_from_where_the_run_began_whatever_the_directory_is_now
    rakefile = "task(:moves) { Dir.chdir('/') }\ntask(bad: :moves) { sh 'echo oops; false' }\n"
    rakuda(rakefile, "-j2", "bad") do |run|
      assert_includes block_of(run).join("\n"), "rakudactl log bad (.rakuda/runs/"
    end
  end

  def test_an_exception_is_told_with_its_place_and_attempts
    rakuda(RAKEFILE, "-j2", "--retry", "1", "other") do |run|
      block = block_of(run)
      assert_match(/^other: failed after .* \(attempt 2 of 2\)$/, block[1])
      assert_equal "  error: ArgumentError: no such thing (Rakefile:4)", block[2]
    end
  end

  def test_the_status_of_an_action_that_exits_is_told
    rakuda("task(:default) { exit 7 }\ntask(:words) { abort 'no such thing' }\n", "-j2") do |run|
      assert_equal 7, run.status
      assert_equal "  error: exit 7 (Rakefile:1)", block_of(run)[2]
    end
  end

  def test_a_program_that_is_not_found_is_called_so
    rakuda(RAKEFILE, "-j2", "missing_program") do |run|
      block = block_of(run)
      assert_equal "== rakuda: 1 failed, 1 done ==", block[0]
      assert_includes block, "  exit status 127 (command not found)"
    end
  end

  def test_what_was_printed_cannot_act_on_the_terminal_again
    rakuda(RAKEFILE, "-j2", "loud") do |run|
      assert_equal ["    a?[31mred", "    b c"], block_of(run).grep(/^    /)
      assert_includes block_of(run), "  exit status 7"
    end
  end

  def test_options_that_leave_nothing_to_tell_are_respected
    rakuda(RAKEFILE, "-j2", "-s", "--no-record", "loud") do |run|
      assert_empty block_of(run).grep(/rakudactl log/)
    end
    rakuda(RAKEFILE, "-j2", "--output", "none", "loud") do |run|
      assert_includes block_of(run), "  its output was printed as it came, and is not kept (--output line keeps it)"
    end
  end

  def test_the_command_to_resume_does_not_begin_anew
    rakuda(RAKEFILE, "-j2", "-B", "A=it's me", "top") do |run|
      words = Shellwords.split(block_of(run).last.delete_prefix("to resume: "))
      assert_equal ["rakuda", "-j2", "A=it's me", "top"], words
    end
  end

  def test_a_failure_that_the_rakefile_has_dealt_with_is_not_told
    rakuda(RAKEFILE, "-j2", "rescued") do |run|
      assert_equal [0, %w[after rescued]], [run.status, run.lines], run.err
      refute_match(/^== rakuda/, run.err)
    end
  end

  def test_with_many_failures_ten_are_told
    rakefile = <<~RUBY
      task(default: (1..14).map { |n| "t%02d" % n })
      (1..14).each { |n| task("t%02d" % n) { sh "exit 3", verbose: false } }
    RUBY
    rakuda(rakefile, "-j2", "--failure", "continue") do |run|
      block = block_of(run)
      assert_equal "== rakuda: 14 failed, 0 done ==", block[0]
      assert_equal 10, block.grep(/^t\d\d: failed/).size
      assert_equal "and 4 more failed: rakudactl report", block[-2]
    end
  end

  def test_with_continue_each_failure_is_told_at_once_and_again_at_the_end
    rakefile = <<~'RUBY'
      task(:command) { sh "exit 3", verbose: false }
      task(:ruby) { raise ArgumentError, "no such thing" }
      task(:twice) { |t| sh "exit 4", verbose: false }
      task(:missing) { touch "ready", verbose: false }
      file("unknown" => "nosuch.txt") { }
      # It goes on until the failures have been read by whoever watches.
      task(:last) { sleep 0.01 until File.exist?("read") }
      task(default: %w[command ruby twice last])
      task(lookup: %w[missing unknown last])
    RUBY
    start_rakuda(rakefile, "-j4", "--failure", "continue", "--retry", "1") do |pid, folder, out|
      told = []
      told << out.gets.chomp.gsub(/\d+ ms|\d+\.\d s/, "TIME") until told.grep(/ failed after /).size == 3
      FileUtils.touch(File.join(folder, "read"))
      rest = out.read
      Process.wait(pid)
      assert_equal ["rakuda: task command failed after TIME: exit status 3: exit 3",
                    "rakuda: task ruby failed after TIME: ArgumentError: no such thing (Rakefile:2)",
                    "rakuda: task twice failed after TIME: exit status 4: exit 4"], told.grep(/ failed after /).sort
      refute_match(/^rakuda: task/, rest, "it is not told twice")
      assert_match(/^== rakuda: 3 failed, 1 done ==$/, rest)
      assert_equal 1, Process.last_status.exitstatus
    end
    start_rakuda(rakefile, "-j4", "--failure", "continue", "lookup") do |pid, folder, out|
      assert_match(/\Arakuda: task unknown failed: Don't know how to build task 'nosuch.txt' \(See the list .*\)$/, out.gets)
      FileUtils.touch(File.join(folder, "read"))
      refute_match(/^rakuda: task/, out.read)
      Process.wait(pid)
    end
  end

  def test_without_continue_nothing_is_told_before_the_end
    rakuda(RAKEFILE, "-j2", "other") { |run| refute_match(/^rakuda: task/, run.err) }
  end

  STRICT = <<~'RUBY'
    file("unmade") { }
    file("above" => "unmade") { |t| touch t.name, verbose: false }
    file("late") { |t| File.exist?("tried") ? touch(t.name, verbose: false) : touch("tried", verbose: false) }
    directory "folder"
    task(all: "folder") { puts "all" }
  RUBY

  def test_a_target_that_its_action_has_not_made_is_a_failure_where_that_is_wanted
    rakuda(STRICT, "-j2", "above") do |run|
      assert_equal 0, run.status
      assert_match(/^rakuda: task unmade ended well but its file does not exist/, run.err)
    end
    %w[-j1 -j2].each do |jobs|
      rakuda(STRICT, jobs, "--strict", "above") do |run|
        assert_equal 1, run.status
        assert_match(%r{^Rakuda::TargetNotMade: task unmade: .*\n\S+/Rakefile:1\nTasks: TOP => above => unmade$}, run.err)
        assert_equal ["== rakuda: 1 failed, 1 not run because of it, 0 done ==",
                      "  error: its action ended well but did not make it (--strict)"], block_of(run).values_at(0, 2)
      end
    end
    rakuda(STRICT, "--strict", "--retry", "1", "late") { |run| assert_equal 0, run.status, run.err }
    rakuda(STRICT, "-q", "--strict", "all") { |run| assert_equal [0, ["all"]], [run.status, run.lines], run.err }
    rakuda(STRICT, "--strict", "-n", "above") { |run| assert_equal 0, run.status, run.err }
  end

  def test_keep_going_is_failure_continue
    rakuda("task(default: %w[bad good])\ntask(:bad) { raise 'x' }\ntask(:good) { puts 'good' }\n", "-j1", "--keep-going") do |run|
      assert_equal [1, ["good"]], [run.status, run.lines], run.err
    end
  end

  def test_a_run_that_the_user_stops_says_how_far_it_was
    rakefile = <<~RUBY
      task(default: %w[first second])
      task(:first) { puts "done" }
      task(second: :first) { puts "waiting"; $stdout.flush; sleep 100 }
    RUBY
    start_rakuda(rakefile, "-j2") do |pid, _folder, out|
      nil until out.gets.start_with?("waiting")
      Process.kill(:INT, pid)
      rest = out.read.lines.map(&:chomp)
      Process.wait(pid)
      assert_equal ["== rakuda: stopped: 1/2 done ==", "to resume: rakuda -j2"], rest.last(2), rest.join("\n")
    end
  end
end
