# frozen_string_literal: true

require "fileutils"
require "minitest/autorun"
require "rakuda/bench/guard"
require "rakuda/bench/launch"
require "rakuda/bench/processes"
require "rakuda/bench/workspace"
require "support/bench_folder"
require "support/waiting"

# What was killed and does not end, and file systems that do not answer. A file server that hangs is in
# test/cluster/gfarm.
class BenchStuckTest < Minitest::Test
  include BenchFolder
  include Waiting

  Bench = Rakuda::Bench

  def teardown
    Bench::Processes.kill(@ones || [])
    FileUtils.rm_f([@folder, at("work")].map { |folder| Bench::Processes.note_path(folder) })
    super
  end

  # A program that leads a group, and what it has started in a group apart.
  # @return [Array(Integer, Integer)] numbers of both
  def started
    pid = Process.spawn("sh", "-c", "setsid sleep 1000 & echo $! >apart; exec sleep 1000", chdir: @folder, pgroup: true)
    wait_for("both") { File.size?(at("apart")) }
    apart = Integer(File.read(at("apart")))
    wait_for("its group") { Bench::Processes.stat(apart).last[Bench::Processes::GROUP].to_i == apart }
    wait_for("sleep") { [pid, apart].all? { |one| Bench::Processes.words(one) == "sleep 1000" } }
    @ones = [pid, apart].map { |one| Bench::Processes::One.new(one, Bench::Processes.started(one), "") }
    [pid, apart]
  end

  # @yieldparam workspace [Bench::Workspace] below @folder
  def in_workspace
    workspace = Bench::Workspace.new(at("work"))
    workspace.make(0)
    yield workspace
  ensure
    workspace&.finish
  end

  def test_all_that_was_started_for_a_run_is_killed_and_nothing_else
    other = Process.spawn("sleep", "1000", pgroup: true)
    in_workspace do
      pid, apart = started
      assert_equal [pid, apart].sort, Bench::Processes.of(at("work")).map(&:pid)
      assert_equal ["#{pid} (sleep 1000)"], Bench::Processes.of(nil, pid).map(&:to_s)
      Bench::Launch.stop(pid, Process.detach(pid), 0, rest: 0)
      [pid, apart].each { |one| assert_nil Bench::Processes.started(one) }
    end
    refute_path_exists at("work")
    refute_nil Bench::Processes.started(other)
  ensure
    Process.kill(:KILL, other)
    Process.wait(other)
  end

  # One that is never known to have ended.
  ENDLESS = Struct.new(:asked) do
    def alive? = true

    def join(_) = nil
  end

  def test_what_does_not_end_is_given_up_and_its_folder_stays_as_it_is
    in_workspace do |workspace|
      FileUtils.mkdir_p(at("work/make-0"))
      pid, apart = started
      Process.detach(pid)
      error = assert_raises(Bench::Stuck) { Bench::Launch.stop(pid, ENDLESS.new, 0, killed: 0, rest: 0) }
      told = /\Akilled, and still there after 0 s, as where a file server does not answer: (?:#{pid}|#{apart})\b/
      assert_match(told, error.message)
      assert_match(/; nothing in #{at("work")} is removed: wait until it answers, or name another with --dir\z/, error.message)
      assert_predicate Bench::Workspace, :given_up?
      Bench::Workspace.remove(at("work/make-0"))
      workspace.finish
    end
    assert_equal %w[.rakuda-bench make-0], Dir.children(at("work")).sort
  end

  def test_the_next_command_names_what_has_not_ended_before_it_opens_anything
    pid, = started
    waiter = Process.detach(pid)
    Dir.mkdir(at("work"))
    File.write(at("work/somebody's"), "")
    Bench::Processes.note(at("work"), Bench::Processes.of(nil, pid))
    said = "#{at("work")}: an earlier command was ended, and what it had started is still there: #{pid} (sleep 1000); wait"
    [%w[run metadata], %w[compare copyfile --engines make], %w[suite ci], %w[prepare copyfile],
     %w[emit copyfile --engines make]].each { |words| assert_includes refused(*words, "--dir", "work"), said }
    Process.kill(:KILL, pid)
    waiter.join
    assert_match(/work is there already and is no folder of a benchmark/, refused("run", "metadata", "--dir", "work"))
    refute_path_exists Bench::Processes.note_path(at("work"))
  end

  def test_word_of_somebody_else_is_not_taken
    File.symlink("/etc/passwd", Bench::Processes.note_path(@folder))
    assert_empty Bench::Processes.noted(@folder)
    Bench::Processes.note(@folder, [])
    refute File.symlink?(Bench::Processes.note_path(@folder))
    assert_path_exists "/etc/passwd"
  end

  # Whoever asked it would wait for ever.
  def test_a_file_system_that_does_not_answer_is_left_alone
    Dir.mkdir(at("bin"))
    before = ENV.fetch("PATH")
    in_workspace do |workspace|
      File.write(at("bin/stat"), "#!/bin/sh\nexec sleep 1000\n")
      File.chmod(0o755, at("bin/stat"))
      ENV["PATH"] = "#{at("bin")}:#{before}"
      error = assert_raises(Bench::Stuck) { Bench::Workspace.ask(at("work"), limit: 0.1) }
      assert_equal "the file system of #{at("work")} has not answered for 0.1 s: nothing there is removed", error.message
      workspace.finish
    end
    assert_equal %w[.rakuda-bench], Dir.children(at("work"))
  ensure
    ENV["PATH"] = before
  end

  def test_a_program_that_makes_inputs_or_looks_at_outputs_has_its_time
    error = assert_raises(Bench::Failure) { Bench::Launch.capture({}, "sleep", "1000", timeout: 0.1) }
    assert_equal "sleep did not end within 1 s", error.message
  end

  def in_folder?(process)
    File.readlink("#{process}/cwd") == @folder
  rescue SystemCallError
    false # it has ended meanwhile
  end

  def test_outputs_are_read_by_a_program_that_is_ended_when_it_takes_too_long
    contents = { "a" => "", "-b" => "1\n", "new\nline" => "2" }
    contents.each { |name, text| File.write(at(name), text) }
    sums = contents.values.map { |text| Digest::SHA256.hexdigest(text) }
    assert_equal sums, Bench::Digests.of(@folder, contents.keys, 60)
    error = assert_raises(Bench::Failure) { Bench::Digests.of(@folder, %w[a none], 60) }
    assert_equal "none was not made", error.message
    # All zeros, and more than can be read in that time.
    File.write(at("huge"), "")
    File.truncate(at("huge"), 1 << 42)
    error = assert_raises(Bench::Failure) { Bench::Workspace.digest(@folder, %w[huge], 0.1) }
    assert_equal "reading the outputs in #{@folder} did not end within 1 s: give it longer with --timeout, or, where its file " \
                 "system hangs, name another folder with --dir", error.message
    assert_empty(Dir["/proc/[0-9]*"].select { |process| in_folder?(process) })
  end
end
