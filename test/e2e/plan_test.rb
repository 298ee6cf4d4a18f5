# frozen_string_literal: true

# `-n` and `--plan`: what would run and why, told without running anything. Runs the real command.

require "fileutils"
require "json"
require "minitest/autorun"
require "open3"
require "tmpdir"
require_relative "../support/aged_files"
require_relative "../support/terminal"

# The plan of a dry run.
class PlanTest < Minitest::Test
  include AgedFiles

  RAKUDA = File.expand_path("../../bin/rakuda", __dir__)

  RAKEFILE = <<~'RUBY'
    puts "from the Rakefile"
    system "echo from a command of the Rakefile"
    task default: "app"
    file("app" => %w[a.o b.o]) { |t| sh "cat #{t.prerequisites.join(" ")} > app" }
    rule(".o" => ".c") { |t| sh "cp #{t.source} #{t.name}" }
  RUBY

  def setup
    @directory = Dir.mktmpdir("rakuda-plan")
    %w[a.c b.c].each { |name| write(name, "int #{name[0]};\n", 100) }
  end

  def teardown
    FileUtils.rm_rf(@directory)
  end

  def test_the_plan_names_every_task_that_would_run_with_its_reason_and_leaves_nothing_behind
    write("a.o", "", 10)
    write("b.o", "", 110)
    write("app", "", 5)
    plan("-n")
    assert_equal ["from the Rakefile", "from a command of the Rakefile", "b.o: prerequisite b.c is newer by 10 s",
                  "app: b.o would run", "2 of 3 tasks would run"], told
    assert_match(/^\*\* Execute \(dry run\) b\.o\n.*^\*\* Execute \(dry run\) app$/m, @err)
    assert_equal %w[Rakefile a.c a.o app b.c b.o], Dir.children(@directory).sort
    assert_equal "", File.read(path("app"))
  end

  def test_what_is_made_anew_makes_its_dependents_run_also_where_they_are_younger_now
    write("b.o", "", 10)
    write("app", "", 5)
    plan("-n", "-q")
    assert_equal ["a.o: missing", "app: a.o would run", "2 of 3 tasks would run"], told.last(3)
    assert_empty @err
  end

  def test_json_is_all_that_comes_to_stdout
    write("b.o", "", 110)
    plan("--plan", "json", "-q")
    document = JSON.parse(@out)
    assert_equal [1, 3, 3], document.values_at("version", "would_run", "tasks_total")
    tasks = document["tasks"].to_h { |task| [task["target"], task] }
    assert_equal [{ "kind" => "missing", "path" => "a.o" }], tasks["a.o"]["reasons"]
    newer = tasks["b.o"]["reasons"].first
    assert_equal ["newer", "b.c"], newer.values_at("kind", "path")
    assert_in_delta 10, newer["by_s"], 0.001
    assert_equal [false, false, []], tasks["a.c"].values_at("would_run", "action", "reasons")
    assert_equal [false, [{ "kind" => "runs", "path" => "app" }]], tasks["default"].values_at("would_run", "reasons")
    assert_match(/from the Rakefile\nfrom a command of the Rakefile/, @err)
  end

  def test_all_are_told_to_be_up_to_date_or_forced
    write("a.o", "", 10)
    write("b.o", "", 10)
    write("app", "", 5)
    plan("-n", "-q")
    assert_equal "0 of 3 tasks would run", told.last
    plan("-nqB", "b.o")
    assert_equal ["b.o: forced (-B)", "1 of 1 tasks would run"], told.last(2)
  end

  def test_a_target_of_a_run_that_was_cut_off_is_told_but_not_touched
    write("a.o", "half", 10)
    write("b.o", "", 10)
    write("app", "", 5)
    cut_off("a.o")
    before = snapshot
    plan("-n", "-q")
    assert_equal ["a.o: the last attempt did not finish", "app: a.o would run", "2 of 3 tasks would run"],
                 told.last(3)
    assert_equal before, snapshot
  end

  def test_the_estimate_comes_from_earlier_runs_and_says_of_what_nothing_is_known
    plan("-n", "-q")
    assert_equal "estimate: none, as no task of these kinds has been run before", @out.lines(chomp: true).last
    earlier_run("pattern" => "#.o", "count" => 50, "mean_ns" => 2_000_000_000, "deviation_ns" => 100_000_000)
    rakefile = <<~'RUBY'
      task default: "app"
      file("app" => (1..9).map { |i| "#{i}.o" }) { |t| touch t.name }
      rule(/\d\.o$/) { |t| touch t.name }
    RUBY
    plan("-n", "-q", "-j", "3", rakefile: rakefile)
    assert_equal "estimate: 18 s of work, about 6.0 s on 3 cores (probably 5.8 s to 6.2 s); 1 task of a kind never run before " \
                 "is not counted", @out.lines(chomp: true).last
    plan("--plan=json", "-q", "-j", "3", rakefile: rakefile)
    estimate, tasks = JSON.parse(@out).values_at("estimate", "tasks")
    assert_equal [18.0, 6.0, 2.0, 3, 1], estimate.values_at("work_s", "wall_s", "critical_path_s", "cores", "unknown_tasks")
    assert_equal [2.0, nil], [tasks[0]["estimate_s"], tasks[9]["estimate_s"]]
  end

  def test_a_target_that_cannot_be_made_is_rakes_error_and_no_plan
    plan("-n", "nosuch", status: 1)
    refute_match(/would run/, @out)
    assert_match(/Don't know how to build task 'nosuch'/, @err)
  end

  def test_a_chain_of_30_000_files_has_no_limit_of_depth
    write("f0", "", 0)
    plan("-n", "-j", "2", "--progress", "off", rakefile: <<~'RUBY')
      N = 30_000
      (1..N).each { |i| file("f#{i}" => "f#{i - 1}") { |t| touch t.name } }
      task default: "f#{N}"
    RUBY
    assert_equal "30000 of 30000 tasks would run", told.last
    assert_equal "** Execute (dry run) default", @err.lines(chomp: true).last
  end

  def test_tasks_that_invoke_in_a_way_of_their_own_are_asked_as_rake_would
    plan("-n", rakefile: <<~'RUBY')
      class Both < Rake::Task
        def invoke_prerequisites(args, chain)
          puts "in its own way"
          super
        end
      end
      Both.define_task(default: :part)
      task(:part) { raise "this is not run" }
    RUBY
    assert_equal ["in its own way", "default: always runs", "part: always runs", "2 of 2 tasks would run"],
                 told
    assert_equal <<~TEXT, @err
      ** Invoke default (first_time)
      ** Invoke part (first_time)
      ** Execute (dry run) part
      ** Execute (dry run) default
    TEXT
  end

  def test_on_a_terminal_the_plan_alone_is_shown_unless_rakes_lines_are_asked_for
    write("b.o", "", 110)
    File.write(path("Rakefile"), RAKEFILE)
    walk = /^\*\* (Invoke|Execute)/
    plan = /^a\.o: missing$.*^3 of 3 tasks would run$/m
    { %w[-n] => false, %w[--plan=text] => false, %w[-n --rake] => true, %w[-n --trace] => true, %w[-n --rake -q] => false }
      .each do |words, shown|
      seen = on_terminal(*words)
      assert_match(plan, seen, words.join(" "))
      assert_equal shown, seen.match?(walk), "#{words.join(" ")}: #{seen}"
    end
    plan("-n")
    assert_match(walk, @err, "off a terminal")
  end

  def test_json_is_quiet_unless_rakes_lines_are_asked_for
    plan("--plan=json")
    assert_equal "from the Rakefile\nfrom a command of the Rakefile\n", @err
    plan("--plan=json", "--trace")
    assert_match(/^\*\* Execute \(dry run\) app$/, @err)
  end

  LONG = <<~'RUBY'
    (1..60).each { |n| file("o#{n}.x") { |t| touch t.name } }
    (1..60).each { |n| file("p#{n}.x" => "o#{n}.x") { |t| touch t.name } }
    task(all: (1..60).map { |n| "p#{n}.x" }) { puts "all" }
    task(most: (1..39).map { |n| "o#{n}.x" }) { puts "most" }
  RUBY

  def test_a_long_plan_is_told_by_rule_on_a_terminal_and_in_full_elsewhere
    File.write(path("Rakefile"), LONG)
    (1..3).each { |n| write("o#{n}.x", "", 10) }
    write("p1.x", "", 5)
    write("p2.x", "", 50)
    seen = on_terminal("-n", "all").lines.map(&:chomp)
    # In the order of their first tasks: p2.x comes before o4.x.
    assert_equal ["Rakefile:2: 59 tasks, p2.x to p60.x: 1 a prerequisite is newer, 58 missing",
                  "Rakefile:1: 57 tasks, o4.x to o60.x: missing",
                  "Rakefile:3: all: always runs", "117 of 121 tasks would run"], seen.first(4)
    assert_equal "each task and why: --plan=text", seen.last
    assert_equal 119, on_terminal("--plan=text", "all").lines.size
    assert_equal 38, on_terminal("-n", "most").lines.size - 1, "one that is not long is told task by task"
    plan("-n", "-q", "all", rakefile: LONG)
    assert_equal 118, told.size
  end

  # Their action is rake's own, which has no place in the Rakefile.
  def test_a_long_plan_calls_directories_so
    File.write(path("Rakefile"), <<~'RUBY')
      (1..60).each { |n| directory "d#{n}" }
      task(all: (1..60).map { |n| "d#{n}" }) { puts 1 }
    RUBY
    assert_equal ["directory: 60 tasks, d1 to d60: missing", "Rakefile:2: all: always runs"],
                 on_terminal("-n", "all").lines(chomp: true).first(2)
  end

  def test_a_long_plan_tells_actions_and_parameters_that_have_changed
    rakefile = <<~'RUBY'
      LEVEL = 1
      rule(".p" => "in") { |t| File.write(t.name, "p") }
      needs params: { level: LEVEL }
      rule(".q" => "in") { |t| File.write(t.name, "q") }
      task all: (1..30).flat_map { |n| %W[o#{n}.p o#{n}.q] }
    RUBY
    write("in", "", 100)
    plan("-q", "all", rakefile: rakefile)
    File.write(path("Rakefile"), rakefile.sub("LEVEL = 1", "LEVEL = 2").sub('"p")', '"P")'))
    seen = on_terminal("-n", "--rerun-on", "command", "all").lines.map { |line| line.chomp.sub(/;.*/, "") }
    assert_equal ["Rakefile:2: 30 tasks, o1.p to o30.p: changed action",
                  "Rakefile:4: 30 tasks, o1.q to o30.q: changed parameters", "60 of 60 tasks would run"], seen.first(3)
  end

  # The journal of the run before tells times by name, so the names differ.
  def test_estimates_by_line_are_not_taken_from_another_rakefile
    sleepy = "rule('.s') { |t| sleep 0.3; touch t.name }\ntask(default: 'one.s')\n"
    plan("-q", rakefile: sleepy)
    estimate = lambda do |rakefile|
      plan("--plan=json", "-q", "two.s", rakefile: rakefile)
      JSON.parse(@out).dig("estimate", "wall_s")
    end
    assert_operator estimate.call(sleepy.sub("task", "# A comment changes nothing.\ntask")), :>=, 0.3
    assert_nil estimate.call(sleepy.sub("sleep 0.3", "puts 1"))
  end

  private

  # What one sees, without the ends of lines that a terminal adds.
  def on_terminal(*words)
    terminal = Terminal.run(RAKUDA, *words, directory: @directory, input: File::NULL, columns: 200)
    terminal.bytes.force_encoding("UTF-8").delete("\r")
  end

  # The lines of the plan without the estimate.
  def told
    @out.lines(chomp: true).grep_v(/\Aestimate: /)
  end

  def plan(*words, rakefile: RAKEFILE, status: 0)
    File.write(path("Rakefile"), rakefile)
    @out, @err, result = Open3.capture3(RAKUDA, *words, chdir: @directory)
    assert_equal status, result.exitstatus, @err
  end

  # What a run leaves that was killed with all its processes while it made a target.
  def cut_off(target)
    folder = path(".rakuda/runs/20200101-000000.000-1")
    FileUtils.mkdir_p([folder, path(".rakuda/running")])
    journal = File.join(folder, "journal.jsonl")
    events = [{ event: "run_started", version: 2, time_ns: 1, directory: @directory, failed_target: "rename" },
              { event: "task_defined", task: 0, name: target, kind: "file", action: true },
              { event: "attempt_started", time_ns: 2, task: 0, attempt: 1, node: 0, cores: 1 }]
    File.write(journal, events.map { |event| "#{JSON.generate(event)}\n" }.join)
    File.write(path(".rakuda/running/20200101-000000.000-1"), "#{journal}\nno-such-mark")
  end

  # What a run leaves that has ended, as far as estimates need it.
  def earlier_run(rule)
    folder = path(".rakuda/runs/20200101-000000.000-2")
    FileUtils.mkdir_p(folder)
    File.write(File.join(folder, "journal.jsonl"), "")
    summary = { version: 1, run: File.basename(folder), how: "done", started_ns: 1, ended_ns: 2, policy: "fifo", cores: 2,
                nodes: 1, executed: 50, not_needed: 0, failed: 0, abandoned: 0, rules: [rule.merge("max_ns" => 3_000_000_000)] }
    File.write(File.join(folder, "summary.json"), JSON.generate(summary))
  end

  def snapshot
    Dir.glob("**/*", File::FNM_DOTMATCH, base: @directory).grep_v("Rakefile").sort.to_h do |name|
      file = path(name)
      [name, File.file?(file) ? [File.read(file), File.mtime(file)] : nil]
    end
  end
end
