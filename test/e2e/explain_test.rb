# frozen_string_literal: true

# `rakudactl explain` and `rakudactl status` while a run is going on, and what the socket bears. Runs the real commands.

require "fileutils"
require "json"
require "minitest/autorun"
require "open3"
require "socket"
require "tmpdir"
require_relative "../support/rakefile_run"
require_relative "../support/waiting"

class ExplainTest < Minitest::Test
  include Waiting

  ROOT = File.expand_path("../..", __dir__)
  RAKUDA = File.join(ROOT, "bin", "rakuda")
  RAKUDACTL = File.join(ROOT, "bin", "rakudactl")

  RAKEFILE = <<~'RUBY'
    WAIT = "echo begun; until [ -e gate ]; do sleep 0.01; done"
    task(:slow) { sh WAIT, verbose: false }
    task(middle: :slow) { puts "middle" }
    task(top: :middle) { puts "top" }
    desc "ncore=2"
    task(:wide) { puts "wide" }
    desc "memory=6G"
    task(:big) { sh WAIT, verbose: false }
    desc "memory=5G"
    task(:fat) { puts "fat" }
    task(cores: %i[slow wide top])
    task(memory: %i[big fat])
  RUBY

  # @yield [folder] while the first action waits
  def while_running(*arguments)
    Dir.mktmpdir("rakuda-explain-#{'long' * 20}") do |folder|
      File.write(File.join(folder, "Rakefile"), RAKEFILE)
      IO.popen([RakefileRun::READ_LIVE, RAKUDA, *arguments, chdir: folder, err: %i[child out]]) do |out|
        assert_equal "begun\n", out.gets
        yield folder
      ensure
        FileUtils.touch(File.join(folder, "gate"))
        @rest = out.read
      end
      assert_equal 0, $?.exitstatus, @rest # rubocop:disable Style/SpecialGlobalVars
      assert_empty Dir[File.join(folder, ".rakuda/running/*")]
    end
  end

  def ask(folder, *arguments)
    out, err, status = Open3.capture3(RAKUDACTL, *arguments, chdir: folder)
    [out, err, status.exitstatus]
  end

  def explain(folder, task)
    out, err, status = ask(folder, "explain", task, "--json")
    [JSON.parse(out).fetch("answers").first, status, err]
  end

  def time_left(folder) = JSON.parse(ask(folder, "status", "--json").first).fetch("runs").first["left"]

  def test_a_task_that_waits_names_what_it_waits_for_in_the_end
    while_running("-j2", "cores") do |folder|
      answer, status = explain(folder, "top")
      assert_equal [0, "waiting"], [status, answer["state"]]
      assert_equal [{ "task" => "middle", "state" => "waiting" }], answer["waits_for"]
      assert_equal [{ "task" => "slow", "state" => "running" }], answer["roots"]
      text, = ask(folder, "explain", "top")
      assert_equal "top: waits for 1 prerequisite: middle (waiting)\n  in the end for: slow (running)\n", text
    end
  end

  def test_a_task_that_lacks_cores_says_how_many
    while_running("-j2", "cores") do |folder|
      answer, = explain(folder, "wide")
      assert_equal "queued", answer["state"]
      assert_equal({ "needed" => 2, "free" => 1 }, answer["short"].first["cores"])
      assert_match(/^  \S+: cores: 2 needed, 1 free$/, ask(folder, "explain", "wide").first)
    end
  end

  def test_a_task_that_lacks_memory_says_how_much
    while_running("-j2", "--memory", "8G", "--policy", "fifo", "memory") do |folder|
      answer, = explain(folder, "fat")
      assert_equal "queued", answer["state"]
      assert_equal({ "needed" => 5 << 30, "free" => 2 << 30 }, answer["short"].first["memory_bytes"])
      assert_match(/^  \S+: memory: 5 GiB needed, 2 GiB free$/, ask(folder, "explain", "fat").first)
    end
  end

  def test_a_running_task_tells_its_commands_and_the_status_counts
    while_running("-j2", "top") do |folder|
      answer, = explain(folder, "slow")
      assert_equal ["running", 1], answer.values_at("state", "attempt")
      assert_match(/\Aecho begun; until/, answer["commands"].first["command"])
      status = JSON.parse(ask(folder, "status", "--json").first).fetch("runs").first
      assert_equal [0, 3, 1, 0], status.values_at("done", "total", "running", "failed")
      assert_match(%r{\A\S+: 0/3 done, 1 running}, ask(folder, "status").first)
    end
  end

  # What has no action would not have run either.
  def test_tasks_that_are_not_run_count_in_the_status_as_in_the_end
    Dir.mktmpdir("rakuda-explain") do |folder|
      File.write(File.join(folder, "Rakefile"), <<~'RUBY')
        task(:bad) { fail "bad" }
        task(after: :bad) { puts "after" }
        task(none: :bad)
        task(both: %i[after none]) { puts "both" }
        task(:waits) { sh "echo begun; until [ -e gate ]; do sleep 0.01; done", verbose: false }
        task(all: %i[both waits])
      RUBY
      words = [RAKUDA, "-j2", "--failure", "continue", "all"]
      IO.popen([RakefileRun::READ_LIVE, *words, { chdir: folder, err: File::NULL }]) do |out|
        assert_equal "begun\n", out.gets
        status = {}
        wait_for("the failure") do
          (status = status_of(folder)) && status["failed"] == 1
        end
        assert_equal 2, status["abandoned"]
      ensure
        FileUtils.touch(File.join(folder, "gate"))
      end
      run = JSON.parse(ask(folder, "runs", "--json").first).fetch("runs").first
      assert_equal 2, run["abandoned"]
    end
  end

  # @return [Hash, nil] nil where it has not answered in time
  def status_of(folder)
    told, = ask(folder, "status", "--json")
    JSON.parse(told).fetch("runs").first unless told.empty?
  end

  def test_a_run_that_is_to_end_says_which_signal_comes_next
    Dir.mktmpdir("rakuda-explain") do |folder|
      File.write(File.join(folder, "Rakefile"), <<~'RUBY')
        task(:deaf) { sh "trap '' INT TERM; echo begun; until [ -e gate ]; do sleep 0.01; done", verbose: false }
      RUBY
      IO.popen([RakefileRun::READ_LIVE, RAKUDA, "-j2", "--grace", "50", "deaf", { chdir: folder, err: File::NULL }]) do |out|
        assert_equal "begun\n", out.gets
        assert_match(/0 failed, \d/, ask(folder, "status").first)
        Process.kill(:INT, out.pid)
        status = nil
        wait_for("the stop") { (status = status_of(folder)) && status["stopping"] }
        assert_includes %w[SIGTERM SIGKILL], status["next_signal"]["name"]
        assert_match(/1 running, 0 queued, 0 failed, .*, stopping: SIG(TERM|KILL) in \d+ s$/, ask(folder, "status").first)
      ensure
        FileUtils.touch(File.join(folder, "gate"))
      end
    end
  end

  def test_the_last_live_run_may_be_named_last
    while_running("-j2", "top") do |folder|
      assert_match(/\Atop: waits for 1 prerequisite/, ask(folder, "explain", "top", "--run", "last").first)
    end
  end

  def test_an_unknown_task_gets_suggestions
    while_running("-j2", "top") do |folder|
      answer, status = explain(folder, "midle")
      assert_equal [1, "unknown", ["middle"]], [status, *answer.values_at("state", "near")]
    end
  end

  def test_without_a_live_run_it_says_where_else_to_look
    while_running("-j2", "top") do |folder|
      _, err, status = ask(folder, "explain", "top", "--run", "nothing")
      assert_equal 3, status
      assert_match(/rakudactl: no run named nothing\.\.\. is going on in .*rakudactl why/, err)
    end
  end

  def test_a_live_run_has_one_state_in_lists_and_reports
    while_running("-j2", "top") do |folder|
      listed, reported = [%w[runs --json], %w[report --json]].map { |words| JSON.parse(ask(folder, *words).first) }
      assert_equal %w[running running], [listed.fetch("runs").first.fetch("state"), reported.fetch("state")]
    end
  end

  def test_a_run_that_hangs_is_not_denied
    Dir.mktmpdir do |folder|
      FileUtils.mkdir_p(File.join(folder, ".rakuda/running"))
      Dir.chdir(folder) do
        hub = UNIXServer.new(".rakuda/running/20260101-000000.000-1.sock")
        out, err, status = ask(folder, "status")
        assert_equal ["", 1], [out, status]
        assert_match(/^rakudactl: run 20260101-000000\.000-1 is going on, but has not answered within 10 s$/, err)
        hub.close
        assert_equal 3, ask(folder, "status").last
      end
    end
  end

  def test_the_time_left_rests_on_the_rule_when_no_name_is_alike
    Dir.mktmpdir do |folder|
      File.write(File.join(folder, "Rakefile"), <<~'RUBY')
        rule(".out") { |t| sh "echo begun; until [ -e gate ]; do sleep 0.01; done; touch #{t.name}; rm gate", verbose: false }
        task(:other) { sh "echo begun; until [ -e gate ]; do sleep 0.01; done", verbose: false }
      RUBY
      left = %w[first.out second.out other].map do |target|
        IO.popen([RakefileRun::READ_LIVE, RAKUDA, "-j2", target, chdir: folder, err: %i[child out]]) do |run|
          assert_equal "begun\n", run.gets
          left = time_left(folder)
          # Earlier runs are read while this one goes on.
          wait_for("a time that is left") { left = time_left(folder) } if target == "second.out"
          FileUtils.touch(File.join(folder, "gate"))
          run.read
          left
        end
      end
      assert_equal [nil, true, nil], [left[0], left[1].to_h.fetch("s").positive?, left[2]]
    end
  end

  def test_a_question_waits_while_as_many_are_asked_as_there_may_be
    while_running("-j2", "top") do |folder|
      Dir.chdir(folder) do
        path = Dir[".rakuda/running/*.sock"].first
        silent = Array.new(16) { UNIXSocket.new(path) }
        client = UNIXSocket.new(path)
        client.write("no json\n")
        silent.each(&:close)
        assert_match(/\A\{"error":/, client.gets)
      end
    end
  end

  def test_clients_that_misbehave_disturb_neither_the_run_nor_each_other
    while_running("-j2", "top") do |folder|
      sockets = Dir.chdir(folder) do
        path = Dir[".rakuda/running/*.sock"].first
        assert_equal 0o600, File.stat(path).mode & 0o777
        silent = Array.new(4) { UNIXSocket.new(path) }
        huge = UNIXSocket.new(path)
        begin
          huge.write("x" * (1 << 20))
        rescue Errno::EPIPE, Errno::ECONNRESET
          nil # it was turned away, before this write or during it
        end
        ["no json\n", "[]\n", "{\"ask\": \"explain\"}\n", "\n"].each do |line|
          client = UNIXSocket.new(path)
          client.write(line)
          assert_match(/\A\{"error":/, client.gets)
        end
        begun = UNIXSocket.new(path)
        begun.write("{\"ask\"")
        silent + [huge, begun]
      end
      assert_equal "running", explain(folder, "slow").first["state"]
      sockets.each(&:close)
    end
  end
end
