# frozen_string_literal: true

require "minitest/autorun"
require "support/slow_writers"
require_relative "../hosts_case"

# A run on many hosts that is stopped in good order while something writes a target on one of them: nothing goes on
# writing there, and the next run makes the target as a whole.
class ClusterStopTest < ClusterHostsCase
  LINES = SlowWriters::LINES
  # Kinds of commands, and how the run is stopped. All kinds and all ways are tried on this machine in
  # ../../e2e/stop_test.rb, what is left of failed attempts in ../../near/hosts_test.rb and
  # crates/cli/tests/agent_process.rs.
  STOPS = { daemon_without_environment: :TERM, quick_forker: :INT, deaf: :HUP }.freeze
  LEADER = "[[group]]\nname = \"far\"\nleader = \"host1\"\nhosts = [\"host1 2\", \"host2 2\"]\n"

  def test_no_half_written_target_is_kept_and_nothing_writes_on_a_node
    STOPS.each do |name, signal|
      stop_while_writing(SlowWriters::OF_COMMANDS.fetch(name)) { |pid| Process.kill(signal, pid) }
      check("#{signal} while #{name} writes")
    end
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

  # Starts a run, and yields when the target grows.
  def stop_while_writing(writer, hosts: "hosts")
    FileUtils.rm_rf(names("{out*,good,.rakuda}").map { |path| File.join(@folder, path) })
    write("Rakefile", SlowWriters.rakefile(writer))
    pid = @testbed.start("head", RAKUDA, "-F", hosts, chdir: @folder, out: File::NULL, err: File::NULL)
    wait_for("the target to grow") { File.size?(File.join(@folder, "out")).to_i > 20 }
    yield pid
    Process.wait(pid)
  end

  # Names of nodes, by the journal of the run that goes on.
  def joined
    lines = Dir[File.join(@folder, ".rakuda/runs/*/journal.jsonl")].flat_map { |path| File.readlines(path) }
    lines.grep(/"event":"node_joined"/).map { |line| line[/"name":"([^"]*)"/, 1] }
  end

  # An agent that is late ends them a moment after rakuda, which waits for it 2 s at most. That nothing writes any more
  # when rakuda has ended is tested on one machine in ../../e2e/stop_test.rb.
  def check(what)
    %w[host1 host2].each do |host|
      wait_for("writers on #{host} to end: #{what}", -> { writers(host) }) { writers(host).empty? }
    end
    FileUtils.touch(File.join(@folder, "good"))
    result = @testbed.run("head", RAKUDA, "-F", "hosts", "-q", "out", chdir: @folder)
    assert_equal 0, result.status, "#{what}\n#{result.err}"
    assert_equal LINES, File.readlines(File.join(@folder, "out")).size, what
  end

  def writers(host) = @testbed.run(host, "pgrep", "-fl", "[e]cho part").out
end
