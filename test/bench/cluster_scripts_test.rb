# frozen_string_literal: true

require "minitest/autorun"
require "open3"
require_relative "../../bench/cluster/support"
require_relative "../../bench/cluster/trace"

# What the scripts that measure on a testbed read and compute, and what they refuse before there is one. The scripts
# themselves are run in ../cluster/bench_test.rb.
class ClusterScriptsTest < Minitest::Test
  FOLDER = File.expand_path("../../bench/cluster", __dir__)

  # Two processes: the first makes a thread (3) and a command (4), which makes another thread (5).
  TRACE = <<~TEXT
    1 execve("/usr/bin/engine", ["engine", "--front-fd", "3", "--guard-fd", "4"], 0x7ffd /* 20 vars */) = 0
    1 clone3({flags=CLONE_VM|CLONE_THREAD, stack=0x7f}, 88) = 3
    3 statx(AT_FDCWD</run/here>, "sub/file", AT_STATX_SYNC_AS_STAT, STATX_ALL, 0x7f) = 0
    1 clone3({flags=CLONE_VM|CLONE_VFORK, exit_signal=SIGCHLD, stack=0x7f}, 88 <unfinished ...>
    4 openat(AT_FDCWD</run/here>, "log", O_WRONLY|O_CREAT, 0666) = 5</run/here/log>
    1 <... clone3 resumed>)             = 4
    4 clone(child_stack=0x7f, flags=CLONE_VM|CLONE_THREAD) = 5
    5 access("/etc/passwd", R_OK)       = 0
    3 newfstatat(7</run/here/out>, "", 0x7f, AT_EMPTY_PATH) = 0
    3 unlink("/run/here/old" <unfinished ...>
    3 <... unlink resumed>)             = 0
  TEXT

  def test_a_trace_is_read_with_its_threads_and_without_its_commands
    trace = Shows::Trace.new(TRACE)
    assert_equal 1, trace.process_with("--guard-fd")
    expected = [["statx", "/run/here/sub/file"], ["newfstatat", "/run/here/out"], ["unlink", "/run/here/old"]]
    [trace.calls(1), trace.calls].each do |calls|
      assert_equal(expected, calls.map(&:to_a).reject { |name, _| name.match?(/clone|execve/) })
    end
  end

  def test_a_journal_is_read_up_to_a_line_that_was_cut_off
    journal = Shows::Journal.new(<<~TEXT.chomp)
      {"event":"node_joined","node":1,"name":"host1"}
      {"event":"task_defined","task":7,"name":"out"}
      {"event":"attempt_started","task":7,"node":1,"time_ns":1000000000}
      {"event":"attempt_ended","task":7,"outcome":"lost","time_ns":3000000000}
      {"event":"attempt_started","task":7,"node":1,"time_ns":4000000000}
      {"event":"attempt_en
    TEXT
    assert_equal [["out", "host1", 1.0, 3.0, "lost", nil, {}]], journal.attempts.map(&:to_a)
    assert_equal({ "lost" => 1 }, journal.outcomes)
  end

  def test_medians_and_spreads
    assert_equal([nil, 2, 2.5], [[], [3, 1, 2], [1, 2, 3, 9]].map { |values| Shows.median(values) })
    assert_equal ["-", "1.00", "2.0 [1.0-4.0]"], [Shows.spread([]), Shows.spread([1]), Shows.spread([4, 1, 2], 1)]
  end

  def test_wrong_words_are_refused_in_one_line
    output, status = Open3.capture2e("#{FOLDER}/faults", "--only", "flood")
    assert_equal [1, 1], [status.exitstatus, output.lines.grep_v(/^(command|machine):/).size], output
    assert_includes output, "flood is none of agent "
  end
end
