# frozen_string_literal: true

require "minitest/autorun"
require "rakuda/bench/options"
require "rakuda/bench/scaling"

# Which runs a sweep has, and what its results say together.
class BenchScalingTest < Minitest::Test
  Scaling = Rakuda::Bench::Scaling

  def result(nodes, ranks, rate, **other)
    { "schema" => "rakuda-bench/1", "benchmark" => "argot-io", "size" => "tiny", "valid" => true, "hosts" => [{}] * nodes,
      "instance" => { "ranks" => ranks, "params" => { "mesh" => [32, 32, 32], "grid" => [ranks, 1, 1] } },
      "conditions" => { "cache" => "any", "durable" => false, "direct" => false, "compute_s" => 0 },
      "derived" => [{ "name" => "write", "bw_last_done" => rate, "min_bw" => rate / 2, "max_bw" => rate * 2 }] }.merge(other)
  end

  def test_points_are_ranks_in_all_or_on_each_node
    assert_equal [[1, 2], [1, 4], [2, 2], [2, 4], [4, 4]], Scaling.points([1, 2, 4], [2, 4], nil).map(&:to_a)
    assert_equal [[1, 4], [2, 8]], Scaling.points([1, 2], [2], 4).map(&:to_a)
    assert_empty Scaling.points([4], [2], nil)
  end

  def test_ranks_on_one_node_and_nodes_with_as_many_ranks_are_sweeps_of_their_own
    results = [result(4, 4, 400), result(1, 1, 100), result(1, 4, 150), result(2, 2, 200), result(1, 1, 101)]
    sweeps = Scaling.groups(results)
    assert_equal [:ranks, :nodes], sweeps.map(&:over)
    places = sweeps.map { |sweep| sweep.results.map { |one| Scaling.place(one) } }
    assert_equal [[[1, 1], [1, 4]], [[1, 1], [2, 2], [4, 4]]], places
    assert_equal [1.0, 2.0, 4.0], Scaling.table(sweeps.last).fetch("write").map(&:last)
    lines = Scaling.lines(sweeps.last)
    assert_match(%r{^ +4 +4 +400 B/s +\[200 B - 800 B\] +4\.00$}, lines[3])
    assert_match(%r{paper, figure 1: .*6\.0 GB/s with 128 processes; sizes here are scaled$}, lines.last)
  end

  def test_what_was_measured_otherwise_or_is_not_valid_is_no_part_of_a_sweep
    other = { "conditions" => { "cache" => "cold", "durable" => false, "direct" => false } }
    assert_empty Scaling.groups([result(1, 1, 1), result(2, 2, 2, **other), result(4, 4, 3, "valid" => false)])
  end

  def test_a_plot_has_every_point_and_no_value_that_no_viewer_can_draw
    zero = result(2, 2, 0)
    svg = Scaling.plots(Scaling.groups([result(1, 1, 100), zero]).first).fetch("argot-io-write-over-nodes")
    assert_equal 2, svg.scan("<circle").size
    refute_match(/NaN|Infinity/, svg)
  end

  def test_numbers_that_are_none_are_refused
    [%w[--nodes 1,x], %w[--np 0], %w[--per-node -1]].each do |words|
      error = assert_raises(Rakuda::Bench::UsageError) { Rakuda::Bench::Options.new(words) }
      assert_match(/expected/, error.message)
    end
  end
end
