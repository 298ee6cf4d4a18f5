# frozen_string_literal: true

# What a run leaves behind, read line by line and field by field, as docs/reference/journal.md has it.

require "json"
require "minitest/autorun"
require_relative "../support/rakefile_run"
require_relative "../support/run_processes"

class JournalTest < Minitest::Test
  include RakefileRun

  RAKUDACTL = File.expand_path("../../bin/rakudactl", __dir__)

  RAKEFILE = <<~'RUBY'
    file "source"
    directory "out"
    file "out/good" => ["source", "out"] do |t|
      sh "echo printed; echo complained >&2; cp source #{t.name}", verbose: false
    end
    file "out/bad" => ["source", "out"] do |t|
      sh "echo half > #{t.name}; exit 3", verbose: false
    end
    task after: "out/bad" do
      sh "true"
    end
    task both: ["out/good", "keep"]
    file "keep" => "source"
    task inner: [] do
      Rake::Task["both"].invoke
      sh "false", verbose: false
    rescue RuntimeError
      sh "echo", "gone on", verbose: false
    end
    task default: %w[inner after]
  RUBY
  FILES = { "source" => "12345", "keep" => "kept" }.freeze

  def setup
    @engine_environment = Engines::REAL
  end

  def test_every_event_has_the_fields_that_its_table_says
    rakuda(RAKEFILE, "-j", "2", "--retry", "1", "--failure", "continue", files: FILES) do |run|
      assert_equal 1, run.status, run.err
      read(run.folder)
      check_frame(run.folder)
      check_definitions
      check_good_attempt
      check_bad_attempts
      check_commands
      assert_equal [["after", ["out/bad"]], ["default", ["after"]]], settled("abandoned")
      assert_equal [["both", []]], settled("executed")
      assert_equal [["out/bad", []]], settled("failed")
      assert_equal ["failed", 1, 1], of("run_ended").first.values_at("how", "failed", "abandoned")
    end
  end

  def test_what_commands_print_is_kept_with_whose_it_is
    rakuda(RAKEFILE, "-j", "2", "inner", files: FILES) do |run|
      assert_equal 0, run.status, run.err
      read(run.folder)
      log = File.read(File.join(@folder, "output.log"))
      good, inner = %w[out/good inner].map { |name| @names.key(name) }
      assert_includes log, "=== task #{good} attempt 1 stdout 8 out/good\nprinted\n\n"
      assert_includes log, "=== task #{good} attempt 1 stderr 11 out/good\ncomplained\n\n"
      assert_includes log, "=== task #{inner} attempt 1 stdout 8 inner\ngone on\n\n"
    end
  end

  def test_two_runs_at_once_are_told_and_both_remember_what_they_left
    rakefile = <<~'RUBY'
      file "x" do
        File.mkfifo("go")
        sh "echo half > x; echo begun", verbose: false
        sh "read line < go; exit 3", verbose: false
      end
      file "y" do
        sh "echo half > y; exit 3", verbose: false
      end
    RUBY
    start_rakuda(rakefile, "x", "FAILED_TARGET=leave") do |first, folder, out|
      assert_equal "begun\n", out.gets
      run = Dir.children(File.join(folder, ".rakuda/running")).grep_v(/sock/).first
      _, err, = Open3.capture3(@engine_environment, RAKUDA, "y", "FAILED_TARGET=leave", chdir: folder)
      assert_includes err, "rakuda: another run (#{run}) is going on in this folder; targets that both make are not safe\n"
      File.write(File.join(folder, "go"), "\n")
      Process.wait(first)
      assert_equal %W[+"x"\n +"y"\n], File.readlines(File.join(folder, ".rakuda/unfinished")).sort
      refute_includes out.read, "another run"
    end
  end

  def test_a_run_that_is_stopped_says_so
    start_rakuda("task(:default) { sh 'echo begun; sleep 1000', verbose: false }\n", "-j", "2") do |pid, folder, out|
      assert_equal "begun\n", out.gets
      Process.kill(:INT, pid)
      Process.wait(pid)
      read(folder)
      assert_equal [["interrupt"]], fields_of("stop_requested", "how")
      assert_equal [["aborted"]], fields_of("attempt_ended", "outcome")
      assert_equal [["stopped", 0]], fields_of("run_ended", "how", "failed")
      assert_empty settled("failed"), "what the user stops has not failed"
      # SIGINT, or SIGTERM when the front was quicker to leave than the command.
      assert_includes [2, 15], of("command_ended").first["status"]
    end
  end

  def test_a_run_that_ends_early_names_what_it_has_not_come_to
    rakefile = <<~RUBY
      task(:first) { sh "echo begun; sleep 1000", verbose: false }
      task(second: :first) { raise }
      task(default: :second)
      task(:unwanted) { raise }
    RUBY
    start_rakuda(rakefile, "-j", "2") do |pid, folder, out|
      assert_equal "begun\n", out.gets
      _, err, = Open3.capture3(@engine_environment, RAKUDACTL, "story", "second", chdir: folder)
      assert_match(/no task second in run .*it goes on, .*rakudactl explain second/, err)
      Process.kill(:INT, pid)
      Process.wait(pid)
      read(folder)
      assert_equal [["second", []], ["default", []]], settled("not_reached")
      refute_includes @names.values, "unwanted"
      { %w[story second] => /second in run .*: not reached.*second|not reached/m,
        %w[why second --run last] => /second did not run in .*: the run ended before it was its turn/,
        %w[report --text] => /^tasks +2: 1 stopped, 1 not reached; beside them 1 without an action$/ }.each do |question, answer|
        assert_match answer, Open3.capture3(@engine_environment, RAKUDACTL, *question, chdir: folder).first
      end
    end
  end

  def test_a_run_that_fails_names_what_it_has_not_come_to
    rakuda("task(:bad) { raise }\ntask(:other) { raise }\nmultitask(default: %w[bad other])\n", "-j", "1") do |run|
      read(run.folder)
      told = [settled("failed"), settled("not_reached")]
      assert_equal [1, 1], told.map(&:size)
      assert_equal [["bad", []], ["other", []]], told.flatten(1).sort
    end
  end

  def test_the_run_that_makes_what_was_cut_off_notes_that_as_the_reason
    rakefile = "file('half') { sh 'echo 1 > half; echo begun; [ -e again ] || sleep 1000', verbose: false }\n"
    start_rakuda(rakefile, "-j", "2", "half") do |pid, folder, out|
      assert_equal "begun\n", out.gets
      RunProcesses.kill_all(pid)
      Process.wait(pid)
      FileUtils.touch(File.join(folder, "again"))
      assert system(@engine_environment, RAKUDA, "-j", "2", "half", chdir: folder, %i[out err] => File::NULL)
      newest = Dir[File.join(folder, ".rakuda/runs/*/journal.jsonl")].max
      started = File.readlines(newest).map { |line| JSON.parse(line) }.find { |event| event["event"] == "attempt_started" }
      assert_equal [{ "kind" => "unfinished", "path" => "half" }], started["reasons"]
      refute_path_exists File.join(folder, "half._fail_"), "the remains went when it was made"
    end
  end

  def test_a_chosen_folder_is_linked_and_a_second_run_goes_into_a_folder_of_its_own
    rakuda("task(:default) { sh 'true', verbose: false }\n", "-L", "logs/%%", files: {}) do |run|
      assert_equal 0, run.status, run.err
      chosen = File.join(run.folder, "logs/%")
      first = File.read(File.join(chosen, "journal.jsonl"))
      links = Dir[File.join(run.folder, ".rakuda/runs/*")].map { |link| File.readlink(link) }
      assert_equal ["../../logs/%"], links
      assert system(@engine_environment, RAKUDA, "-L", "logs/%%", chdir: run.folder)
      assert_equal first, File.read(File.join(chosen, "journal.jsonl"))
      assert_equal 1, Dir[File.join(chosen, "*/journal.jsonl")].size
    end
  end

  def test_a_folder_that_cannot_be_made_ends_the_run_before_anything_runs
    rakuda("task(:default) { sh 'touch done' }\n", "-L", "Rakefile/logs") do |run|
      assert_equal 1, run.status
      assert_match(%r{cannot write into Rakefile/logs, the folder for logs: .*directory}, run.err)
      refute_path_exists File.join(run.folder, "done")
    end
  end

  def test_older_runs_are_removed_and_the_last_record_of_their_targets_is_kept
    rakefile = "file('a') { sh 'echo a > a' }\ntask(:other) { sh 'true' }\n"
    rakuda(rakefile, "a") do |run|
      3.times { assert system(@engine_environment, RAKUDA, "other", "RUNS_KEPT=2", chdir: run.folder, %i[out err] => File::NULL) }
      assert_equal 2, Dir[File.join(run.folder, ".rakuda/runs/*")].size
      history = File.readlines(File.join(run.folder, ".rakuda/history.jsonl")).map { |line| JSON.parse(line) }
      expected = %w[run_started rule_defined task_defined attempt_started command_started attempt_ended]
      assert_equal(expected, history.map { |event| event["event"] })
      assert_equal "echo a > a", history[4]["line"]
    end
  end

  private

  # @return [Array<Integer>] processes of the guard and of the hub, its child
  def read(folder)
    journals = Dir[File.join(folder, ".rakuda/runs/*/journal.jsonl")]
    assert_equal 1, journals.size
    @folder = File.dirname(journals.first)
    @events = File.readlines(journals.first).map { |line| JSON.parse(line) }
    @names = of("task_defined").to_h { |event| [event["task"], event["name"]] }
  end

  def of(name)
    @events.select { |event| event["event"] == name }
  end

  def fields_of(name, *fields)
    of(name).map { |event| event.values_at(*fields) }
  end

  def check_frame(folder)
    first = @events.first
    assert_equal "run_started", first["event"]
    expected = { "version" => 2, "run" => File.basename(@folder), "directory" => File.realpath(folder), "rakefile" => "Rakefile",
                 "command_line" => %w[-j 2 --retry 1 --failure continue], "cores" => 2, "policy" => "lifo_hrf",
                 "failure" => "continue", "failed_target" => "rename", "retry" => 1, "build_all" => false }
    assert_equal expected, first.slice(*expected.keys)
    assert_equal [[0, 2]], fields_of("node_joined", "node", "cores")
    started = of("invocation_started").map { |event| [event["invocation"], event["tasks"], @names[event["caller"]]] }
    assert_equal [[0, ["default"], nil], [1, ["both"], "inner"]], started
    assert_equal [[1, 0, 0], [0, 1, 1]], fields_of("invocation_ended", "invocation", "failed", "abandoned")
    times = @events.reject { |event| event["event"] == "invocation_started" }.map { |event| event["time_ns"] }.compact
    assert_equal times.sort, times
    assert_equal "run_ended", @events.last["event"]
  end

  def check_definitions
    tasks = of("task_defined").to_h { |event| [event["name"], event] }
    assert_equal of("task_defined").size, tasks.size, "each is defined once"
    assert_equal({ "kind" => "file", "action" => false, "up_to_date" => true, "bytes" => 5 },
                 tasks["source"].slice("kind", "action", "up_to_date", "bytes", "prerequisites"))
    good = tasks["out/good"]
    assert_equal(["source", "out"], good["prerequisites"].map { |number| @names[number] })
    assert_equal [true, "file"], good.values_at("action", "kind")
    refute good.key?("bytes"), "it was made"
    rules = of("rule_defined").to_h { |event| [event["rule"], event] }
    assert_equal "Rakefile:3", rules[good["rule"]]["location"]
    assert_match(/\A\h{32}\z/, rules[good["rule"]]["source"])
    defined = places("task_defined").to_h
    places("attempt_started").each { |task, place| assert_operator defined.fetch(task), :<, place }
  end

  # @return [Array<Array(Integer, Integer)>] tasks that such an event names, and the number of the line
  def places(name)
    @events.each_with_index.filter_map { |event, place| [event["task"], place] if event["event"] == name }
  end

  def check_good_attempt
    started, ended = attempts("out/good").first
    assert_equal [1, 0, 1], started.values_at("attempt", "node", "cores")
    assert_equal [{ "kind" => "missing", "path" => "out/good" }], started["reasons"]
    refute started.key?("before")
    assert_equal ["done", nil, nil], ended.values_at("outcome", "retried", "target")
    assert_equal %w[modified_ns changed_ns bytes inode], ended["after"].keys
    assert_equal 5, ended["after"]["bytes"]
  end

  def check_bad_attempts
    both = attempts("out/bad")
    assert_equal([1, 2], both.map { |started,| started["attempt"] })
    ends = both.map { |_, ended| ended.values_at("outcome", "retried", "target") }
    assert_equal [["failed", true, "renamed"], ["failed", nil, "renamed"]], ends
    assert_match(/\ACommand failed with status \(3\)/, both.last.last["message"])
  end

  # @return [Array<Array(Hash, Hash)>] starts and ends
  def attempts(name)
    number = @names.key(name)
    own = %w[attempt_started attempt_ended].map { |event| of(event).select { |one| one["task"] == number } }
    own.first.zip(own.last)
  end

  def check_commands
    ends = of("command_ended").to_h { |event| [event["command"], event] }
    starts = of("command_started")
    assert_equal starts.map { |event| event["command"] }.sort, ends.keys.sort
    words = starts.find { |event| event.key?("words") }
    assert_equal [["echo", "gone on"], "inner"], [words["words"], @names[words["task"]]]
    bad = starts.select { |event| @names[event["task"]] == "out/bad" }
    assert_equal([3 << 8] * 2, bad.map { |event| ends[event["command"]]["status"] })
    fields = %w[status wall_ns user_us system_us rss_kib_max read_bytes write_bytes]
    ends.each_value { |event| assert_equal fields, event.keys & fields }
  end

  def settled(how)
    of("task_settled").select { |event| event["how"] == how }.map do |event|
      [@names[event["task"]], (event["because"] || []).map { |number| @names[number] }]
    end
  end
end
