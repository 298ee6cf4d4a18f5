# frozen_string_literal: true

require "fileutils"
require "json"
require "minitest/autorun"
require "open3"
require "tmpdir"

# `needs memory: ->(attempt) { ... }` and `needs retry_delay:`: what each attempt of a task gets, and when it begins, as
# the record has it.
class RetriesTest < Minitest::Test
  ROOT = File.expand_path("..", __dir__)
  RAKUDA = File.join(ROOT, "bin", "rakuda")
  # Holds 200 MiB for a while that the watch needs to see it.
  GREEDY = %(ruby --disable-all -e 'x = "a" * (200 << 20); File.exist?("enough") || IO.pipe[0].read')

  def setup
    @dir = Dir.mktmpdir("rakuda-retries")
  end

  def teardown
    FileUtils.rm_rf(@dir)
  end

  def test_each_attempt_gets_the_memory_that_the_lambda_says
    events = run_rakefile(<<~RUBY, "-j2")
      needs memory: ->(attempt) { attempt * (10 << 20) }, retry: 3
      task(:a) { sh "echo >> tries; test $(wc -l < tries) = 3" }
      task default: :a
    RUBY
    assert_equal [10, 20, 30], (starts(events).map { |event| event["memory_bytes"] >> 20 })
    assert_equal %w[failed failed done], (ends(events).map { |event| event["outcome"] })
  end

  def test_a_task_that_is_killed_for_its_memory_is_tried_again_with_more
    events = run_rakefile(<<~RUBY, "-j2", "--enforce", "memory")
      needs memory: ->(attempt) { attempt == 1 ? "80M" : "1G" }, retry: 1
      task(:a) { |t| File.write("enough", "") if File.exist?("begun"); File.write("begun", ""); sh %q(#{GREEDY}) }
      task default: :a
    RUBY
    assert_equal [80, 1024], (starts(events).map { |event| event["memory_bytes"] >> 20 })
    assert_equal ["memory"], events.first["enforce"]
    page, = Open3.capture2(File.join(ROOT, "bin/rakudactl"), "-C", @dir, "report", "-o", "-")
    assert page.include?("<dt>enforced</dt><dd>memory</dd>"), "the settings of the report do not say it"
  end

  def test_the_next_attempt_waits_for_its_delay
    events = run_rakefile(<<~RUBY, "-j1")
      needs retry: 1, retry_delay: "300ms"
      task(:a) { sh "test -e tried || { touch tried; false; }" }
      task default: :a
    RUBY
    failed = ends(events).first
    again = starts(events).last
    assert_equal ["failed", 2], [failed["outcome"], again["attempt"]]
    assert_operator again["time_ns"] - failed["time_ns"], :>=, 300_000_000
  end

  def test_what_the_lambda_says_wrong_is_told_with_its_line
    File.write(File.join(@dir, "Rakefile"), <<~RUBY)
      needs memory: ->(attempt) { attempt == 2 ? "much" : 1 }, retry: 1
      task(:default) {}
    RUBY
    _, err, status = Open3.capture3(RAKUDA, chdir: @dir)
    assert_equal 1, status.exitstatus
    assert_includes err, 'Rakefile:1: needs: memory, for attempt 2: expected a number of bytes, such as "512M" or "4G", ' \
                         'not "much"'
  end

  private

  def run_rakefile(text, *words)
    File.write(File.join(@dir, "Rakefile"), text)
    out, status = Open3.capture2e(RAKUDA, *words, chdir: @dir)
    assert status.success?, out
    File.readlines(Dir[File.join(@dir, ".rakuda/runs/*/journal.jsonl")].first).map { |line| JSON.parse(line) }
  end

  def starts(events) = events.select { |event| event["event"] == "attempt_started" }

  def ends(events) = events.select { |event| event["event"] == "attempt_ended" }
end
