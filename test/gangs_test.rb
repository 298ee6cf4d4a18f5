# frozen_string_literal: true

# Tasks that begin together: what the internal interface takes, and what a user sees of gangs.

require "json"
require "minitest/autorun"
require "open3"
require "rakuda"
require_relative "support/rakefile_run"

class GangsTest < Minitest::Test
  include RakefileRun

  RAKUDACTL = File.join(File.dirname(RAKUDA), "rakudactl")

  def setup
    @engine_environment = Engines::REAL
  end

  def run_rakefile(rakefile, *words)
    rakuda(rakefile, *words, &:itself)
  end

  # Each of two tasks ends only if the other one has begun.
  MEETING = <<~'RUBY'
    def meet(own, other) = sh("touch begun.#{own}; until test -e begun.#{other}; do sleep 0.01; done")
    one = task(:one) { meet("one", "two") }
    two = task(:two) { meet("two", "one") }
    task after: :one do puts "after" end
    Rake.application.gangs.define([one, two])
  RUBY

  def test_tasks_of_a_gang_run_at_the_same_time_and_one_brings_the_others_along
    result = run_rakefile(MEETING, "-q", "-j2", "after")
    assert_equal [0, "after\n"], [result.status, result.out], result.err
  end

  def test_too_few_slots_are_told_with_their_number_and_may_be_shared
    result = run_rakefile(MEETING, "-q", "-j1", "after")
    assert_equal 1, result.status
    assert_includes result.err, "tasks one, two together need 2 slots at once, but this run has 1: give it -j 2, or let " \
                                "tasks share cores with --oversubscribe"
    shared = run_rakefile(MEETING, "-q", "-j1", "--oversubscribe", "after")
    assert_equal [0, "after\n"], [shared.status, shared.out], shared.err
    assert_includes shared.err, "tasks one, two share cores, of which there are fewer than they ask for (oversubscribed)"
    planned = run_rakefile(MEETING, "-n", "-j1", "after")
    assert_equal [1, result.err[/tasks one, two together.*/]], [planned.status, planned.err[/tasks one, two together.*/]]
    [%w[-j1 --oversubscribe], %w[-j2]].each do |options|
      assert_equal 0, run_rakefile(MEETING, "-n", *options, "after").status, options
    end
  end

  def test_shared_slots_are_marked_in_journal_and_report
    rakuda(MEETING, "-q", "-j1", "--oversubscribe", "after") do |run|
      assert_equal [true], marks(run.folder)
      assert_match(/^gangs +1 begun, 1 of them oversubscribed \(2 cores asked for, 1 there\)$/, report(run.folder, "--text"))
      assert_equal [1, 1], gangs_in_json(run.folder)
      note = "Gangs: 1 begun, 1 of them oversubscribed (2 cores asked for, 1 there): tasks shared cores, of which there were " \
             "fewer than they asked for."
      assert_includes report(run.folder, "-o", "-"), "<p class=\"note\">#{note}</p>"
    end
  end

  def test_slots_that_nobody_shares_are_not_marked
    rakuda(MEETING, "-q", "-j2", "--oversubscribe", "after") do |run|
      assert_equal [nil], marks(run.folder)
      assert_match(/^gangs +1 begun$/, report(run.folder, "--text"))
      assert_equal [1, 0], gangs_in_json(run.folder)
      refute_includes report(run.folder, "-o", "-"), "<p class=\"note\">Gangs"
    end
  end

  def test_fewer_nodes_than_a_task_asks_for_are_marked_like_shared_slots
    rakuda(NODES, "-q", "-j4", "--oversubscribe", "wide") do |run|
      assert_equal [true], marks(run.folder)
      assert_equal [1, 1], gangs_in_json(run.folder)
    end
  end

  # @return [Array<true, nil>] of each gang that has begun: what the journal says
  def marks(folder)
    journal = File.readlines(Dir[File.join(folder, ".rakuda/runs/*/journal.jsonl")].fetch(0)).map { |line| JSON.parse(line) }
    journal.select { |event| event["event"] == "gang_started" }.map { |event| event["oversubscribed"] }
  end

  def report(folder, *words)
    out, err, status = Open3.capture3(RAKUDACTL, "report", *words, chdir: folder)
    assert_predicate status, :success?, err
    out
  end

  def gangs_in_json(folder)
    JSON.parse(report(folder, "--json")).values_at("gangs_begun", "gangs_oversubscribed")
  end

  def test_a_dry_run_refuses_nodes_that_the_run_has_not
    rakefile = <<~'RUBY'
      needs nodes: 2
      task(:wide) { sh "true" }
    RUBY
    errors = [%w[-q], %w[-n]].map do |options|
      result = run_rakefile(rakefile, "-j2", *options, "wide")
      assert_equal 1, result.status, options
      result.err[/needs: task wide asks for.*/]
    end
    assert_match(/asks for 2 nodes \(2 slots\), but this run has 1/, errors.first)
    assert_equal(*errors)
    assert_equal 0, run_rakefile(rakefile, "-n", "-j2", "--oversubscribe", "wide").status
  end

  def test_a_failure_runs_all_of_the_gang_again
    result = run_rakefile(<<~'RUBY', "-j2", "--retry", "1", "one")
      one = task(:one) { sh "echo one >> runs; until test -e two.1; do sleep 0.01; done" }
      # When it fails, the other one has begun.
      two = task(:two) do
        sh "until grep -qs one runs; do sleep 0.01; done; echo two >> runs; test -e two.1 || { touch two.1; exit 3; }"
      end
      Rake.application.gangs.define([one, two])
      at_exit { puts File.readlines("runs").sort.join(" ").delete("\n") }
    RUBY
    assert_equal [0, "one one two two\n"], [result.status, result.out], result.err
    assert_match(/task two failed \(attempt 1\), trying again/, result.err)
    refute_match(/task one failed/, result.err)
  end

  def test_the_others_are_ended_when_one_fails_for_good
    result = run_rakefile(<<~'RUBY', "-q", "-j2", "one")
      one = task(:one) { sh "sleep 600" }
      two = task(:two) { sh "exit 3" }
      Rake.application.gangs.define([one, two])
    RUBY
    assert_equal 1, result.status
    assert_includes result.err, "Command failed with status (3)"
  end

  def test_tasks_that_need_one_another_are_named
    result = run_rakefile(<<~'RUBY', "-q", "-j4", "last")
      first = task(:first) {}
      task(between: :first) {}
      last = task(last: :between) {}
      Rake.application.gangs.define([first, last])
    RUBY
    assert_equal 1, result.status
    assert_includes result.err, "last and first are to begin together, but last waits for first to end"
  end

  def test_a_task_that_waits_for_itself_over_another_gang_is_named_once
    result = run_rakefile(<<~'RUBY', "-q", "-j4", "b")
      x = task(:x) {}
      y = task(y: :b) {}
      b = task(b: :x) {}
      c = task(:c) {}
      Rake.application.gangs.define([x, y])
      Rake.application.gangs.define([b, c])
    RUBY
    assert_equal 1, result.status
    assert_match(/(\w) waits for its own end, over tasks that are to begin together with what it waits for/, result.err)
    refute_match(/(\w) and \1 are/, result.err)
  end

  def test_a_gang_is_defined_of_tasks_that_are_in_no_other_and_were_not_invoked
    tasks = Array.new(3) { |number| Rake::Task.new("t#{number}", Rake::Application.new) }
    gangs = Rakuda::Gangs.new
    gang = gangs.define(tasks.first(2))
    assert_same gang, gangs.of(tasks[1])
    assert_nil gangs.of(tasks[2])
    errors = [[], [tasks[1], tasks[2]], [tasks[2], tasks[2]]].map do |wrong|
      assert_raises(Rakuda::ConfigurationError) { gangs.define(wrong) }.message
    end
    assert_equal ["a gang has at least one task", "task t1 is in two gangs", "task t2 is twice in one gang"], errors
  end

  NODES = <<~'RUBY'
    needs nodes: 2, cores: 2
    task(:wide) { sh "echo $RAKUDA_NODES; cat $RAKUDA_HOSTFILE; echo $RAKUDA_HOSTFILE > place" }
    needs nodes: 1, cores: 2
    task(:narrow) { sh "echo $RAKUDA_NODES; cat $RAKUDA_HOSTFILE" }
    task(:gone) { puts File.exist?(File.read("place").chomp) }
  RUBY

  def test_a_task_is_told_its_nodes_in_variables_and_a_file_that_goes_with_the_command
    host = `uname -n`.chomp
    result = run_rakefile(NODES, "-q", "-j2", "narrow")
    assert_equal [0, "#{host}\n#{host} slots=2\n"], [result.status, result.out], result.err
    wide = run_rakefile(NODES, "-q", "-j4", "--oversubscribe", "wide", "gone")
    assert_equal 0, wide.status, wide.err
    assert_equal [host, "#{host} slots=4", "false"], wide.out.lines(chomp: true)
  end

  def test_clean_removes_hosts_files_whose_agent_is_gone
    Dir.mktmpdir("rakuda") do |folder|
      scratch = File.join(folder, "rakuda-#{Process.uid}")
      Dir.mkdir(scratch, 0o700)
      gone = Process.spawn("true")
      Process.wait(gone)
      left, *kept = ["hosts-#{gone}-0", "hosts-#{Process.pid}-0", "hosts-notes"].map { |name| File.join(scratch, name) }
      FileUtils.touch([left, *kept])
      clean = lambda do |*words|
        Open3.capture2e({ "TMPDIR" => folder }, RAKUDACTL, "clean", *words, chdir: folder)
      end
      assert_includes clean.call("--dry-run").first, "would remove #{left}"
      assert_path_exists left
      told, status = clean.call
      assert_predicate status, :success?, told
      assert_includes told, "removed #{left}"
      assert_equal kept.sort, Dir["#{scratch}/hosts-*"].sort
    end
  end

  def test_more_nodes_than_this_machine_are_refused_with_what_to_do
    result = run_rakefile(NODES, "-q", "-j4", "wide")
    assert_equal 1, result.status
    assert_includes result.err, "Rakefile:1: needs: task wide asks for 2 nodes (4 slots), but this run has 1: name hosts " \
                                "(-F FILE), or run all of it here with --oversubscribe"
    less = run_rakefile("needs nodes: 4, cores: 2\ntask(:wide) { sh 'true' }\n", "-q", "-j1", "wide")
    assert_includes less.err, "Rakefile:1: needs: task wide asks for 4 nodes (8 slots), but this run has 1: name hosts"
    few = run_rakefile(NODES, "-q", "-j1", "narrow")
    assert_includes few.err, "Rakefile:3: needs: task narrow asks for 2 cores, but this run has 1 (-j 1): give it -j 2"
    assert_equal 0, run_rakefile(NODES, "-q", "-j1", "--oversubscribe", "narrow").status
  end
end
