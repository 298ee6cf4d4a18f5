# frozen_string_literal: true

require "fileutils"
require "json"
require "minitest/autorun"
require "open3"
require_relative "../support/run_processes"
require_relative "../support/scratch_folder"
require_relative "../support/waiting"

# `--on-end` and `--on-fail`: what they are told, and that they change nothing.
class EndCommandsTest < Minitest::Test
  include ScratchFolder
  include Waiting

  RAKUDACTL = File.expand_path("../../bin/rakudactl", __dir__)
  RAKEFILE = <<~'RUBY'
    file("good") { |t| touch t.name, verbose: false }
    task(:bad) { sh "exit 3", verbose: false }
    task(:long) { File.write("begun", ""); sh "sleep 1000", verbose: false }
    task(circle: :circle)
  RUBY
  BOTH = ["--on-fail", "cat > failed.json; echo fail >> order", "--on-end", "cat > ended.json; echo end >> order"].freeze

  def rakuda(*words)
    File.write(path("Rakefile"), RAKEFILE)
    Open3.capture3(RAKUDA, *words, chdir: @folder)
  end

  # A run of a task that does not end by itself, once that has begun.
  def start_long(*options)
    File.write(path("Rakefile"), RAKEFILE)
    pid = Process.spawn(RAKUDA, "-q", *options, "long", chdir: @folder, %i[out err] => File::NULL)
    sleep 0.01 until File.exist?(path("begun"))
    pid
  end

  def told(name) = File.exist?(path(name)) ? JSON.parse(File.read(path(name))) : nil

  def test_a_run_that_ended_well_is_told_to_one
    _, errors, status = rakuda("-q", *BOTH, "good")
    assert status.success?
    assert_empty errors
    assert_nil told("failed.json")
    assert_equal ["done", 1, 1, 0], told("ended.json").values_at("state", "tasks", "done", "failed")
    run = File.basename(Dir.glob(path(".rakuda/runs/*")).max)
    assert_equal run, told("ended.json")["id"]
  end

  def test_a_failed_run_is_told_to_both_and_its_status_stays
    _, errors, status = rakuda("-q", *BOTH, "bad")
    assert_equal 1, status.exitstatus
    assert_match(/^Command failed with status \(3\)/, errors)
    assert_equal %w[fail end], File.readlines(path("order"), chomp: true)
    assert_equal told("failed.json"), told("ended.json")
    assert_equal [["bad", "status 3"]], (told("failed.json")["failures"].map { |one| one.values_at("task", "status") })
  end

  def test_a_run_that_is_stopped_has_not_ended_well
    pid = start_long(*BOTH)
    Process.kill(:INT, pid)
    _, status = Process.wait2(pid)
    assert_equal 130, status.exitstatus
    assert_equal "stopped", told("failed.json")["state"]
  end

  # The guard ends what a stopped run has left, however late it comes to that: the commands are no part of it.
  def test_they_are_not_ended_with_what_a_stopped_run_has_left
    pid = start_long("--on-fail", "touch begins; until test -e go; do sleep 0.01; done; echo fail >> order")
    guard, front, hub = RunProcesses.of(pid).values_at(:guard, :front, :hub)
    Process.kill(:STOP, guard)
    Process.kill(:INT, pid)
    # Ruby does nothing but wait for the guard, or would have begun the command without it.
    wait_for("the hub's end") { !RunProcesses.alive?(hub) }
    wait_for("Ruby to wait") { File.exist?(path("begins")) || waits?(front) }
    Process.kill(:CONT, guard)
    wait_for("the command") { File.exist?(path("begins")) }
    wait_for("the guard to have done its part") { RunProcesses.see(hub).nil? && RunProcesses.see(guard).state == "S" }
    FileUtils.touch(path("go"))
    _, status = Process.wait2(pid)
    assert_equal [130, ["fail"]], [status.exitstatus, File.readlines(path("order"), chomp: true)]
  end

  # It has no child that it could wait for.
  def waits?(process) = RunProcesses.see(process).state == "S" && RunProcesses.below(process).empty?

  def test_nothing_to_do_no_record_and_no_run
    rakuda("-q", "good")
    rakuda("-q", *BOTH, "good")
    assert_equal %w[version id state], told("ended.json").keys
    assert_equal "done", told("ended.json")["state"]
    File.delete(path("ended.json"))
    rakuda("-n", "-q", *BOTH, "bad")
    rakuda("-T", *BOTH)
    assert_nil told("ended.json")
    _, _, status = rakuda("--no-record", "-q", *BOTH, "bad")
    assert_equal [1, "failed"], [status.exitstatus, told("failed.json")["state"]]
  end

  # A circle is found before the engine has begun a run, an unknown task before it has started.
  def test_a_run_that_ends_before_it_has_a_name
    _, errors, status = rakuda("-q", *BOTH, "circle")
    assert_match(/\Arakuda aborted!\nCircular dependency detected: TOP => circle => circle$/, errors)
    refute_match(/end_commands|TypeError/, errors)
    assert_equal [1, { "version" => 1, "id" => nil, "state" => "failed" }], [status.exitstatus, told("failed.json")]
    assert_equal told("failed.json"), told("ended.json")
    File.delete(path("failed.json"))
    _, _, status = rakuda("-q", *BOTH, "unknown")
    assert_equal [1, nil], [status.exitstatus, told("failed.json")]
  end

  # The tasks have ended well; what is wanted after them does not exist.
  def test_a_run_that_fails_outside_of_its_tasks
    _, errors, status = rakuda("-q", *BOTH, "good", "unknown")
    assert_match(/^Don't know how to build task 'unknown'/, errors)
    assert_equal [1, "failed", 1, 0], [status.exitstatus, *told("failed.json").values_at("state", "done", "failed")]
    junit, = Open3.capture2(RAKUDACTL, "export", "junit", chdir: @folder)
    assert_match(/tests="2" failures="0" errors="1"/, junit)
  end

  def test_a_command_that_fails_or_does_not_listen_changes_no_status
    _, errors, status = rakuda("-q", "--on-end", "exec 0<&-; exit 4", "good")
    assert status.success?
    assert_equal "rakuda: --on-end exec 0<&-; exit 4: ended with status 4\n", errors
  end
end
