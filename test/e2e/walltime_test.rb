# frozen_string_literal: true

require "json"
require "minitest/autorun"
require "support/longer_ago"
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

  def ctl(*words)
    out, err, = Open3.capture3("timeout", "-s", "KILL", RakefileRun::LIMIT, RAKUDACTL, *words, chdir: @folder)
    out + err
  end

  RAKUDACTL = File.expand_path("../../bin/rakudactl", __dir__)

  RAKEFILE = <<~'RUBY'
    multitask default: %w[quick slow]
    task(:quick) { sh "echo quick ran" }
    task(:slow) { sh "echo slow ran" }
    task last: %w[quick slow] do
      sh "echo last ran"
    end
  RUBY

  # A run for which `slow` takes too long by an earlier one, and all else does not, whatever the machine does meanwhile.
  def with_too_little_time(*words)
    assert_equal 0, rakuda("-q").status
    LongerAgo.stretch(@folder, "slow", 4 * 3600)
    rakuda("-q", "--walltime", "3h", *words)
  end

  def test_what_would_not_end_in_time_is_not_started
    result = with_too_little_time("last")
    assert_equal 3, result.status, result.err
    assert_equal "quick ran\n", result.out
    may_take = "task slow and its like may take 4 h( \\d+ min)? by earlier runs"
    assert_match(/^rakuda: #{may_take}, and .* of the walltime are left: not started/, result.err)
    assert_match(/the walltime ends too soon: slow and what depends on them were not started; run the same command again/,
                 result.err)
  end

  HELD = <<~'RUBY'
    multitask default: %w[held slow]
    task(:held) { sh "echo begun > begun; until test -e go; do sleep 0.05; done" }
    task(:slow) { sh "true" }
  RUBY

  def test_explain_names_the_walltime_as_the_reason
    File.write("#{@folder}/Rakefile", HELD)
    File.write("#{@folder}/go", "")
    assert_equal 0, rakuda("-q").status
    LongerAgo.stretch(@folder, "slow", 4 * 3600)
    %w[go begun].each { |name| File.delete("#{@folder}/#{name}") }
    run = Thread.new { rakuda("-q", "-j", "2", "--walltime", "3h") }
    sleep 0.05 until File.exist?("#{@folder}/begun") || !run.alive?
    told, short = ctl("explain", "slow"), JSON.parse(ctl("explain", "slow", "--json")).dig("answers", 0, "short", 0)
    File.write("#{@folder}/go", "")
    assert_match(/the walltime ends too soon: slow and/, run.value.err)
    assert_match(/^  \S+: it may take 4\.\d h by earlier runs, and (3\.0 h|1\d\d min) of the walltime are left$/, told)
    assert_equal %w[ends_too_soon node], short.keys.sort
    assert_equal "walltime", short["ends_too_soon"]["what"]
    assert_operator short["ends_too_soon"]["needed_s"], :>, short["ends_too_soon"]["left_s"]
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
    result = with_too_little_time("-j", "1", "last")
    assert_equal 3, result.status, result.err
    refute_includes result.out, "slow ran"
  end

  def test_a_time_that_means_nothing_is_refused
    ["2", "2:0", "1:00:00:00", "0s", "soon"].each do |time|
      result = rakuda("--walltime", time)
      assert_equal 1, result.status
      assert_includes result.err, "--walltime #{time}: expected a time such as 2:00:00, 30:00, 90m or 2h"
    end
  end
end
