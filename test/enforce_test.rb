# frozen_string_literal: true

require "fileutils"
require "json"
require "minitest/autorun"
require "open3"
require "tmpdir"

# `--enforce memory`: a command that has more than its task asks for is killed with all that it has started, and what is
# said names the task, what it had and the bound. Where control groups can be made, each command has one, else it is
# watched: the run says once which of both, and is held to that. RAKUDA_ENFORCED (groups, watch) says which it has to be
# (tools/test-control-groups).
class EnforceTest < Minitest::Test
  ROOT = File.expand_path("..", __dir__)
  RAKUDA = File.join(ROOT, "bin", "rakuda")
  CONTROL = File.join(ROOT, "bin", "rakudactl")
  # 200 MiB that are written to, held until someone ends it.
  GREEDY = %(ruby --disable-all -e 'x = "a" * (200 << 20); $stdout.puts x.size; $stdout.flush; IO.pipe[0].read')
  RAKEFILE = <<~RUBY.freeze
    needs memory: "80M", retry: 1
    task(:greedy) { sh %q(#{GREEDY}) }
    needs memory: "80M"
    task(:family) { sh %q(sh -c "#{GREEDY.gsub('"', '\\"').gsub("$", "\\$")} & wait") }
    needs memory: "80M"
    task(:modest) { sh "cat /proc/self/cgroup" }
    task(:free) { sh %q(ruby --disable-all -e 'x = "a" * (200 << 20); puts x.size') }
    task default: %i[modest greedy family free]
  RUBY
  WAYS = { "groups" => "by a control group for each command", "watch" => "by looking at it at least ten times a second: " }.freeze
  WHY = { "groups" => /killed: it had [\d.]+ MiB of memory and wanted more, and its task asks for 80 MiB/,
          "watch" => /killed: it had [\d.]+ MiB of memory, and its task asks for 80 MiB/ }.freeze

  def test_who_takes_more_than_it_asks_for_is_killed_and_told
    Dir.mktmpdir("rakuda-enforce") do |dir|
      File.write(File.join(dir, "Rakefile"), RAKEFILE)
      out, err, status = Open3.capture3(RAKUDA, "-j", "4", "-q", "--keep-going", "--enforce", "memory", chdir: dir)
      refute_predicate status, :success?
      way = way_in(err)
      assert_equal way == "groups", out.match?(%r{/rakuda/\d+-\d+$}), "the group of a bounded command: #{out}"
      why = WHY.fetch(way)
      assert_match(/task greedy failed \(attempt 1\), trying again: Command was #{why.source}: \[/, err)
      %w[greedy family].each { |task| assert_match(/task #{task} failed after [^:]+: #{why.source}/, err) }
      refute_match(/task (modest|free) failed/, err)
      told, = Open3.capture2(CONTROL, "-C", dir, "story", "greedy")
      assert_match(why, told)
      check_journal(dir, why)
    end
  end

  def test_without_a_bound_nothing_is_said_of_bounds
    Dir.mktmpdir("rakuda-enforce") do |dir|
      File.write(File.join(dir, "Rakefile"), "task(:default) { sh 'true' }")
      _, err, status = Open3.capture3(RAKUDA, "-q", "--enforce", "memory", chdir: dir)
      assert_predicate status, :success?, err
      refute_match(/memory is enforced/, err)
    end
  end

  # JUnit's file, the story, the report and what `rakuda` says last.
  def test_task_what_it_had_and_bound_are_told_wherever_the_failure_is
    Dir.mktmpdir("rakuda-enforce") do |dir|
      File.write(File.join(dir, "Rakefile"), %(needs memory: "80M"\ntask(:default) { sh %q(#{GREEDY}) }\n))
      _, err, status = Open3.capture3(RAKUDA, "-q", "--enforce", "memory", chdir: dir)
      assert_equal 1, status.exitstatus
      why = WHY.fetch(way_in(err))
      assert_match(/^rakuda aborted!\nCommand was #{why.source}: \[ruby/, err)
      assert_match(/^default: failed after.*^  #{why.source}/m, err, "the engine knows it as the command's failure")
      told = { %w[export junit] => /<failure message="Command was #{why.source}: /,
               %w[story default] => /: Command was #{why.source}/,
               %w[report --json] => /"message": ?"Command was #{why.source}: / }
      told.each { |words, text| assert_match(text, Open3.capture2(CONTROL, "-C", dir, *words).first) }
    end
  end

  def test_a_command_that_only_ruby_can_start_is_refused_where_its_memory_is_to_be_enforced
    Dir.mktmpdir("rakuda-enforce") do |dir|
      File.write(File.join(dir, "Rakefile"), <<~RUBY)
        trap("USR1", "IGNORE")
        task(:free) { sh "echo free" }
        needs memory: "80M"
        task(default: :free) { sh "echo > ran" }
      RUBY
      out, err, status = Open3.capture3(RAKUDA, "-q", "--enforce", "memory", chdir: dir)
      assert_equal [1, "free\n"], [status.exitstatus, out], err
      assert_match(/--enforce memory: this command cannot be held to its task's memory: the Rakefile has changed/, err)
      refute_path_exists File.join(dir, "ran")
      assert_predicate Open3.capture3(RAKUDA, "-q", chdir: dir).last, :success?
    end
  end

  # In words that rake has none for.
  def test_a_signal_that_has_ended_a_command_is_named_when_it_is_tried_again
    Dir.mktmpdir("rakuda-enforce") do |dir|
      File.write(File.join(dir, "Rakefile"), %(needs retry: 1\ntask(:default) { sh "kill -TERM $$" }\n))
      _, err, = Open3.capture3(RAKUDA, "-q", chdir: dir)
      why = /Command failed with signal 15 \(SIGTERM\): \[kill/
      assert_match(/task default failed \(attempt 1\), trying again: #{why.source}/, err)
      assert_match(/^rakuda aborted!\nCommand failed with status \(\): \[kill/, err, "as rake says it")
      whole = /"Command failed with signal 15 \(SIGTERM\): kill -TERM \$\$ \(after 2 attempts\)"/
      assert_match(whole, Open3.capture2(CONTROL, "-C", dir, "export", "junit").first)
    end
  end

  private

  # @return [String] how the run holds commands to their bounds; it says so once
  def way_in(err)
    said = err.scan(/^rakuda: memory is enforced (.*)$/).flatten
    assert_equal 1, said.size, err
    way = WAYS.find { |_, words| said.first.start_with?(words) }&.first
    assert_includes [ENV.fetch("RAKUDA_ENFORCED", way)], way, err
    way
  end

  def check_journal(dir, why)
    journal = File.readlines(Dir[File.join(dir, ".rakuda/runs/*/journal.jsonl")].first).map { |line| JSON.parse(line) }
    ended = journal.select { |event| event["event"] == "command_ended" }
    assert_equal [0, 0, 9, 9, 9], ended.map { |event| event["status"] }.sort
    assert_equal(3, ended.count { |event| event["error"]&.match?(why) })
  end
end
