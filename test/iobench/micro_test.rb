# frozen_string_literal: true

require "minitest/autorun"
require "rakuda/bench/micro"
require "rakuda/bench/report"

# The figures of micro-benchmarks from what their workers have printed.
class MicroBenchmarkTest < Minitest::Test
  MICRO = Rakuda::Bench::Micro

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
    step, = MICRO.derived("write-4k" => outputs)
    assert_equal ["write-4k", 2.5, 0.2], step.values_at("name", "time_s", "start_skew")
    assert_in_delta 900 / 2.5, step["bw"]
    assert_equal [200.0, 200.0], step["nodes_bw"]
  end

  def test_of_one_node_there_are_no_figures_by_node
    step, = MICRO.derived("read-4k" => [bytes(0, 0.0, 2.0, 300), bytes(0, 0.0, 1.0, 100)])
    assert_equal({ "name" => "read-4k", "bw" => 200.0, "time_s" => 2.0, "start_skew" => 0.0 }, step)
  end

  def test_operations_are_the_mean_of_all_trials
    trials = { "metadata-0" => [operations(0, 1.0), operations(1, 2.0)],
"metadata-1" => [operations(0, 0.5), operations(1, 2.0)] }
    kind, = MICRO.derived(trials)
    assert_equal ["file_stat", 200.0, 150.0, 250.0, [150.0, 50.0]],
                 kind.values_at("name", "ops_per_s", "min_ops_per_s", "max_ops_per_s", "nodes_ops_per_s")
    assert_equal kind["ops_per_s"], kind["nodes_ops_per_s"].sum
    assert_equal [2, 200.0, nil], kind.values_at("reps", "median_ops_per_s", "ci95")
  end

  # Bytes and times are added up; rates are never averaged.
  def test_repetitions_of_a_step_have_a_median_and_from_six_on_an_interval
    steps = (1..6).to_h { |time| ["write-1m-#{time - 1}", [bytes(0, 0.0, time.to_f, 60)]] }
    step, = MICRO.derived(steps)
    assert_equal ["write-1m", 21.0, 6, 17.5, 10.0, 60.0, [10.0, 60.0]],
                 step.values_at("name", "time_s", "reps", "median_bw", "min_bw", "max_bw", "ci95")
    assert_in_delta 360 / 21.0, step["bw"]
    assert_empty MICRO.too_few(steps)
    assert_equal ["write-1m: 4 repetitions, and only tiny may have fewer than 5"], MICRO.too_few(steps.first(4).to_h)
  end

  # 99 % of 1.7 s with 17 ms (Iwai, Tatebe, Tanaka 2016, 5.4.1).
  def test_workers_run_together_but_for_the_overhead_or_a_longer_lag
    steps = { "write-4k" => [bytes(0, 0.0, 1.7, 1), bytes(0, 0.0, 3.0, 1)] }
    assert_in_delta 0.99, MICRO.together(steps, { "overhead_s" => 0.017, "lag_s" => 0.009 })
    assert_in_delta 0.98, MICRO.together(steps, { "overhead_s" => 0.017, "lag_s" => 0.034 })
    assert_equal 0.0, MICRO.together(steps, { "overhead_s" => 1.8 })
    reasons = MICRO.apart(steps, { "together" => 0.98 })
    assert_equal ["all workers ran together for 98.0 % of the shortest program's time: expected at least 99 %"], reasons
    assert_empty MICRO.apart(steps, { "together" => 0.99 })
    rule = ->(overhead_s) { Rakuda::Bench::Report.rule_line("steps" => steps, "sync" => { "overhead_s" => overhead_s }) }
    assert_equal "the shortest program ran 1.70 s, as it must: all run together for 99 % of 1.60 s and longer", rule[0.016]
    assert_match(/1\.70 s, which is too short: all run together for 99 % of 1\.80 s and longer\z/, rule[0.018])
  end
end
