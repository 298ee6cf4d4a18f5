# frozen_string_literal: true

# However a run is stopped, and whatever kind of process is writing a target just then: nothing writes any more when
# rakuda has ended, and the next run makes the target as a whole. Moments, writers and stops come from a seed.
# STOPS=1000 tries 1000, SEED=N others.

require "json"
require "minitest/autorun"
require "open3"
require "pty"
require_relative "../support/disturbed_runs"
require_relative "../support/slow_writers"

class StopTest < Minitest::Test
  include DisturbedRuns

  STOPS = Integer(ENV.fetch("STOPS", "24"))
  SEED = Integer(ENV.fetch("SEED", "7"))
  WRITERS = SlowWriters::ALL
  LINES = SlowWriters::LINES
  SIGNALS = %i[TERM INT KILL HUP QUIT USR1 ALRM].freeze
  STOP_KINDS = (SIGNALS + %i[ctrl_c closed_terminal front_killed guard_killed hub_killed]).freeze
  # All above the hub is killed at once. What Ruby itself has started has nobody above it then
  # (docs/reference/limits.md).
  ABOVE_KINDS = %i[group_killed starter_and_guard_killed].freeze
  ABOVE_STOPS = [STOPS / 3, 1].max

  def test_no_half_written_target_is_kept_however_a_run_is_stopped
    kinds = WRITERS.keys.product(STOP_KINDS).shuffle(random: @random)
    STOPS.times { |round| stop_once(round, *kinds[round % kinds.size]) }
    puts "\n#{STOPS} stops (seed #{SEED}) of #{WRITERS.size} kinds of writers in #{STOP_KINDS.size} ways: none kept a half"
  end

  def test_no_half_written_target_is_kept_when_all_above_the_hub_is_killed
    kinds = SlowWriters::OF_COMMANDS.keys.product(ABOVE_KINDS).shuffle(random: @random)
    ABOVE_STOPS.times do |round|
      writer, kind = kinds[round % kinds.size]
      stop_once(round, writer, kind, SlowWriters::OF_COMMANDS)
    end
    ways = "#{SlowWriters::OF_COMMANDS.size} kinds of commands in #{ABOVE_KINDS.size} ways"
    puts "\n#{ABOVE_STOPS} stops (seed #{SEED}) of #{ways}: none kept a half"
  end

  # A guard that was killed stays the hub's parent until it has come to its end, which may be after the hub's. As it
  # would then, this one does nothing.
  def test_what_commands_have_left_ends_with_the_hub_when_the_guard_is_late_to_die
    folder = folder_of(:title, "late guard", SlowWriters::OF_COMMANDS)
    pid = start(folder, pgroup: true)
    wait_until(folder) { File.size?(File.join(folder, "out")) }
    processes = RunProcesses.of(pid)
    Process.kill(:STOP, *processes.values_at(:starter, :guard))
    Process.kill(:KILL, processes.fetch(:front))
    wait_until(folder) { !RunProcesses.alive?(processes.fetch(:hub)) }
    Process.kill(:KILL, *processes.values_at(:starter, :guard))
    Process.wait(pid)
    check(folder, "a guard that is late to die")
  end

  # Its hub waits for a command that takes its time to end.
  def test_a_run_of_which_only_the_hub_is_left_is_waited_for
    folder = new_folder("slow end", <<~RUBY)
      file("out") do
        next sh("seq 100 > out", verbose: false) if File.exist?("good")
        sh "trap 'sleep 0.8; exit 1' TERM; for i in $(seq 400); do echo part >> out; sleep 0.01; done; sleep 1000"
      end
      file("final" => "out") { sh "wc -l < out > final", verbose: false }
    RUBY
    pid = start(folder, "final", pgroup: true)
    wait_until(folder) { File.size?(File.join(folder, "out")) }
    Process.kill(:KILL, -pid)
    Process.wait(pid)
    FileUtils.touch(File.join(folder, "good"))
    assert system(Engines::REAL, RAKUDA, "-q", "final", chdir: folder, %i[out err] => log(folder)), File.read(log(folder))
    assert_equal "100\n", File.read(File.join(folder, "final"))
  end

  def test_a_failure_that_kills_others_leaves_no_writer
    %i[timeout daemon daemon_of_ruby].each do |writer|
      folder = folder_of(writer, "#{writer}_beside_a_failure")
      File.write(File.join(folder, "Rakefile"), <<~RUBY, mode: "a")
        file("bad") { sleep 0.01 until File.size?("out").to_i > 50; raise "bad" }
        task(both: %w[out bad])
      RUBY
      pid = start(folder, "--failure", "kill", "both")
      _, status = Process.wait2(pid)
      assert_equal 1, status.exitstatus, File.read(log(folder))
      check(folder, "failure beside #{writer}")
    end
  end

  # The hub lives until the guard has killed it.
  def test_a_run_whose_first_process_is_gone_is_waited_for
    folder = folder_of(:thread, "headless")
    pid = start(folder)
    wait_until(folder) { File.size?(File.join(folder, "out")) }
    guard = RunProcesses.of(pid).fetch(:guard)
    Process.kill(:STOP, guard)
    Process.kill(:KILL, pid)
    Process.wait(pid)
    FileUtils.touch(File.join(folder, "good"))
    next_run = Process.spawn(Engines::REAL, RAKUDA, "-q", "out", chdir: folder, %i[out err] => log(folder))
    # It says so after a while, and that it waits is all that can be seen of it until then.
    wait_until(folder) { File.read(log(folder)).include?("is waited for") }
    Process.kill(:CONT, guard)
    _, status = Process.wait2(next_run)
    assert_predicate status, :success?, File.read(log(folder))
    assert_equal LINES, File.readlines(File.join(folder, "out")).size
  end

  # The guard stops all below it before it kills that, and may itself be killed in between.
  def test_what_a_guard_has_stopped_and_not_killed_ends_without_it
    folder = folder_of(:command, "frozen")
    pid = start(folder, pgroup: true)
    wait_until(folder) { File.size?(File.join(folder, "out")) }
    starter, guard, hub = RunProcesses.of(pid).values_at(:starter, :guard, :hub)
    Process.kill(:STOP, starter, guard)
    Process.kill(:STOP, hub)
    RunProcesses.stop_below(hub)
    Process.kill(:KILL, starter, guard)
    Process.wait(pid)
    wait_until(folder) { !RunProcesses.alive?(hub) }
    check(folder, "a guard that was killed before it killed")
  end

  # What tells a hub of the guard's end comes from others, too.
  def test_a_run_goes_on_after_a_signal_that_resumes_its_hub
    folder = new_folder("resumed", "file('out') { sh 'echo 1 > out; until test -e go; do sleep 0.01; done; echo 2 >> out' }")
    pid = start(folder, "out")
    wait_until(folder) { File.size?(File.join(folder, "out")) }
    3.times { Process.kill(:CONT, RunProcesses.of(pid).fetch(:hub)) }
    FileUtils.touch(File.join(folder, "go"))
    _, status = Process.wait2(pid)
    assert_predicate status, :success?, File.read(log(folder))
    assert_equal "1\n2\n", File.read(File.join(folder, "out"))
  end

  # Nobody finds a process that was started with an emptied environment when all above it were killed at once.
  def test_a_target_that_a_stray_process_has_written_to_is_made_once_more
    folder = new_folder("stray", <<~'RUBY')
      file("out") do
        next sh("seq 100 > out", verbose: false) if File.exist?("good")
        sh %q((env -i setsid sh -c 'echo $$ > stray; until test -e go; do sleep 0.01; done; echo part >> out; touch gone' > /dev/null 2>&1 &)
              echo part > out; sleep 60)
      end
    RUBY
    pid = start(folder, "out")
    wait_until(folder) { %w[out stray].all? { |name| File.size?(File.join(folder, name)) } }
    RunProcesses.kill_all(pid)
    Process.wait(pid)
    FileUtils.touch(File.join(folder, "good"))
    assert_equal 100, lines_after_a_run(folder)
    FileUtils.touch(File.join(folder, "go"))
    wait_until(folder) { File.exist?(File.join(folder, "gone")) }
    assert_equal 101, File.readlines(File.join(folder, "out")).size
    plan, = Open3.capture2(Engines::REAL, RAKUDA, "-n", "out", chdir: folder)
    assert_match(/out/, plan)
    assert_equal 100, lines_after_a_run(folder)
    assert_match(/'out' was changed after it was made/, File.read(log(folder)))
    assert_equal 100, lines_after_a_run(folder)
    assert_empty File.read(log(folder)), "it is looked at once"
    refute_path_exists File.join(folder, ".rakuda/settled")
  end

  def test_a_signal_to_the_whole_group_is_one_signal
    folder = folder_of(:command, "group")
    pid = start(folder, pgroup: true)
    wait_until(folder) { File.size?(File.join(folder, "out")) }
    Process.kill(:INT, -pid)
    _, status = Process.wait2(pid)
    assert_equal 130, status.exitstatus
    stops = journal(folder).select { |event| event["event"] == "stop_requested" }
    assert_equal(["interrupt"], stops.map { |event| event["how"] })
    check(folder, "a signal to the group")
  end

  def test_commands_that_ignore_interrupts_as_the_run_does_are_terminated_at_once
    folder = folder_of(:command, "background")
    # As a script starts `rakuda &`.
    words = ["sh", "-c", "trap '' INT; exec \"$@\"", "sh", RAKUDA, "-j", "2", "--grace", "600"]
    pid = Process.spawn(Engines::REAL, *words, chdir: folder, %i[out err] => log(folder))
    wait_until(folder) { File.size?(File.join(folder, "out")) }
    Process.kill(:TERM, pid)
    _, status = Process.wait2(pid)
    assert_equal 143, status.exitstatus
    check(folder, "the end of a run in the background")
  end

  private

  def folder_of(writer, name, writers = WRITERS) = new_folder(name, SlowWriters.rakefile(writers.fetch(writer)))

  def lines_after_a_run(folder)
    ok = system(Engines::REAL, RAKUDA, "-q", "out", chdir: folder, %i[out err] => log(folder))
    assert ok, File.read(log(folder))
    File.readlines(File.join(folder, "out")).size
  end

  def journal(folder)
    File.readlines(Dir[File.join(folder, ".rakuda/runs/*/journal.jsonl")].min).map { |line| JSON.parse(line) }
  end

  def stop_once(round, writer, kind, writers = WRITERS)
    what = "round #{round}: #{kind} while #{writer} writes (seed #{SEED})"
    folder = folder_of(writer, "round", writers)
    bytes = @random.rand(5..100)
    if %i[ctrl_c closed_terminal].include?(kind)
      stop_on_terminal(folder, kind, bytes)
    else
      pid = start(folder, pgroup: true)
      wait_until(folder) { File.size?(File.join(folder, "out")).to_i >= bytes }
      stop(pid, kind)
      Process.wait(pid)
    end
    check(folder, what)
  ensure
    FileUtils.rm_rf(folder)
  end

  def stop(pid, kind)
    return Process.kill(kind, pid) if SIGNALS.include?(kind)
    return Process.kill(:KILL, -pid) if kind == :group_killed
    return Process.kill(:KILL, *RunProcesses.of(pid).values_at(:starter, :guard)) if kind == :starter_and_guard_killed

    victim = kind.to_s.delete_suffix("_killed").to_sym
    Process.kill(:KILL, RunProcesses.of(pid).fetch(victim))
  end

  def stop_on_terminal(folder, kind, bytes)
    File.write(log(folder), "")
    output, input, pid = PTY.spawn(Engines::REAL.merge("XDG_CONFIG_HOME" => nil), RAKUDA, "-j", "2", chdir: folder)
    wait_until(folder) { File.size?(File.join(folder, "out")).to_i >= bytes }
    if kind == :ctrl_c
      input.write("\x03")
      loop { File.write(log(folder), output.readpartial(4096), mode: "a") }
    end
  rescue Errno::EIO
    nil # whoever had the terminal has ended
  ensure
    [output, input].each(&:close)
    Process.wait(pid)
  end

  # The next run makes the target as a whole, however soon it comes; nothing writes any more; the journal says that the
  # run was stopped.
  def check(folder, what)
    FileUtils.touch(File.join(folder, "good"))
    ok = system(Engines::REAL, RAKUDA, "-q", "out", chdir: folder, %i[out err] => log(folder))
    assert ok, "#{what}\n#{File.read(log(folder))}"
    assert_equal LINES, File.readlines(File.join(folder, "out")).size, "#{what}\n#{File.read(log(folder))}"
    assert_empty writers(folder), what
    ended = journal(folder).reverse.find { |event| event["event"] == "run_ended" }
    assert_includes %w[stopped recovered failed], ended&.fetch("how"), what
  end

  # @return [Array<String>] command lines of processes that are in the folder
  def writers(folder)
    here = RunProcesses.all.select do |process|
      process.state != "Z" && File.readlink("/proc/#{process.pid}/cwd") == File.realpath(folder)
    rescue SystemCallError
      false
    end
    here.map { |process| RunProcesses.words(process.pid) }
  end
end
