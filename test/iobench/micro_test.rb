# frozen_string_literal: true

require "minitest/autorun"
require "rakuda/bench/micro"
require "rakuda/bench/micro_rounds"
require "rakuda/bench/prediction"
require "rakuda/bench/report"

# The figures of micro-benchmarks from what their workers have printed.
class MicroBenchmarkTest < Minitest::Test
  MICRO = Rakuda::Bench::Micro
  FIGURES = Rakuda::Bench::MicroFigures

  def bytes(node, start_s, end_s, bytes)
    { "node" => node, "start_ns" => (start_s * 1e9).to_i, "end_ns" => (end_s * 1e9).to_i, "bytes" => bytes, "calls" => 1 }
  end

  def operations(node, seconds)
    { "node" => node, "start_ns" => 0, "end_ns" => (seconds * 1e9).to_i, "operations" => 100,
      "ns" => { "file_stat" => (seconds * 1e9).to_i } }
  end

  # The clock of the second node is an hour ahead.
  def test_times_of_different_nodes_are_not_compared
    outputs = [bytes(0, 0.0, 2.0, 300), bytes(0, 0.5, 2.5, 200), bytes(1, 3600.0, 3602.0, 400)]
    step, = FIGURES.derived("write-4k" => outputs)
    assert_equal ["write-4k", 2.5, 0.2], step.values_at("name", "time_s", "start_skew")
    assert_in_delta 900 / 2.5, step["bw"]
    assert_equal [200.0, 200.0], step["nodes_bw"]
  end

  def test_of_one_node_there_are_no_figures_by_node
    step, = FIGURES.derived("read-4k" => [bytes(0, 0.0, 2.0, 300), bytes(0, 0.0, 1.0, 100)])
    assert_equal({ "name" => "read-4k", "bw" => 200.0, "time_s" => 2.0, "start_skew" => 0.0 }, step)
  end

  def test_operations_are_the_mean_of_all_trials
    trials = { "metadata-0" => [operations(0, 1.0), operations(1, 2.0)],
"metadata-1" => [operations(0, 0.5), operations(1, 2.0)] }
    kind, = FIGURES.derived(trials)
    assert_equal ["file_stat", 200.0, 150.0, 250.0, [150.0, 50.0]],
                 kind.values_at("name", "ops_per_s", "min_ops_per_s", "max_ops_per_s", "nodes_ops_per_s")
    assert_equal kind["ops_per_s"], kind["nodes_ops_per_s"].sum
    assert_equal [2, 200.0, nil], kind.values_at("reps", "median_ops_per_s", "ci95")
  end

  # Bytes and times are added up; rates are never averaged.
  def test_repetitions_of_a_step_have_a_median_and_from_six_on_an_interval
    steps = (1..6).to_h { |time| ["write-1m-#{time - 1}", [bytes(0, 0.0, time.to_f, 60)]] }
    step, = FIGURES.derived(steps)
    assert_equal ["write-1m", 21.0, 6, 17.5, 10.0, 60.0, [10.0, 60.0]],
                 step.values_at("name", "time_s", "reps", "median_bw", "min_bw", "max_bw", "ci95")
    assert_in_delta 360 / 21.0, step["bw"]
    assert_empty MICRO.too_few(steps)
    assert_equal ["write-1m: 4 repetitions, and only tiny may have fewer than 5"], MICRO.too_few(steps.first(4).to_h)
  end

  # A repetition of 1 s whose second worker began that much later.
  def apart(second) = [bytes(0, 0.0, 1.0, 60), bytes(0, second, 1.0, 60)]

  def test_a_repetition_whose_workers_began_apart_counts_in_no_figure_while_five_others_are_left
    steps = (0..5).to_h { |number| ["read-1m-#{number}", apart(number == 2 ? 0.024 : 0.004)] }
    step, = FIGURES.derived(steps)
    assert_equal [5, 5.0], step.values_at("reps", "time_s")
    assert_in_delta 0.004, step["start_skew"]
    assert_equal [120.0] * 5, FIGURES.repetitions(steps)["read-1m"]
    assert_empty MICRO.apart(steps, { "together" => 1.0 })
    assert_equal ["read-1m-2 counts in no figure: its workers began 2.4 % of its time apart"],
                 MICRO.notes("machine" => {}, "steps" => steps)
    settings = { "blocks" => %w[1m] }
    assert_equal [10, 0], FIGURES.rated("settings" => settings, "steps" => steps).values_at("read-1m", "write-1m").map(&:size)
  end

  def test_too_many_repetitions_whose_workers_began_apart_all_count_and_make_a_result_invalid
    steps = (0..5).to_h { |number| ["read-1m-#{number}", apart(number < 2 ? 0.024 : 0.004)] }
    step, = FIGURES.derived(steps)
    assert_equal 6, step["reps"]
    assert_in_delta 0.024, step["start_skew"]
    assert_equal ["workers began up to 2.4 % of the time apart: expected at most 1 %"], MICRO.apart(steps, { "together" => 1.0 })
    assert_empty MICRO.notes("machine" => {}, "steps" => steps)
  end

  # 99 % of 1.7 s with 17 ms (Iwai, Tatebe, Tanaka 2016, 5.4.1).
  def test_workers_run_together_but_for_the_overhead_or_a_longer_lag
    steps = { "write-4k" => [bytes(0, 0.0, 1.7, 1), bytes(0, 0.0, 3.0, 1)] }
    assert_in_delta 0.99, FIGURES.together(steps, { "overhead_s" => 0.017, "lag_s" => 0.009 })
    assert_in_delta 0.98, FIGURES.together(steps, { "overhead_s" => 0.017, "lag_s" => 0.034 })
    assert_equal 0.0, FIGURES.together(steps, { "overhead_s" => 1.8 })
    reasons = MICRO.apart(steps, { "together" => 0.98 })
    assert_equal ["all workers ran together for 98.0 % of the shortest program's time: expected at least 99 %"], reasons
    assert_empty MICRO.apart(steps, { "together" => 0.99 })
    rule = ->(overhead_s) { Rakuda::Bench::Report.rule_line("steps" => steps, "sync" => { "overhead_s" => overhead_s }) }
    assert_equal "the shortest program ran 1.70 s, as it must: all run together for 99 % of 1.60 s and longer", rule[0.016]
    assert_match(/1\.70 s, which is too short: all run together for 99 % of 1\.80 s and longer\z/, rule[0.018])
  end

  ROUNDS = Rakuda::Bench::MicroRounds

  def round_ended(parameter, starts, ends, kind: "counted", **more)
    { "event" => "round_ended", "sync" => "x-rounds", "parameter" => parameter, "kind" => kind, "failed" => 0, "late" => 0,
      "clock_bound_ns" => 0, "starts_ns" => starts, "ends_ns" => ends }.merge(more.transform_keys(&:to_s))
  end

  def events
    [round_ended(nil, [0, 1], [3_000_000, 2_000_000], kind: "null"), round_ended(nil, [5, 0], [1, 5_000_000], kind: "null"),
     round_ended(nil, [0, 0], [0, 90_000_000], kind: "null", failed: 1), round_ended("a-0", [0, 1], [1, 1], kind: "warm_up"),
     round_ended("a-0", [0, 40_000], [2_000_000, 2_040_000]),
     round_ended("a-1", [9_000, 0], [2_009_000, 2_000_000], late: 1, clock_bound_ns: 300),
     round_ended("a-2", [0, nil], [2_000_000, nil]),
     round_ended("check-a-0", [0, 9_000_000], [1, 1]), round_ended("clean", [0, 9_000_000], [1, 1]),
     round_ended("a-0", [0, 9_000_000], [1, 1], sync: "other-rounds")]
  end

  def test_lag_and_overhead_follow_from_the_times_of_the_rounds_of_a_benchmark
    raw = ROUNDS.raw("x-rounds", events)
    assert_equal [%w[a-0 a-1 a-2], 2], [raw["by_round"].map { |one| one["step"] }, raw["null_rounds"].size]
    expected = { "overhead_s" => 0.004, "lag_s" => 40e-6, "clock_bound_s" => 300e-9, "rounds" => 3, "rounds_late" => 1 }
    assert_equal expected, ROUNDS.figures(raw)
    assert_equal({ "clock_bound_s" => 0.0, "rounds" => 0, "rounds_late" => 0 }, ROUNDS.figures(ROUNDS.raw("none", events)))
  end

  def test_rounds_must_fit_the_steps_and_programs_their_commands
    outputs = ->(ms) { Array.new(2) { { "start_ns" => 7, "end_ns" => 7 + (ms * 1_000_000).to_i } } }
    steps = %w[a-0 a-1 a-2].to_h { |name| [name, outputs[2.0]] }
    raw = ROUNDS.raw("x-rounds", events)
    faults = ->(some, name = "bandwidth") { ROUNDS.faults("benchmark" => name, "sync" => raw, "steps" => some) }
    assert_empty faults[steps]
    assert_equal ["sync/by_round is of b-0"], faults[steps.merge("b-0" => outputs[1.0])]
    assert_equal ["sync/by_round is of a-2"], faults[steps.except("a-2")]
    assert_equal ["sync/by_round/a-1: 2 workers of 1"], faults[steps.merge("a-1" => outputs[2.0].take(1))]
    assert_equal ["sync/by_round/a-0: worker 0 ran longer than its command"], faults[steps.merge("a-0" => outputs[2.5])]
    assert_empty faults[steps.merge("a-0" => outputs[2.5]), "fio"], "which says ms"
  end

  # A result of bandwidth with one block: two workers, each step as long as is said.
  def result(read_s: 1.0, **more)
    steps = { "write-1m-0" => 1.0, "read-1m-0" => read_s, "reread-1m-0" => 2.0 }.transform_values do |time|
      [0, 1].map { |worker| bytes(0, worker * 0.0001, time, 100 << 20) }
    end
    cache = { "read-1m-0" => { "bytes" => 2, "resident_bytes" => 0 }, "reread-1m-0" => { "bytes" => 2, "resident_bytes" => 2 } }
    { "benchmark" => "bandwidth", "family" => "micro", "size" => "tiny", "workers" => 2, "valid" => true, "reasons" => [],
      "settings" => { "bytes" => 100 << 20, "blocks" => %w[1m], "trials" => 1 }, "steps" => steps, "cache" => cache,
      "conditions" => { "cache" => "cold", "durable" => true, "direct" => false },
      "machine" => { "fs" => { "type" => "ext4" } } }.merge(more)
  end

  def rates_line(result) = Rakuda::Bench::Report.rates_line(result).join

  def test_rates_are_taken_from_steps_that_are_long_enough_alone
    assert_match(/--rates 100,50,100,50,100\z/, rates_line(result))
    assert_match(/\Ano rates .*a worker's read-1m took 99\.0 ms: expected at least 100\.0 ms/, rates_line(result(read_s: 0.0991)))
  end

  def test_no_rates_are_taken_from_a_result_that_is_not_valid_or_not_known_to_be_of_a_disk
    assert_match(/\Ano rates .*not valid: late/, rates_line(result("valid" => false, "reasons" => ["late"])))
    from_memory = result.merge("cache" => result["cache"].merge("read-1m-0" => { "bytes" => 2, "resident_bytes" => 2 }))
    assert_match(/\Ano rates .*read-1m: 100\.0 % of its files were in the page cache, not cold/, rates_line(from_memory))
    any = result.merge("conditions" => { "cache" => "any" })
    assert_match(/\Ano rates .*may have come from memory \(--cache any\)/, rates_line(any))
    [from_memory, any, result(read_s: 0.01)].each do |bad|
      error = assert_raises(Rakuda::Bench::UsageError) { Rakuda::Bench::Prediction.rows(bad, {}, nil, []) }
      assert_match(/no rates from this result/, error.message)
    end
  end

  # Where the bytes were is looked at; what is not known is not taken for cold. Reading again must find all in memory.
  def test_reading_from_disk_is_proven_unless_that_is_not_asked_for
    of = lambda do |read, reread, cache = "cold"|
      told = { "read-1m-0" => read, "reread-1m-0" => reread }.compact
      told = told.transform_values { |one| { "bytes" => 200, "resident_bytes" => one } }
      Rakuda::Bench::MicroCache.faults(result("cache" => told, "conditions" => { "cache" => cache }))
    end
    assert_empty of[2, 198]
    assert_match(/read-1m: 1\.5 % .* not cold/, of[3, 200].join)
    assert_match(/reread-1m: 98\.5 % .* not warm/, of[0, 197].join)
    assert_match(/read-1m: it is not known/, of[nil, 200].join)
    assert_empty of[200, 200, "any"]
    assert_empty of[200, nil, "any"]
    assert_empty Rakuda::Bench::MicroCache.faults(result.except("cache")) # results from before
  end

  # tiny is for looking, and says it; of the other sizes it is no figure of a disk.
  def test_what_is_not_proven_is_a_note_of_tiny_and_a_reason_otherwise
    warm = result("cache" => { "read-1m-0" => { "bytes" => 2, "resident_bytes" => 2 } }, "sync" => { "together" => 1.0 })
    reasons, notes = MICRO.judge(warm)
    assert_equal [0, 2], [reasons.size, notes.size]
    reasons, notes = MICRO.judge(warm.merge("size" => "small"))
    assert_match(/read-1m: 100\.0 % .* not cold/, reasons.join)
    assert_empty notes
  end

  def test_what_was_read_must_have_been_compared
    good = result("verification" => { "checked_bytes" => 200 << 20 })
    assert_empty MICRO.unchecked(good)
    assert_match(/of \d+ bytes 7 were checked/, MICRO.unchecked(good.merge("verification" => { "checked_bytes" => 7 })).join)
  end

  def test_file_systems_that_are_in_memory_or_tell_nothing_are_named
    notes = ->(type) { MICRO.notes(result("machine" => { "fs" => { "type" => type } })).join }
    assert_empty notes["ext4"]
    assert_match(/in memory \(tmpfs\)/, notes["tmpfs"])
    assert_match(/overlay/, notes["overlay"])
  end

  # Until the first worker ended: all of it, and what the other had marked by then.
  def test_bandwidth_until_the_first_worker_ended_is_known_by_marks
    one = bytes(0, 0.0, 1.0, 80).merge("marks" => [1_000_000_000, 80])
    other = bytes(0, 0.0, 2.0, 80).merge("marks" => [500_000_000, 20, 1_500_000_000, 40, 2_000_000_000, 80])
    step, = FIGURES.derived("read-4k-0" => [one, other])
    assert_in_delta 100.0, step["bw_first_done"]
    refute FIGURES.derived("read-4k-0" => [one, other.except("marks")]).first.key?("bw_first_done")
  end

  # Gates are passed at one instant; what programs do behind them need not begin at one.
  def test_each_step_says_how_far_apart_its_workers_began
    figure = { "name" => "r", "bw" => 1, "time_s" => 1, "start_skew" => 0.981 }
    line = ->(workers) { Rakuda::Bench::Report.micro_line(figure, workers) }
    assert_match(/; workers began up to 98\.1 % of the time apart\z/, line[2])
    refute_match(/apart/, line[1])
  end
end
