# frozen_string_literal: true

require "minitest/autorun"
require "support/rakefile_run"

# Times of earlier runs, and a time after which nothing may run.
class WalltimeTest < Minitest::Test
  def setup
    @folder = Dir.mktmpdir("rakuda")
    File.write("#{@folder}/Rakefile", RAKEFILE)
  end

  def teardown
    FileUtils.rm_rf(@folder)
  end

  # The same folder each time: the second run knows the first.
  def rakuda(*words)
    command = ["timeout", "-s", "KILL", RakefileRun::LIMIT, RakefileRun::RAKUDA, *words]
    out, err, status = Open3.capture3(*command, chdir: @folder)
    RakefileRun::Result.new(out, err, status.exitstatus, @folder)
  end

  RAKEFILE = <<~'RUBY'
    multitask default: %w[quick slow]
    task(:quick) { sh "echo quick ran" }
    task(:slow) { sh "sleep 1; echo slow ran" }
    task last: %w[quick slow] do
      sh "echo last ran"
    end
  RUBY

  def test_what_would_not_end_in_time_is_not_started
    assert_equal 0, rakuda("-q").status
    result = rakuda("-q", "--walltime", "1s", "last")
    assert_equal 3, result.status, result.err
    assert_equal "quick ran\n", result.out
    assert_match(/^rakuda: task slow and its like may take 1\.\d s by earlier runs, and .* of the walltime are left: not started/,
                 result.err)
    assert_match(/the walltime ends too soon: slow and what depends on them were not started; run the same command again/,
                 result.err)
  end

  def test_what_ends_in_time_is_started
    assert_equal 0, rakuda("-q").status
    result = rakuda("-q", "-j", "2", "WALLTIME=1:00:00", "last")
    assert_equal [0, "last ran"], [result.status, result.out.lines.last.chomp], result.err
    assert_empty result.err
  end

  def test_without_earlier_runs_everything_is_started_before_the_end
    result = rakuda("-q", "--walltime", "90m")
    assert_equal 0, result.status, result.err
    assert_includes result.out, "slow ran"
  end

  def test_in_rakes_order_too
    assert_equal 0, rakuda("-q").status
    result = rakuda("-q", "-j", "1", "--walltime", "1s", "last")
    assert_equal 3, result.status, result.err
    refute_includes result.out, "slow ran"
  end

  def test_a_time_that_means_nothing_is_refused
    ["2", "2:0", "1:00:00:00", "0s", "soon"].each do |time|
      result = rakuda("--walltime", time)
      assert_equal 1, result.status
      assert_includes result.err, "WALLTIME=#{time} (option): expected a time such as 2:00:00, 30:00, 90m or 2h"
    end
  end
end
