# frozen_string_literal: true

require "json"
require "minitest/autorun"
require_relative "../support/rakefile_run"

# What a failed run did not do: the last lines on stderr, the list of runs, the report, the journal and what is asked
# about a task agree.
class NotRunTest < Minitest::Test
  include RakefileRun

  CONTROL = File.expand_path("../../bin/rakudactl", __dir__)

  def setup
    @engine_environment = Engines::REAL
  end

  # `group` has no action; `end` and `more` have one.
  RAKEFILE = <<~'RUBY'
    task default: %w[group end]
    task group: %w[bad1 bad2]
    task(:end => %w[bad1 bad2 bad3]) { sh "true" }
    task(:more => :end) { sh "true" }
    multitask default: :more
    (1..3).each { |number| task("bad#{number}") { sh "sleep 0.0#{number}; exit 1" } }
    task(:silent) { sh "true" }
  RUBY

  def test_not_run_counts_the_same_everywhere
    rakuda(RAKEFILE, "-j3", "-q", "--failure", "continue") do |result|
      block = result.err[/^== rakuda: 3 failed, (\d+) not run because of them/, 1]
      assert_equal "2", block, result.err
      assert_equal [2, 3], json(result, "runs")["runs"][0].values_at("abandoned", "failed")
      assert_match(/ 3 +2 lifo_hrf/, ask(result, "runs"))
      assert_equal [2, 3], json(result, "report").values_at("abandoned", "failed")
      assert_includes ask(result, "report", "--text"), "3 failed, 2 not run because of those"
      folder = Dir["#{result.folder}/.rakuda/runs/*"].fetch(0)
      ended = JSON.parse(File.readlines("#{folder}/journal.jsonl").last)
      assert_equal [2, 2], [ended["abandoned"], JSON.parse(File.read("#{folder}/summary.json"))["abandoned"]]
    end
  end

  def test_all_that_failed_is_named_as_the_reason
    rakuda(RAKEFILE, "-j3", "-q", "--failure", "continue") do |result|
      answer = json(result, "why", "end", "--run", "last")
      assert_equal %w[bad1 bad2 bad3], answer["because"].sort
      assert_equal %w[bad1 bad2 bad3], answer["chain"].map { |step| step["target"] }.sort
      assert_equal %w[bad1 bad2 bad3], ask(result, "story", "end")[/was not run, because of (.*)/, 1].split(", ").sort
    end
  end

  def test_log_of_what_printed_nothing_says_that
    rakuda(RAKEFILE, "-j2", "-q", "silent") do |result|
      assert_match(/\Arakudactl: the commands of silent printed nothing in run \S+\n\z/, ask(result, "log", "silent"))
    end
    rakuda(RAKEFILE, "-j2", "-q", "--output", "none", "silent") do |result|
      assert_match(/nothing of what silent printed was kept: there is no /, ask(result, "log", "silent"))
    end
  end

  private

  # What it prints.
  def ask(result, *words)
    out, status = Open3.capture2e(CONTROL, *words, chdir: result.folder)
    assert status.success?, out
    out
  end

  def json(result, *words)
    JSON.parse(ask(result, *words, "--json"))
  end
end
