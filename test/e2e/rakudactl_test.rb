# frozen_string_literal: true

# `rakudactl` about recorded runs: runs, story, why --run, log, and its exit statuses. Runs the real commands.

require "fileutils"
require "json"
require "minitest/autorun"
require "open3"
require "tmpdir"

# Questions after a run.
class RakudactlTest < Minitest::Test
  BIN = File.expand_path("../../bin", __dir__)

  RAKEFILE = <<~'RUBY'
    task default: %w[app after_bad]
    file("app" => %w[a.o]) { |t| sh "cat a.o > #{t.name}; echo linked; echo warned >&2" }
    file("a.o" => "a.c") { |t| sh "cp", "a.c", t.name }
    file("bad" => "a.o") { |t| sh "echo half > #{t.name}; echo oops; exit 3" }
    task(after_bad: "bad") { sh "true" }
  RUBY

  # One project with two runs: the first makes everything, in the second a.c is newer.
  def self.project
    @project ||= Dir.mktmpdir("rakuda-ctl").tap do |directory|
      Minitest.after_run { FileUtils.rm_rf(directory) }
      File.write(File.join(directory, "Rakefile"), RAKEFILE)
      2.times do |round|
        File.write(File.join(directory, "a.c"), "int#{round}")
        later = Time.now + (round * 100)
        File.utime(later, later, File.join(directory, "a.c"))
        Open3.capture2e(File.join(BIN, "rakuda"), *%w[-j 2 --failure continue --retry 1], chdir: directory)
      end
    end
  end

  def test_runs_are_listed_newest_first
    runs = json("runs").fetch("runs")
    assert_equal 2, runs.size
    assert_operator runs[0]["run"], :>, runs[1]["run"]
    assert_equal [["failed", 2, 1, 1]] * 2, (runs.map { |run| run.values_at("state", "executed", "failed", "abandoned") })
    assert_equal %w[-j 2 --failure continue --retry 1], runs[0]["command_line"]
    assert_equal 1, json("runs", "-n", "1").fetch("runs").size
    assert_match(/^#{runs[0]["run"]} +failed .* 2 +1 +1 lifo_hrf +2  -j 2/, good("runs"))
  end

  def test_no_run_to_join_is_told
    Dir.mktmpdir do |folder|
      join = ->(*words) { Open3.capture3(File.join(BIN, "rakudactl"), "join", *words, chdir: folder) }
      assert_equal 3, join.call.last.exitstatus
      File.write(File.join(folder, "bad"), "hello\n", perm: 0o600)
      assert_match(/expected one line `rakuda-join 1 HOST:PORT/, join.call("bad")[1])
      File.chmod(0o644, File.join(folder, "bad"))
      assert_match(/its mode is 644/, join.call("bad")[1])
    end
  end

  def test_names_and_commands_cannot_command_the_terminal
    Dir.mktmpdir do |folder|
      File.write(File.join(folder, "Rakefile"), <<~'RUBY')
        EVIL = "a\e]0;caught\a.txt"
        file("in\e[2J") { |t| touch t.name, verbose: false }
        file(EVIL => "in\e[2J") { |t| sh "echo", "\e[31m", verbose: false; sh "exit 3", verbose: false }
        task(default: EVIL)
        task("next\e[1m" => EVIL)
      RUBY
      evil = "a\e]0;caught\a.txt"
      all = [%w[rakuda -n], ["rakuda", "-j2", "next\e[1m"], %w[rakudactl runs], ["rakudactl", "story", evil],
             ["rakudactl", "why", evil], ["rakudactl", "why", "next\e[1m"], ["rakudactl", "why", "--run", "last", evil],
             ["rakudactl", "why", "--run", "last", "next\e[1m"], ["rakudactl", "log", "no\e[1m"],
             ["rakudactl", "story", "no\e[1m"], %w[rakudactl report --text]]
      all.each do |program, *words|
        out, err, = Open3.capture3(File.join(BIN, program), *words, chdir: folder)
        # What commands and rake itself print is not for Rakuda to change.
        text = { "-n" => out, "-j2" => err[/^== rakuda.*/m] }.fetch(words.first, out + err)
        refute_match(/\e|\a/, text, [program, *words].inspect)
        assert_match(/caught|no\?|next/, text, [program, *words].inspect)
      end
    end
  end

  def test_story_tells_attempts_commands_and_what_became_of_the_target
    story = json("story", "bad")
    assert_equal %w[bad failed Rakefile:4], story.values_at("task", "fate", "location")
    assert_equal %w[ready] + (%w[attempt_started command_started command_ended attempt_ended] * 2),
                 (story["events"].map { |event| event["what"] })
    ended = story["events"].select { |event| event["what"] == "attempt_ended" }
    assert_equal [[true, "renamed"], [false, "renamed"]], (ended.map { |event| event.values_at("retried", "target") })
    times = story["events"].map { |event| event["time_ns"] }
    assert_equal times.sort, times
    text = good("story", "bad")
    assert_match(/^bad in run \S+: failed\n  file, defined at Rakefile:4\n  prerequisites: a\.o$/, text)
    assert_match(/exit 3 after .*; CPU .*, read .*, wrote /, text)
    assert_equal ["missing", "attempt 1 failed"], text.scan(/why: (.*)$/).flatten
    assert_equal 2, good("story", "bad", "--all-runs").scan(/^bad in run/).size
  end

  def test_why_goes_down_to_what_was_changed
    answer = json("why", "app", "--run", "last")
    assert_equal ["app", true, "executed"], answer.values_at("target", "would_run", "fate")
    assert_equal [%w[newer a.o]], (answer["reasons"].map { |reason| reason.values_at("kind", "path") })
    assert_equal [["a.o", 1, "newer", "a.c"]],
                 (answer["chain"].map { |step| step.values_at("target", "depth") + step["reasons"][0].values_at("kind", "path") })
    assert_match(/^app ran in \S+: prerequisite a\.o is newer.*\n  a\.o ran: prerequisite a\.c is newer/,
                 good("why", "app", "--run", "last"))
  end

  def test_why_of_what_was_not_run_names_what_failed
    answer = json("why", "default", "--run", "last")
    assert_equal [false, "abandoned", [], ["after_bad"]], answer.values_at("would_run", "fate", "reasons", "because")
    assert_equal [["bad", 2]], (answer["chain"].map { |step| step.values_at("target", "depth") })
    assert_match(/\Adefault did not run in \S+: after_bad failed or did not run\n  bad failed: Command failed/,
                 good("why", "default", "--run", "last"))
  end

  def test_log_prints_what_a_task_printed
    assert_equal "linked\nwarned\n".lines.sort, good("log", "app").lines.sort
    assert_equal "oops\noops\n", good("log", "bad")
    assert_equal "oops\n", good("log", "bad", "--attempt", "last")
    out, err, status = ask("log", "a.o")
    assert_equal ["", 0], [out, status.exitstatus]
    assert_match(/the commands of a\.o printed nothing in run /, err)
  end

  def test_log_does_not_wait_for_a_named_pipe
    run = json("runs")["runs"].first["run"]
    Dir.mktmpdir("rakuda-pipe") do |elsewhere|
      FileUtils.cp_r(path(".rakuda/runs/#{run}"), elsewhere)
      FileUtils.rm_f(File.join(elsewhere, run, "output.log"))
      File.mkfifo(File.join(elsewhere, run, "output.log"))
      command = ["timeout", "-s", "KILL", "60", File.join(BIN, "rakudactl"), "log", "app", "--run", run]
      _, err, status = Open3.capture3(*command, chdir: elsewhere)
      assert_equal 1, status.exitstatus
      assert_match(/output\.log: it is no ordinary file/, err)
    end
  end

  def test_a_run_is_found_by_a_beginning_of_its_name_and_by_path
    newest, oldest = json("runs")["runs"].map { |run| run["run"] }
    assert_equal oldest, json("story", "app", "--run", oldest)["run"]
    assert_equal newest, json("story", "app", "--run", ".rakuda/runs/#{newest}/journal.jsonl")["run"]
    Dir.mktmpdir("rakuda-elsewhere") do |elsewhere|
      FileUtils.cp_r(path(".rakuda/runs/#{oldest}"), elsewhere)
      out, = Open3.capture2(File.join(BIN, "rakudactl"), "story", "app", "--json", "--run", oldest, chdir: elsewhere)
      assert_equal oldest, JSON.parse(out)["run"]
    end
  end

  def test_a_part_of_a_name_is_enough_for_a_suggestion
    assert_complaint 1, /no task after in run \S+; did you mean after_bad\?/, "story", "after"
    assert_complaint 1, /did you mean after_bad\?/, "log", "r_ba"
  end

  def test_status_as_json_is_json_also_where_nothing_is_going_on
    out, err, status = ask("status", "--json")
    assert_equal [{ "version" => 1, "runs" => [] }, 3], [JSON.parse(out), status.exitstatus]
    assert_match(/no run is going on/, err)
    Dir.mktmpdir("rakuda-elsewhere") do |elsewhere|
      out, = Open3.capture3(File.join(BIN, "rakudactl"), "status", "--json", chdir: elsewhere)
      assert_empty JSON.parse(out)["runs"]
    end
  end

  def test_exit_statuses_tell_usage_no_run_and_failure_apart
    assert_complaint 2, /unrecognized subcommand 'stroy'; .*'story'/, "stroy", "app"
    assert_complaint 2, /may be any of/, "story", "app", "--run", "2"
    assert_complaint 3, /no run 1999 in/, "story", "app", "--run", "1999"
    assert_complaint 1, /no task b\.o in run \S+; did you mean a\.o\?/, "story", "b.o"
    Dir.mktmpdir("rakuda-nothing") do |empty|
      assert_complaint 3, /no \.rakuda folder in/, "-C", empty, "runs"
    end
  end

  def test_a_reader_that_goes_away_is_no_error
    reader, writer = IO.pipe
    reader.close
    _, status = Process.wait2(Process.spawn(File.join(BIN, "rakudactl"), "story", "bad", chdir: self.class.project, out: writer))
    writer.close
    assert_equal 0, status.exitstatus
  end

  def test_an_engine_that_is_not_there_is_said_to_be_missing
    out, status = Open3.capture2e({ "RAKUDA_ENGINE" => "/nonexistent" }, File.join(BIN, "rakudactl"), "runs")
    assert_equal ["rakudactl: there is no engine at RAKUDA_ENGINE=/nonexistent\n", 1], [out, status.exitstatus]
  end

  private

  def path(name)
    File.join(self.class.project, name)
  end

  def ask(*words)
    Open3.capture3(File.join(BIN, "rakudactl"), *words, chdir: self.class.project)
  end

  def good(*words)
    out, err, status = ask(*words)
    assert_equal ["", 0], [err, status.exitstatus]
    out
  end

  def json(*words)
    JSON.parse(good(*words, "--json")).tap { |answer| assert_equal 1, answer["version"] }
  end

  def assert_complaint(exit_status, pattern, *words)
    out, err, status = ask(*words)
    assert_equal ["", exit_status], [out, status.exitstatus]
    assert_match(/\Arakudactl: .*\n\z/, err)
    assert_match pattern, err
  end
end
