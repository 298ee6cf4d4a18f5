# frozen_string_literal: true

require "csv"
require "minitest/autorun"
require_relative "support/exported_runs"

# A task's run time is the time in which it holds its cores, and all that tells of run times says the same: the journal,
# the summary, the report in each form, the exports, the estimate, the simulation. Together they are never more than
# cores times time.
class RunTimeTest < Minitest::Test
  include ExportedRuns

  CORES = 2
  # Many that are begun early, with one command, with two and with Ruby code alone; callers, which lend their cores
  # while they wait; and what fails, is retried, or is not run.
  RAKEFILE = <<~'RUBY'
    verbose(false)
    def names(kind, count) = (1..count).map { |number| "#{kind}#{number}" }
    names("tiny", 300).each { |name| task(name) { sh "true" } }
    names("pair", 60).each { |name| task(name) { 2.times { sh "true" } } }
    names("code", 60).each { |name| task(name) { 20_000.times.sum } }
    names("callee", 12).each { |name| task(name) { sh "sleep 0.01" } }
    names("caller", 12).each do |name|
      task name do
        sh "true"
        Rake::Task[name.sub("caller", "callee")].invoke
        sh "sleep 0.01"
      end
    end
    names("flaky", 8).each do |name|
      desc "retry=1"
      task name do |t|
        sh "true"
        t.application.instance_eval { (@seen ||= {})[name] } or begin
          t.application.instance_eval { @seen[name] = true }
          raise "not yet"
        end
      end
    end
    task(:bad) { sh "exit 3" }
    task after: :bad do
      sh "true"
    end
    kinds = %w[tiny pair code caller flaky]
    counts = [300, 60, 60, 12, 8]
    multitask default: [*kinds.zip(counts).flat_map { |kind, count| names(kind, count) }, "after"]
    desc "ncore=2"
    task(:wide) { sh "sleep 0.02" }
    names("slim", 20).each { |name| task(name) { sh "sleep 0.005" } }
    multitask mixed: [*names("slim", 10), "wide", *names("slim", 20)]
  RUBY

  class << self
    def run_of(*arguments)
      @runs ||= {}
      @runs[arguments] ||= begin
        folder = Dir.mktmpdir("rakuda-run-times")
        Minitest.after_run { FileUtils.rm_rf(folder) }
        File.write(File.join(folder, "Rakefile"), RAKEFILE)
        Open3.capture2e("timeout", "-s", "KILL", ExportedRuns::LIMIT, ExportedRuns::RAKUDA, *arguments, chdir: folder)
        folder
      end
    end
  end

  def test_all_agree_on_tiny_tasks_callers_and_retries
    check(RunTimeTest.run_of("-j#{CORES}", "-q", "--failure", "continue"), CORES)
  end

  def test_all_agree_on_tasks_of_several_cores
    check(RunTimeTest.run_of("-j#{CORES}", "-q", "mixed"), CORES)
  end

  def test_all_agree_in_rakes_order
    check(RunTimeTest.run_of("-j1", "-q", "--failure", "continue"), 1)
  end

  private

  def check(folder, cores)
    held = held(folder)
    assert_operator peak(held), :<=, cores, "the journal"
    total = total(held)
    available = cores * makespan(folder)
    assert_operator total, :<=, available
    check_report(folder, cores, total, available)
    check_csv(folder, total)
    check_wfformat(folder)
    check_crate(folder)
    check_trace(folder, cores, total)
    check_dot(folder)
    check_summary(folder)
    check_estimates(folder, cores, available)
  end

  # Of each attempt that counts: its end, cores, and from when to when it held them.
  Attempt = Struct.new(:task, :cores, :outcome, :retried, :times) do
    def run_ns
      times.sum { |from, to| to - from }
    end
  end

  def held(folder)
    open = {}
    events(folder).filter_map do |event|
      open[event["task"]] = event if event["event"] == "attempt_started"
      next if event["event"] != "attempt_ended"

      began = open.delete(event["task"])
      times = event.fetch("held_ns").each_slice(2).map { |from, to| [began["time_ns"] + from, began["time_ns"] + to] }
      assert(times.flatten.each_cons(2).all? { |one, two| one <= two })
      assert_includes began["time_ns"]..event["time_ns"], times.flatten.last if times.any?
      next if event["outcome"] == "given_back"

      Attempt.new(event["task"], began["cores"], event["outcome"], event["retried"], times)
    end
  end

  def peak(held)
    changes = held.flat_map do |attempt|
      attempt.times.flat_map { |from, to| [[from, attempt.cores], [to, -attempt.cores]] }
    end
    used = 0
    changes.sort.map { |_, change| used += change }.max
  end

  # Core time, ns.
  def total(held)
    held.sum { |attempt| attempt.cores * attempt.run_ns }
  end

  def makespan(folder)
    events(folder).filter_map { |event| event["time_ns"] }.minmax.reduce(:-).abs
  end

  # The last attempts of tasks, which stand for them in exports; by name.
  def last(folder)
    names = tasks(folder)
    held(folder).to_h { |attempt| [names[attempt.task], attempt] }
  end

  def control(folder, *arguments)
    out, err, status = Open3.capture3(CONTROL, *arguments, chdir: folder)
    assert status.success?, err
    out
  end

  def check_report(folder, cores, total, available)
    report = JSON.parse(control(folder, "report", "--json"))
    assert_operator report["utilisation"], :<=, 1
    assert_operator report["held"], :<=, 1
    assert_in_delta total / (cores * report["makespan_s"] * 1e9), report["held"], 1e-3
    wide = held(folder).sum { |attempt| (attempt.cores - 1) * attempt.run_ns }
    seconds = report["rules"].sum { |rule| rule["seconds"]["total"] }
    assert_in_delta (total - wide) / 1e9, seconds, 1e-6
    assert_operator seconds * 1e9, :<=, available
    control(folder, "report", "--svg", folder)
    chart = File.read(File.join(folder, "gantt.svg"))
    rows = chart.scan(/<rect class="(?:c\d+|failed)"[^>]* y="([\d.]+)"/)
    assert_operator rows.uniq.size, :<=, cores, "rows of the chart"
    data = control(folder, "report", "-o", "-")[/"nodes":\[\{"lanes":(\d+)/, 1]
    assert_equal cores, Integer(data), "rows of the page's chart"
  end

  def check_csv(folder, total)
    control(folder, "report", "--csv", folder)
    rows = CSV.read(File.join(folder, "task.csv"), headers: true).select { |row| row["elap_time"] }
    assert_in_delta total / 1e9, rows.sum { |row| row["elap_time"].to_f * row["ncore"].to_i }, 1e-6 * rows.size
  end

  def check_wfformat(folder)
    workflow = JSON.parse(File.read(export("wfformat", folder)))["workflow"]
    names = workflow["specification"]["tasks"].to_h { |task| task.values_at("id", "name") }
    last = last(folder)
    ran = workflow["execution"]["tasks"]
    assert_equal last.size, ran.size
    ran.each { |task| assert_in_delta last.fetch(names[task["id"]]).run_ns / 1e9, task["runtimeInSeconds"], 1e-8 }
  end

  def check_crate(folder)
    graph = JSON.parse(File.read(File.join(export("ro-crate", folder), "ro-crate-metadata.json")))["@graph"]
    durations = graph.filter_map { |entity| entity["duration"] if entity["@id"].start_with?("#task/") }
    run_ns = durations.map { |duration| (duration[/\APT(\d+\.\d{9})S\z/, 1].to_r * 1_000_000_000).to_i }
    assert_equal held(folder).map(&:run_ns).sort, run_ns.sort
  end

  def check_trace(folder, cores, total)
    slices = ask("trace.py", export("perfetto", folder))["slices"]
    cores_of = slices.select { |slice| %w[task more_cores].include?(slice["category"]) }
    assert_equal(total, cores_of.sum { |slice| slice["dur"] })
    assert_operator cores_of.map { |slice| slice["track"] }.uniq.size, :<=, cores
  end

  def check_dot(folder)
    last = last(folder)
    drawn = File.read(export("dot", folder)).scan(/label="([^"\\]+)\\n([\d.]+) s"/)
    assert_equal last.size, drawn.size
    drawn.each { |name, seconds| assert_in_delta last.fetch(name).run_ns / 1e9, seconds.to_f, 0.0051 }
  end

  def check_summary(folder)
    done = held(folder).select { |attempt| attempt.outcome == "done" }
    rules = JSON.parse(File.read(Dir[File.join(folder, ".rakuda/runs/*/summary.json")].fetch(0)))["rules"]
    assert_equal(done.size, rules.sum { |rule| rule["count"] })
    assert_in_delta done.sum(&:run_ns), rules.sum { |rule| rule["count"] * rule["mean_ns"] }, done.size
  end

  # What the next run would take, by the run times of this one.
  def check_estimates(folder, cores, available)
    out, _, = Open3.capture3(RAKUDA, "-j#{cores}", "--plan=json", *("mixed" if tasks(folder).value?("wide")), chdir: folder)
    plan = JSON.parse(out)
    assert_operator plan["estimate"]["work_s"] * 1e9, :<=, available
    last = last(folder).select { |_, attempt| attempt.outcome == "done" }
    known = plan["tasks"].select { |task| task["estimate_s"] && last[task["target"]] }
    assert_operator known.size, :>=, 21
    known.each { |task| assert_in_delta last[task["target"]].run_ns / 1e9, task["estimate_s"], 1e-8, task["target"] }
    simulated = JSON.parse(control(folder, "sim", "last", "--nodes", "1", "--json").lines.first)
    assert_in_delta last(folder).values.sum(&:run_ns) / 1e9, simulated["accumulated_s"], 1e-6
  end
end
