# frozen_string_literal: true

require "minitest/autorun"
require "support/slow_writers"
require_relative "../hosts_case"

# A run on many hosts that is stopped in good order while something writes a target on one of them: nothing writes there
# any more when rakuda has ended, and the next run makes the target as a whole.
class ClusterStopTest < ClusterHostsCase
  LINES = SlowWriters::LINES
  SIGNALS = %i[TERM INT HUP].freeze
  LEADER = "[[group]]\nname = \"far\"\nleader = \"host1\"\nhosts = [\"host1 2\", \"host2 2\"]\n"

  def test_no_half_written_target_is_kept_and_nothing_writes_on_a_node
    SlowWriters::OF_COMMANDS.each_with_index do |(name, writer), number|
      signal = SIGNALS[number % SIGNALS.size]
      stop_while_writing(writer) { |pid| Process.kill(signal, pid) }
      check("#{signal} while #{name} writes")
    end
  end

  def test_a_failure_that_kills_others_leaves_no_writer_on_a_node
    also = <<~'RUBY'
      file("bad") { sh "until test $(stat -c %s out || echo 0) -gt 50; do sleep 0.01; done; exit 1" }
      task(default: %w[out bad])
    RUBY
    printed, status = stop_while_writing(SlowWriters::OF_COMMANDS.fetch(:daemon), "--failure", "kill", also: also)
    assert_equal 1, status.exitstatus, printed
    check("a failure")
  end

  def test_a_run_that_goes_on_after_a_failure_leaves_no_writer_on_a_node
    fails = "until test -s out; do sleep 0.01; done; exit 1"
    daemon = SlowWriters::OF_COMMANDS.fetch(:daemon_without_environment).sub(SlowWriters::STAYS, fails)
    printed, status = stop_while_writing(daemon, "--failure", "continue")
    assert_equal 1, status.exitstatus, printed
    check("a failed attempt")
  end

  def test_nothing_of_a_failed_attempt_writes_on_a_node_while_the_next_one_does
    result = rakuda(<<~'RUBY', "-q", "--retry", "1")
      file "out" do
        next sh("for i in $(seq 100); do echo whole; sleep 0.001; done >> out") if File.exist?("failed")
        touch "failed"
        sh "(setsid sh -c 'while :; do echo part >> out; done' > /dev/null 2>&1 &); until test -s out; do sleep 0.001; done; exit 1"
      end
      task default: "out"
    RUBY
    assert_equal 0, result.status, result.err
    assert_equal ["whole\n"] * 100, File.readlines(File.join(@folder, "out"))
  end

  def test_behind_a_leader
    write("far.toml", LEADER)
    stop_while_writing(SlowWriters::OF_COMMANDS.fetch(:daemon), hosts: "far.toml") { |pid| Process.kill(:TERM, pid) }
    check("SIGTERM behind a leader")
  end

  def test_nodes_that_hang_do_not_hold_up_the_end_for_ever
    stop_while_writing(SlowWriters::OF_COMMANDS.fetch(:command)) do |pid|
      # The target grows on one of them; the agent of the other may not have been started yet.
      wait_for("both nodes to join") { %w[host1 host2].all? { |host| joined.include?(host) } }
      %w[host1 host2].each { |host| @testbed.run!(host, "pkill", "-STOP", "-x", "rakuda-agent") }
      Process.kill(:TERM, pid)
    end
    %w[host1 host2].each { |host| @testbed.run!(host, "pkill", "-CONT", "-x", "rakuda-agent") }
    wait_until_nothing_runs("host1", "host2")
    check("nodes that hang")
  end

  private

  # Starts a run, and yields when the target grows; returns what it printed and its status.
  def stop_while_writing(writer, *words, also: "", hosts: "hosts", &block)
    FileUtils.rm_rf(names("{out*,good,bad*,.rakuda}").map { |path| File.join(@folder, path) })
    write("Rakefile", SlowWriters.rakefile(writer) + also)
    IO.pipe do |reader, output|
      pid = @testbed.start("head", RAKUDA, "-F", hosts, *words, chdir: @folder, out: output, err: output)
      output.close
      printed = Thread.new { reader.read }
      wait_for("the target to grow") { File.size?(File.join(@folder, "out")).to_i > 20 } if block
      block&.call(pid)
      _, status = Process.wait2(pid)
      return printed.value, status
    end
  end

  # Names of nodes, by the journal of the run that goes on.
  def joined
    lines = Dir[File.join(@folder, ".rakuda/runs/*/journal.jsonl")].flat_map { |path| File.readlines(path) }
    lines.grep(/"event":"node_joined"/).map { |line| line[/"name":"([^"]*)"/, 1] }
  end

  def check(what)
    %w[host1 host2].each { |host| assert_empty writers(host), what }
    FileUtils.touch(File.join(@folder, "good"))
    result = @testbed.run("head", RAKUDA, "-F", "hosts", "-q", "out", chdir: @folder)
    assert_equal 0, result.status, "#{what}\n#{result.err}"
    assert_equal LINES, File.readlines(File.join(@folder, "out")).size, what
  end

  def writers(host) = @testbed.run(host, "pgrep", "-fl", "[e]cho part|xxxxx").out
end
