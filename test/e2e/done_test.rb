# frozen_string_literal: true

require "json"
require "minitest/autorun"
require "open3"
require_relative "../support/scratch_folder"
require_relative "../support/terminal"
require_relative "../support/waiting"

# How many tasks there are, in all that shows them while a run goes on and when it is over. And how many were done: the
# last line on the terminal, `status` while the run lasts, `runs`, the report and the journal's last line all have one
# count, that of tasks with an action that ended well.
class DoneTest < Minitest::Test
  include ScratchFolder
  include Waiting

  CTL = File.expand_path("../../bin/rakudactl", __dir__)
  # As README's first example, with a name for others above it, files that are there, and one that is up to date.
  RAKEFILE = <<~'RUBY'
    rule(".count" => ".txt") { |t| sh "wc -w < #{t.source} > #{t.name}" }
    file("total" => %w[ode.count elegy.count]) { |t| sh "cat #{t.prerequisites.join(" ")} > #{t.name}" }
    file("old" => "ode.txt") { raise "up to date" }
    task both: %w[total old]
    task default: :both
    task(last: :default) { sh "until [ -e gate ]; do sleep 0.01; done" }
    task(broken: "total") { sh "exit 3" }
    task(never: :broken) { sh "true" }
    task all: :never
  RUBY

  def setup
    super
    %w[Rakefile ode.txt elegy.txt].each { |name| File.write(File.join(@folder, name), "#{RAKEFILE}\n") }
    [["ode.txt", 100], ["elegy.txt", 100]].each { |name, ago| stamp(name, ago) }
    File.write(File.join(@folder, "old"), "")
  end

  def stamp(name, ago)
    time = Time.now - ago
    File.utime(time, time, File.join(@folder, name))
  end

  def ask(*words)
    out, errors, status = Open3.capture3(CTL, *words, "--json", chdir: @folder)
    assert status.success?, errors
    JSON.parse(out)
  end

  def run_ended
    journal = Dir.glob(File.join(@folder, ".rakuda/runs/*/journal.jsonl")).max
    JSON.parse(File.readlines(journal).last)
  end

  def assert_counts_agree(done)
    counts = [ask("runs")["runs"][0]["done"], ask("report")["done"], run_ended["done"]]
    assert_equal [done] * 3, counts, "runs, report, journal"
  end

  def test_the_terminal_and_all_that_is_asked_later_have_one_count
    terminal = Terminal.run(RAKUDA, "-j2", directory: @folder, input: File::NULL)
    assert_equal 3, terminal.lines.join("\n")[/^rakuda: (\d+) done in/, 1].to_i, terminal.lines.inspect
    assert_counts_agree(3)
    assert_operator run_ended["executed"], :>, 3, "names for others count there"
  end

  def test_a_failed_run_has_one_count
    out, = Open3.capture2e(RAKUDA, "-j2", "all", chdir: @folder)
    assert_match(/exit 3|status \(3\)/, out)
    assert_counts_agree(3)
    told = [ask("runs")["runs"][0], ask("report"), run_ended]
    assert_equal([[1, 1]] * 3, told.map { |one| one.values_at("failed", "abandoned") })
  end

  # Three are done, one has failed, one is not run because of it, one waits. What is up to date or has no action is
  # none.
  def test_the_number_of_tasks_is_one_for_all_that_show_it
    told = nil
    terminal = Terminal.run(RAKUDA, "-j2", "--failure", "continue", "all", "last", directory: @folder, input: File::NULL) do |now|
      shown = now.lines.join("\n")[%r{3/(\d+) done, 1 running, 1 failed}, 1]
      next if told || shown.nil?

      told = totals(shown)
      File.write(File.join(@folder, "gate"), "")
    end
    assert_equal({ "display" => 6, "status" => 6, "rules" => 6, "top" => 6, "report" => 6, "text" => 6 }, told)
    last = terminal.lines.join("\n")[/^== rakuda: (.*) ==$/, 1]
    assert_equal "1 failed, 1 not run because of it, 4 done", last
    text, = Open3.capture2(CTL, "report", "--text", chdir: @folder)
    beside = "beside them \\d+ up to date, \\d+ without an action"
    assert_match(/^tasks +6: 4 done, 1 failed, 1 not run because of those; #{beside}$/, text)
    assert_equal 6, ask("report")["tasks"]
  end

  # @param shown [String] by the live display
  def totals(shown)
    status = ask("status")["runs"][0]
    top, = Open3.capture2(CTL, "top", "--text", chdir: @folder)
    text, = Open3.capture2(CTL, "report", "--text", chdir: @folder)
    { "display" => shown.to_i, "status" => status["total"], "rules" => status["rules"].sum { |rule| rule["total"] },
      "top" => top[%r{^3/(\d+) done}, 1].to_i, "report" => ask("report")["tasks"],
      "text" => text[/^tasks +(\d+) so far:/, 1].to_i }
  end

  def test_a_run_that_goes_on_has_the_same_count
    pid = Process.spawn(RAKUDA, "-j2", "last", chdir: @folder, %i[out err] => File::NULL)
    told = nil
    wait_for("the last task to run", -> { told.inspect }) do
      out, = Open3.capture3(CTL, "status", "--json", chdir: @folder)
      told = out.start_with?("{") && JSON.parse(out)["runs"][0]
      told && told["running"] == 1 && told["tasks"].dig(0, "task") == "last"
    end
    assert_equal [3, 3], [told["done"], ask("report")["done"]]
    File.write(File.join(@folder, "gate"), "")
    Process.wait(pid)
    assert_counts_agree(4)
  end
end
