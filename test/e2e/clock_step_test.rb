# frozen_string_literal: true

require "json"
require "minitest/autorun"
require "support/near_hosts"
require "support/rakefile_run"
require "support/waiting"

# The clock of the machine is set while a run goes on: what is said of how long things take stays true. It is set for
# the run alone, by a library that is preloaded (test/support/stepped_clock.c).
class ClockStepTest < Minitest::Test
  include NearHosts
  include Waiting

  RAKUDACTL = File.expand_path("../../bin/rakudactl", __dir__)
  SOURCE = File.expand_path("../support/stepped_clock.c", __dir__)
  TEN_DAYS_S = 240 * 3600
  # More than any test takes, and much less than the step.
  HOUR_NS = 3_600_000_000_000

  def setup
    @folder = Dir.mktmpdir("rakuda")
    @library = "#{@folder}/stepped_clock.so"
    assert system("gcc", "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-o", @library, SOURCE)
    @environment = { "LD_PRELOAD" => @library, "STEPPED_CLOCK" => "#{@folder}/ahead" }
    File.write("#{@folder}/Rakefile", RAKEFILE)
  end

  def teardown
    FileUtils.rm_rf(@folder)
  end

  # The first task sets the clock by STEP seconds. (A name that is moved is never seen empty.)
  RAKEFILE = <<~'RUBY'
    task(:before) { sh "true" }
    task(step: :before) { sh "echo $STEP > new && mv new $STEPPED_CLOCK" }
    task(ruby: :step) { 100.times.sum }
    task(after: :ruby) { sh "true" }
    task held: :step do
      sh "echo begun > begun; until test -e go; do sleep 0.05; done"
    end
    task default: :after
    # So does a worker of the second of these rounds.
    sync(:rounds, workers: 2, rounds: 3, overhead: false) do |w|
      sh w.round == 1 && w.id.zero? ? "echo $STEP > new && mv new $STEPPED_CLOCK" : "true"
    end
  RUBY

  def rakuda(*words, step: TEN_DAYS_S)
    command = ["timeout", "-s", "KILL", RakefileRun::LIMIT, RakefileRun::RAKUDA, *words]
    out, err, status = Open3.capture3(@environment.merge("STEP" => step.to_s), *command, chdir: @folder)
    RakefileRun::Result.new(out, err, status.exitstatus, @folder)
  end

  # As somebody who asks later: by the clock of the machine as it is then.
  def ctl(*words, folder: @folder)
    command = ["timeout", "-s", "KILL", RakefileRun::LIMIT, RAKUDACTL, *words]
    out, err, status = Open3.capture3(@environment, *command, chdir: folder)
    assert_predicate status, :success?, err
    out
  end

  def journal
    File.readlines(Dir["#{@folder}/.rakuda/runs/*/journal.jsonl"].max).map { |line| JSON.parse(line) }
  end

  def assert_true_times(step)
    events = journal
    times = events.filter_map { |event| event["time_ns"] }
    assert_equal times.sort, times
    assert_operator times.last - times.first, :<, HOUR_NS
    assert_equal [step], steps_of(events)
    events
  end

  # @return [Array<Integer>] how far the clock was ahead each time that it was seen to have been set, seconds
  def steps_of(events)
    noted = events.select { |event| event["event"] == "clock_stepped" }
    noted.map { |event| ((event["wall_ns"] - event["time_ns"]) / 1e9).round }
  end

  def assert_true_report
    report = JSON.parse(ctl("report", "--json"))
    assert_operator report["makespan_s"], :<, 3600
    assert_operator report["utilisation"] || 1, :>, 0
  end

  def test_a_clock_that_is_set_forward_or_back_changes_no_figure_and_ends_no_run
    [TEN_DAYS_S, -TEN_DAYS_S].each do |step|
      File.write("#{@folder}/ahead", "0")
      result = rakuda("-j2", "--walltime", "1h", step: step)
      assert_equal 0, result.status, result.err
      held = assert_true_times(step).filter_map { |event| event["held_ns"] }
      assert_equal 4, held.size
      assert(held.all? { |pairs| pairs.sum.between?(1, HOUR_NS) }, held.inspect)
      assert_true_report
    end
    refute_match(/ (?:h|d) /, ctl("runs").lines.drop(1).join)
  end

  def test_a_clock_that_is_set_during_a_round_changes_nothing_of_it_or_of_those_after_it
    [TEN_DAYS_S, -TEN_DAYS_S].each do |step|
      File.write("#{@folder}/ahead", "0")
      result = rakuda("-j2", "rounds", step: step)
      assert_equal 0, result.status, result.err
      assert_equal [step], steps_of(journal)
      assert_includes result.err, "the clock of this machine was set #{step.positive? ? "forward" : "back"} by 10 d."
      assert_rounds_as_ever(journal.select { |event| event["event"] == "round_ended" })
      assert_equal 0, JSON.parse(ctl("report", "--json"))["sync"]["rounds_clock_jumped"]
    end
  end

  def test_a_clock_elsewhere_that_is_set_during_a_round_is_told_and_changes_nothing_of_it
    near_hosts do |run|
      ahead = "#{run.base}/ahead"
      preloads = "test $host = host2 && export LD_PRELOAD=#{@library} STEPPED_CLOCK=#{ahead}"
      File.write("#{run.base}/bin/ssh", NearHosts::SSH.sub("mkdir -p", "#{preloads}\nmkdir -p"))
      result = run.rakuda(<<~RUBY, "rounds")
        sync(:rounds, workers: 2, rounds: 2, overhead: false) do |w|
          sh w.round == 1 && w.id == 1 ? "echo -#{TEN_DAYS_S} > #{ahead}.new && mv #{ahead}.new #{ahead}" : "true"
        end
      RUBY
      assert_equal 0, result.status, result.err
      assert_includes result.err, "the clock of node host2 was set back by 10 d."
      rounds = JSON.parse(ctl("report", "--json", folder: run.path(".")))["sync"]["rounds"]
      clocks = rounds.flat_map { |round| round["clocks"] }
      told = clocks.map { |clock| [clock["node"], clock["wall_set_s"].round, clock["contradictions"]] }
      assert_equal [["host1", 0, 0], ["host2", 0, 0], ["host1", 0, 0], ["host2", -TEN_DAYS_S, 0]], told
      assert(rounds.all? { |round| round["lag_s"].between?(0, 3600) && round["fault"].nil? })
    end
  end

  # Each ends before the next begins, and nothing was there to be said of clocks.
  def assert_rounds_as_ever(rounds)
    rounds.each do |round|
      assert_equal [0, nil, nil], round.values_at("failed", "fault", "clocks")
      assert_equal round["starts_ns"].max, round["lag_ns"]
      assert(round.values_at("margin_ns", "begun_after_ns", "span_ns").all? { |ns| ns.between?(0, HOUR_NS) }, round.inspect)
    end
    assert_equal 3, rounds.size
    ends = rounds.map { |round| round["t0_ns"] + round["begun_after_ns"] + round["span_ns"] }
    assert(ends.zip(rounds.drop(1)).all? { |ended, round| round.nil? || ended < round["t0_ns"] })
    assert_operator ends.last - rounds[0]["t0_ns"], :<, HOUR_NS
  end

  def test_what_is_said_of_a_live_run_is_true_after_a_step
    File.write("#{@folder}/ahead", "0")
    environment = @environment.merge("STEP" => TEN_DAYS_S.to_s)
    pid = Process.spawn(environment, RakefileRun::RAKUDA, "-q", "--walltime", "1h", "held", chdir: @folder)
    wait_for("the task to begin") { File.exist?("#{@folder}/begun") }
    task = JSON.parse(ctl("status", "--json"))["runs"].first["tasks"].first
    assert_operator task["elapsed_s"], :<, 3600
    # Set again, while nothing else happens that the hub would notice it by.
    File.write("#{@folder}/new", (3 * TEN_DAYS_S).to_s)
    File.rename("#{@folder}/new", "#{@folder}/ahead")
    assert_true_report
    File.write("#{@folder}/go", "")
    _, status = Process.wait2(pid)
    assert_predicate status, :success?
  end
end
