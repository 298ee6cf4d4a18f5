# frozen_string_literal: true

require "json"
require "minitest/autorun"
require_relative "../hosts_case"

# Commands that go to a host far away before they may run (docs/design/prepared-commands.md): none runs twice, none is
# lost, and no more run at once than the host has cores, when the hub or a leader dies or the line is cut. Agents that
# die, failures and interrupts are in the fault runs of the simulator.
class ClusterPreparedTest < ClusterHostsCase
  TASKS = 80
  ALL = (1..TASKS).map { |number| "out#{number}" }.freeze
  # Longer than this a message takes there and back, in any case.
  TRIP_NS = 100_000_000
  # Minimum of tasks that have ended when the others wait for a file `go`, so that a run is not over before it is
  # struck.
  HELD = 40
  # Notes when it begins and ends, and what it has made is whole only in the end.
  RAKEFILE = <<~RUBY.freeze
    held = "test -e go || test $(grep -c ^e stamps) -lt #{HELD} || until test -e go; do sleep 0.1; done"
    made = (1..#{TASKS}).map { |number| "out\#{number}" }
    task default: made
    made.each do |name|
      file(name) { sh "echo half > \#{name}; echo b \#{name} $(date +%s%N) >> stamps; sleep 0.05; \#{held}; " \\
                      "echo e \#{name} $(date +%s%N) >> stamps; echo whole > \#{name}", verbose: false }
    end
  RUBY

  def testbed_settings = { HOSTS: 4, GFARM: 0, SLURM: 0, WAN_MS: 50 }

  def setup
    super
    write("hosts", "host3 3\n")
    write("Rakefile", RAKEFILE)
    write("stamps", "")
  end

  def begun(stamps = self.stamps) = stamps.count { |what,| what == "b" }

  # To its end.
  def run_far
    write("go", "")
    @testbed.run("head", RAKUDA, "-F", "hosts", "-q", chdir: @folder)
  end

  # Begins a run, and yields when 25 tasks have ended; not all will before there is a `go`.
  def while_running(*words, hosts: "hosts")
    log = File.join(@folder, "log")
    pid = @testbed.start("head", RAKUDA, "-F", hosts, "-q", *words, chdir: @folder, out: log, err: log)
    wait_for("25 tasks to end", -> { File.read(log) }) { stamps.count { |what,| what == "e" } >= 25 }
    yield
    Process.wait2(pid).last
  end

  # @return [Array<Array>] what, name and time, ns
  def stamps
    read("stamps").lines.map(&:split).select { |words| words.size == 3 }.map { |what, name, time| [what, name, Integer(time)] }
  end

  def assert_made
    assert_equal ["whole\n"], ALL.map { |name| read(name) }.uniq
  end

  def assert_never_more_than(cores, stamps = self.stamps)
    # At one time ends come before beginnings: a core is free before it is another one's.
    order = stamps.sort_by { |what, _, time| [time, what == "e" ? 0 : 1] }
    running = 0
    most = order.map { |what,| running += what == "b" ? 1 : -1 }.max
    assert_operator most, :<=, cores
  end

  # Whole lines of the newest run.
  def journal
    lines = File.readlines(Dir[File.join(@folder, ".rakuda/runs/*/journal.jsonl")].max)
    lines.grep(/\n\z/).map { |line| JSON.parse(line) }
  end

  # @return [Hash{String => Array<String>}] how the attempts of each task of the newest run ended, in their order; begun
  #   early and given back they are not among them
  def outcomes
    names = journal.select { |line| line["event"] == "task_defined" }.to_h { |line| line.values_at("task", "name") }
    ended = journal.select { |line| line["event"] == "attempt_ended" && line["outcome"] != "given_back" }
    ended.group_by { |line| names.fetch(line["task"]) }.transform_values { |all| all.map { |line| line["outcome"] } }
      .slice(*ALL)
  end

  def names_of(what, stamps) = stamps.filter_map { |kind, name,| name if kind == what }

  # Of a run that went well: a task began once for each attempt at most, and no more once it had ended well. What was
  # cut off had a core.
  # @param cores [Integer] of the nodes that were lost
  def assert_no_more_than_could(cores)
    outcomes = self.outcomes
    assert_equal ALL.sort, outcomes.keys.sort
    outcomes.each { |name, all| assert_equal %w[done], all - %w[lost], name }
    assert_equal %w[done], outcomes.values.map(&:last).uniq
    begun, ended = names_of("b", stamps).tally, names_of("e", stamps).tally
    assert_equal ALL.sort, begun.keys.sort
    begun.each { |name, times| assert_operator times, :<=, outcomes.fetch(name).size, name }
    assert_equal cores.positive?, outcomes.values.flatten.include?("lost")
    cut = begun.sum { |name, times| times - ended.fetch(name) }
    assert_operator cut, :<=, cores
  end

  # Yields for a run that goes on where one that was struck ended: exactly what that had not recorded as made begins,
  # once.
  def assert_made_by_the_next
    made = outcomes.filter_map { |name, all| name if all.include?("done") }
    refute_empty made
    before = stamps.size
    yield
    assert_made
    after = stamps.drop(before)
    assert_never_more_than(3, after)
    left = (ALL - made).sort
    assert_equal([left, left], %w[b e].map { |what| names_of(what, after).sort })
  end

  def test_a_core_does_not_wait_for_a_trip
    result = run_far
    assert_equal [0, "", ""], [result.status, result.out, result.err]
    assert_made
    assert_never_more_than(3)
    assert_equal TASKS, begun
    # What follows on a core within less than a trip was there before that was free.
    ends, begins = stamps.sort_by(&:last).partition { |what,| what == "e" }.map { |all| all.map(&:last) }
    gaps = begins.drop(3).zip(ends).map { |begun, ended| begun - ended }
    assert_operator gaps.min, :<, TRIP_NS
    started, ended = %w[command_started command_ended].map { |event| journal.select { |line| line["event"] == event } }
    assert_equal [TASKS, TASKS], [started.uniq { |line| line["command"] }.size, ended.size]
    times = started.to_h { |line| [line["command"], line["time_ns"]] }
    assert(ended.all? { |line| line["time_ns"] >= times.fetch(line["command"]) })
  end

  def test_when_the_hub_is_killed_what_was_prepared_never_begins_and_the_next_run_makes_it
    status = while_running { kill_newest_run }
    refute status.success?
    wait_until_nothing_runs("host3")
    assert_made_by_the_next { assert_equal 0, run_far.status }
  end

  def test_when_the_leader_is_killed_the_commands_of_its_group_run_again
    write("hosts.toml", "[[group]]\nname = \"far\"\nleader = \"host3\"\nhosts = [\"host[[3-4]] 3\"]\n")
    status = while_running(hosts: "hosts.toml") do
      @testbed.run!("host3", "pkill", "-KILL", "-x", "rakuda-leader")
      write("go", "")
    end
    assert status.success?, read("log")
    assert_match(/2 of 2 nodes of group far were lost/, read("log"))
    assert_made
    assert_no_more_than_could(6)
  end

  def test_when_the_line_is_cut_for_a_while_nothing_runs_twice
    status = while_running("HEARTBEAT=60") do
      @testbed.run!("head", "sh", "-c", "ip route add unreachable $(getent hosts host3 | cut -d ' ' -f 1)")
      write("go", "")
      sleep 1
      @testbed.run!("head", "sh", "-c", "ip route del unreachable $(getent hosts host3 | cut -d ' ' -f 1)")
    end
    assert status.success?, read("log")
    assert_made
    assert_never_more_than(3)
    assert_equal TASKS, begun
    assert_no_more_than_could(0)
  end
end
