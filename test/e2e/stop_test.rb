# frozen_string_literal: true

# However a run is stopped, and whatever kind of process is writing a target just then: nothing writes any more when rakuda has
# ended, and the next run makes the target as a whole. Moments, writers and stops come from a seed. STOPS=1000 tries so many,
# SEED=N others.

require "fileutils"
require "json"
require "minitest/autorun"
require "pty"
require "tmpdir"
require_relative "../support/engines"
require_relative "../support/run_processes"

class StopTest < Minitest::Test
  RAKUDA = File.expand_path("../../bin/rakuda", __dir__)
  STOPS = Integer(ENV.fetch("STOPS", "40"))
  SEED = Integer(ENV.fetch("SEED", "7"))
  LINES = 600
  LOOP = "for i in $(seq #{LINES}); do echo part >> out; sleep 0.005; done".freeze

  # Bodies of an action that writes `out` slowly.
  IN_RUBY = %(#{LINES}.times { File.write("out", "part\\n", mode: "a"); sleep 0.005 }).freeze
  IN_PERL = "$0 = q(x) x 6000; for (1..#{LINES}) { open F, q(>>out); print F qq(part\\n); close F; " \
            "select undef, undef, undef, .005 }".freeze
  FORKING = "for i in $(seq #{LINES}); do (setsid sh -c 'echo part >> out' &); sleep 0.005; done".freeze
  WRITERS = {
    command: "sh #{LOOP.dump}",
    system: "system(#{LOOP.dump}) or raise",
    timeout: "sh %q(timeout 60 sh -c '#{LOOP}'; true)",
    fork: "Process.wait(fork { #{IN_RUBY} }); raise unless $?.success?",
    daemon: "sh %q(setsid sh -c '#{LOOP}' & sleep 5)",
    daemon_of_ruby: "Process.wait(spawn(%q(setsid sh -c '#{LOOP}' > /dev/null 2>&1 &), unsetenv_others: true)); sleep 5",
    title: "system(\"perl\", \"-e\", %q{#{IN_PERL}}) or raise",
    quick_forker: "system(%q{#{FORKING}}) or raise",
    ruby: IN_RUBY,
    thread: "Thread.new { #{IN_RUBY} }.join"
  }.freeze
  SIGNALS = %i[TERM INT KILL HUP QUIT USR1 ALRM].freeze
  STOP_KINDS = (SIGNALS + %i[ctrl_c closed_terminal front_killed guard_killed hub_killed]).freeze

  def setup
    @place = Dir.mktmpdir("rakuda-stop")
    @random = Random.new(SEED)
  end

  def teardown
    FileUtils.rm_rf(@place)
  end

  def test_no_half_written_target_is_kept_however_a_run_is_stopped
    kinds = WRITERS.keys.product(STOP_KINDS).shuffle(random: @random)
    STOPS.times { |round| stop_once(round, *kinds[round % kinds.size]) }
    puts "\n#{STOPS} stops (seed #{SEED}) of #{WRITERS.size} kinds of writers in #{STOP_KINDS.size} ways: none kept a half"
  end

  def test_a_failure_that_kills_others_leaves_no_writer
    %i[timeout daemon daemon_of_ruby].each do |writer|
      folder = new_folder(writer, "#{writer}_beside_a_failure")
      File.write(File.join(folder, "Rakefile"), <<~RUBY, mode: "a")
        file("bad") { sleep 0.01 until File.size?("out").to_i > 50; raise "bad" }
        task(both: %w[out bad])
      RUBY
      words = %w[-j 2 --failure kill both]
      pid = Process.spawn(Engines::REAL, RAKUDA, *words, chdir: folder, %i[out err] => log(folder))
      _, status = Process.wait2(pid)
      assert_equal 1, status.exitstatus, File.read(log(folder))
      check(folder, "failure beside #{writer}")
    end
  end

  def test_a_signal_to_the_whole_group_is_one_signal
    folder = new_folder(:command, "group")
    pid = Process.spawn(Engines::REAL, RAKUDA, "-j", "2", chdir: folder, %i[out err] => log(folder), pgroup: true)
    wait_until(folder) { File.size?(File.join(folder, "out")) }
    Process.kill(:INT, -pid)
    _, status = Process.wait2(pid)
    assert_equal 130, status.exitstatus
    stops = journal(folder).select { |event| event["event"] == "stop_requested" }
    assert_equal(["interrupt"], stops.map { |event| event["how"] })
    check(folder, "a signal to the group")
  end

  def test_commands_that_ignore_interrupts_as_the_run_does_are_terminated_at_once
    folder = new_folder(:command, "background")
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

  def new_folder(writer, name)
    folder = File.join(@place, name.to_s)
    FileUtils.mkdir_p(folder)
    File.write(File.join(folder, "Rakefile"), <<~RUBY)
      file "out" do
        next sh("for i in $(seq #{LINES}); do echo part; done > out", verbose: false) if File.exist?("good")
        #{WRITERS.fetch(writer)}
      end
      task default: "out"
    RUBY
    folder
  end

  def log(folder) = "#{folder}.log"

  def journal(folder)
    File.readlines(Dir[File.join(folder, ".rakuda/runs/*/journal.jsonl")].min).map { |line| JSON.parse(line) }
  end

  def stop_once(round, writer, kind)
    what = "round #{round}: #{kind} while #{writer} writes (seed #{SEED})"
    folder = new_folder(writer, "round")
    bytes = @random.rand(5..100)
    if %i[ctrl_c closed_terminal].include?(kind)
      stop_on_terminal(folder, kind, bytes)
    else
      pid = Process.spawn(Engines::REAL, RAKUDA, "-j", "2", chdir: folder, %i[out err] => log(folder))
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

    victim = kind.to_s.delete_suffix("_killed").to_sym
    Process.kill(:KILL, RunProcesses.of(pid).fetch(victim))
  end

  def stop_on_terminal(folder, kind, bytes)
    File.write(log(folder), "")
    output, input, pid = PTY.spawn(Engines::REAL, RAKUDA, "-j", "2", chdir: folder)
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

  # The next run makes the target as a whole, however soon it comes; nothing writes any more; the journal says that the run was
  # stopped.
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

  def wait_until(folder)
    6000.times do
      return if yield
      sleep 0.01
    end
    flunk "waited in vain for #{folder}; the log says:\n#{File.read(log(folder))}"
  end
end
