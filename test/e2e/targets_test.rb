# frozen_string_literal: true

# Several targets on the command line: which run together, which wait, and what follows when one of them fails.

require "json"
require "minitest/autorun"
require_relative "../support/rakefile_run"

class TargetsTest < Minitest::Test
  include RakefileRun

  # Each of `a.out` and `b.out` waits until the other has begun; with one at a time neither would end.
  RAKEFILE = <<~'RUBY'
    def note(text) = File.write("log", "#{text}\n", mode: "a")
    MEET = ->(t, other) { touch "#{t.name}.begun", verbose: false; sleep 0.002 until File.exist?("#{other}.begun"); touch t.name, verbose: false; note t.name }
    file("a.out") { |t| MEET.call(t, "b.out") }
    file("b.out") { |t| MEET.call(t, "a.out") }
    file("c.out") { |t| note t.name; touch t.name, verbose: false }
    file("bad.out") { note "bad.out"; raise "cannot" }
    file("above_bad.out" => %w[bad.out c.out])
    file("given.out", [:word]) { |t, args| note args.word; touch t.name, verbose: false }
    file("maker.out") { |t| note t.name; touch [t.name, "beside.txt", "source.txt"], verbose: false }
    file("user.out" => "source.txt") { |t| note t.name; touch t.name, verbose: false }
    file("round.out" => "ring.out")
    file("ring.out" => "round.out")
    %w[p q].each { |name| task(name) { 3.times { note name; sleep 0.001 } } }
    task(:clean) { rm_f Dir["*.out"], verbose: false; note "clean" }
    task(all: %w[bad.out c.out]) { note "all" }
  RUBY

  def setup
    @engine_environment = Engines::REAL
  end

  # @yield [RakefileRun::Result, Array<String>] and what tasks have noted, in that order
  def targets(*words, files: {}, status: 0)
    rakuda(RAKEFILE, "-q", *words, files: files) do |run|
      log = File.join(run.folder, "log")
      assert_equal status, run.status, run.err
      yield run, File.exist?(log) ? File.readlines(log, chomp: true) : []
    end
  end

  def test_file_targets_that_stand_side_by_side_run_together
    targets("-j2", "a.out", "b.out") { |_run, log| assert_equal %w[a.out b.out], log.sort }
    # A target that is named twice is made once.
    targets("-j2", "a.out", "b.out", "a.out") { |_run, log| assert_equal %w[a.out b.out], log.sort }
    targets("-j2", "given.out[x y]", "c.out") { |_run, log| assert_equal ["c.out", "x y"], log.sort }
  end

  # A task with a source and a target: docs/design/clusters.md says which calls these are.
  def test_a_task_on_one_machine_takes_four_metadata_calls
    count = 100
    rakefile = <<~RUBY
      copies = Array.new(#{count}) { |i| file("t\#{i}" => "s\#{i}") { sh "cp s\#{i} t\#{i}", verbose: false } }
      task default: copies
    RUBY
    rakuda(rakefile, "-j2", "-q", files: Array.new(count) { |i| ["s#{i}", "x"] }.to_h) do |run|
      assert_equal 0, run.status, run.err
      journal = File.readlines(Dir[File.join(run.folder, ".rakuda/runs/*/journal.jsonl")].first).map { |line| JSON.parse(line) }
      calls = journal.filter_map { |event| event["run_file_system_operations"] }.last
      # Beside them, those of the run itself.
      assert_operator calls, :<=, (4 * count) + 50
      assert_operator calls, :>=, count, "nothing was counted"
    end
  end

  def test_plain_tasks_wait_for_what_stands_before_them_and_what_follows_waits_for_them
    targets("-j4", "p", "q", "a.out", "b.out", "p", "c.out") do |_run, log|
      assert_equal [%w[p] * 3, %w[q] * 3, %w[a.out b.out], %w[c.out]],
                   [log[0, 3], log[3, 3], log[6, 2].sort, log[8..]]
    end
    targets("-j4", "c.out", "q", "p") { |_run, log| assert_equal %w[c.out q q q p p p], log }
  end

  def test_what_stands_behind_clean_is_looked_up_when_that_has_run
    targets("-j4", "clean", "c.out", files: { "c.out" => "old" }) { |_run, log| assert_equal %w[clean c.out], log }
    targets("-j4", "c.out", "clean", files: { "c.out" => "old" }) { |run,| refute_path_exists File.join(run.folder, "c.out") }
  end

  def test_one_job_keeps_rakes_order
    targets("-j1", "c.out", "p", "maker.out", "user.out") { |_run, log| assert_equal %w[c.out p p p maker.out user.out], log }
  end

  def test_what_an_earlier_target_makes_is_found_by_a_later_one
    targets("-j4", "maker.out", "beside.txt", "user.out") { |_run, log| assert_equal %w[maker.out user.out], log }
    # As a prerequisite, which is looked up again when what stands before it has run.
    targets("-j4", "maker.out", "user.out") { |_run, log| assert_equal %w[maker.out user.out], log }
  end

  def test_as_with_rake_what_stands_before_a_target_that_cannot_be_made_is_made
    targets("-j4", "c.out", "nosuch", "p", status: 1) do |run, log|
      assert_equal ["c.out"], log
      assert_match(/\Arakuda aborted!\nDon't know how to build task 'nosuch'/, run.err)
    end
    targets("-j4", "c.out", "user.out", "p", status: 1) do |run, log|
      assert_equal ["c.out"], log
      assert_match(/\Arakuda aborted!\nDon't know how to build task 'source.txt'.*\nTasks: TOP => user.out\n/m, run.err)
    end
    targets("-j4", "c.out", "round.out", "p", status: 1) do |run, log|
      assert_equal ["c.out"], log
      assert_match(/\Arakuda aborted!\nCircular dependency detected: TOP => round.out => ring.out => round.out/, run.err)
    end
  end

  def test_without_continue_nothing_follows_a_failure_and_it_is_counted
    targets("-j4", "bad.out", "p", "all", status: 1) do |run, log|
      assert_equal ["bad.out"], log
      assert_includes run.err, "== rakuda: 1 failed, 3 not started, 0 done ==\n"
    end
  end

  def test_with_continue_the_next_targets_are_made_all_the_same
    %w[-j1 -j4].each do |jobs|
      targets(jobs, "--failure", "continue", "bad.out", "c.out", "p", "maker.out", status: 1) do |run, log|
        assert_equal %w[bad.out c.out maker.out p p p], log.sort
        assert_match(/^rakuda aborted!\ncannot\n.*^Tasks: TOP => bad.out$/m, run.err)
        assert_includes run.err, "== rakuda: 1 failed, 3 done ==\n"
      end
    end
  end

  def test_with_continue_a_later_target_is_made_as_far_as_it_does_not_need_what_failed
    %w[-j1 -j4].each do |jobs|
      targets(jobs, "--failure", "continue", "bad.out", "p", "all", "above_bad.out", status: 1) do |run, log|
        assert_equal %w[bad.out c.out p p p], log.sort
        assert_includes run.err, "== rakuda: 1 failed, 1 not run because of it, 2 done ==\n"
        assert_includes run.err, "  not run because of it: all\n"
      end
    end
  end

  def test_with_continue_each_target_that_cannot_be_looked_up_is_told
    targets("-j4", "--failure", "continue", "nosuch", "c.out", "round.out", "maker.out", "norsuch", status: 1) do |run, log|
      assert_equal %w[c.out maker.out], log
      assert_equal ["rakuda: Don't know how to build task 'nosuch'", "rakuda: Circular dependency detected: TOP",
                    "rakuda: Don't know how to build task 'norsuch'"], run.err.scan(/^rakuda: [^(=]*[^(= ]/)
      assert_match(/^rakuda aborted!\nDon't know how to build task 'nosuch'/, run.err)
    end
  end

  def test_an_exit_ends_the_run_also_with_continue
    rakuda("task(:out) { exit 7 }\ntask(:after) { puts 'after' }\n", "-j4", "--failure", "continue", "out", "after") do |run|
      assert_equal [7, []], [run.status, run.lines], run.err
      assert_includes run.err, "== rakuda: 1 failed, 1 not started, 0 done ==\n"
    end
  end

  def test_the_plan_takes_turns_as_the_run_does
    rules = %w[#.out p q].map do |pattern|
      { pattern: pattern, count: 50, mean_ns: 2_000_000_000, deviation_ns: 0, max_ns: 2_000_000_000 }
    end
    { %w[1.out 2.out] => 2.0, %w[p q] => 4.0, %w[1.out 2.out p 3.out q] => 8.0, %w[p 1.out 2.out] => 4.0 }.each do |words, wall_s|
      rakefile = <<~RUBY
        rule(/[0-9].out/) { |t| touch t.name }
        %w[p q].each { |name| task(name) { puts name } }
        FileUtils.mkdir_p(".rakuda/runs/20200101-000000.000-2")
        File.write(".rakuda/runs/20200101-000000.000-2/journal.jsonl", "")
        File.write(".rakuda/runs/20200101-000000.000-2/summary.json", #{JSON.generate(summary(rules)).inspect})
      RUBY
      rakuda(rakefile, "--plan=json", "-q", "-j4", *words) do |run|
        assert_equal 0, run.status, run.err
        assert_equal [words, wall_s], [words, JSON.parse(run.out).dig("estimate", "wall_s")]
      end
      # With one job everything stands in line.
      rakuda(rakefile, "--plan=json", "-q", "-j1", *words) do |run|
        assert_equal 2.0 * words.size, JSON.parse(run.out).dig("estimate", "wall_s")
      end
    end
  end

  private

  def summary(rules)
    { version: 1, run: "20200101-000000.000-2", how: "done", started_ns: 1, ended_ns: 2, policy: "fifo", cores: 2, nodes: 1,
      executed: 50, not_needed: 0, failed: 0, abandoned: 0, rules: rules }
  end
end
