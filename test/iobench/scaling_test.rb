# frozen_string_literal: true

require "minitest/autorun"
require "rakuda/bench/measured"
require "rakuda/bench/options"
require "rakuda/bench/scaling"
require "rakuda/bench/suites"

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
    assert_match(%r{^ +4 +4 +400 B/s +\[200 B/s - 800 B/s\] +4\.00$}, lines[3])
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

  # Both axes are logarithmic: a line at 45 degrees of the paper's kind.
  def test_a_plot_shows_what_would_be_proportional
    svg = Scaling.plots(Scaling.groups([result(1, 1, 100), result(2, 2, 200)]).first).fetch("argot-io-write-over-nodes")
    measured, proportional = svg.scan(/<polyline points="([^"]+)"/).flatten
    assert_equal measured, proportional
    assert_includes svg, "stroke-dasharray"
  end

  # The meshes and ranks of the paper are those of the size large; nothing says then that they are scaled.
  def test_the_paper_s_figures_have_its_own_sizes_when_they_are_large
    words = ->(size) { Scaling::PAPER.map { |figure| [figure.words_of(size).last, figure.ranks_of(size).last] } }
    assert_equal [["256x256x256", 4], ["256x256x512", 256], ["256x256x512", 4], ["12x24x24x32", 16]], words["large"]
    assert_equal [["64x64x64", 4], ["64x64x128", 8], ["64x64x128", 4], ["12x12x12x8", 16]], words["small"]
    sweep = ->(size) { Scaling.groups([result(1, 1, 100, "size" => size), result(2, 2, 200, "size" => size)]).first }
    refute_match(/scaled/, Scaling.lines(sweep["large"]).join)
    assert_match(/sizes here are scaled/, Scaling.lines(sweep["small"]).join)
  end

  def test_options_that_the_figures_of_the_paper_say_themselves_are_refused
    [%w[--np 4], %w[--per-node 2], %w[--workers 3], %w[-j 2], %w[--seconds 3]].each do |words|
      options = Rakuda::Bench::Options.new(words)
      error = assert_raises(Rakuda::Bench::UsageError) { Rakuda::Bench::Suites.run("paper", options, 2, nil) }
      assert_match(/means nothing to `suite paper`/, error.message)
    end
  end

  # Of each way to nodes: what `rakuda` is told. One node of others gives a task one slot, whatever its ranks.
  def test_in_slurm_the_allocation_is_as_large_as_the_largest_point
    { %w[--cluster slurm] => [%w[--cluster slurm --nodes 4], "ncore=1"], %w[-F /hosts] => [%w[-F /hosts], "ncore=1"],
      [] => [["-j", [4, Etc.nprocessors].max.to_s], "ncore=2"] }.each do |words, (told, cores)|
      options = Rakuda::Bench::Options.new([*words, "--nodes", "1,4,2", "--np", "2,4"])
      parts = Rakuda::Bench::Measured.parts(Rakuda::Bench::Catalogue.find("argot-io"), "tiny", [], options)
      measured = Rakuda::Bench::Measured.new(options, nil)
      rakefile = measured.rakefile(parts, "/work")
      assert_includes rakefile, "desc \"#{cores}\""
      # Elsewhere an mpirun without hosts stays where it is.
      assert_equal words.include?("slurm"), rakefile.include?('"mpirun", "--host", "localhost:4", "-n", "4"')
      assert_equal told, measured.places(parts)
      # Folders of this machine are none of other nodes.
      assert_equal words.empty?, rakefile.include?("OMPI_MCA_orte_tmpdir_base")
      RubyVM::InstructionSequence.compile(rakefile)
    end
  end

  def test_workers_of_micro_benchmarks_take_the_nodes_of_an_allocation
    options = Rakuda::Bench::Options.new(%w[--cluster slurm --nodes 3 --workers 6])
    options.check(["run of a micro-benchmark"])
    parts = Rakuda::Bench::Measured.parts(Rakuda::Bench::Catalogue.find("metadata"), "tiny", [], options)
    assert_equal %w[--cluster slurm --nodes 3], Rakuda::Bench::Measured.new(options, nil).places(parts)
    { %w[--nodes 2] => /give --cluster, too/, %w[-F hosts --nodes 2] => /give --cluster, too/,
      %w[--cluster slurm --nodes 1,2] => /expected one number/ }.each do |words, message|
      given = Rakuda::Bench::Options.new(words)
      error = assert_raises(Rakuda::Bench::UsageError) { given.check(["run of a micro-benchmark"]) }
      assert_match(message, error.message)
    end
  end

  def test_one_way_to_nodes_is_taken
    options = Rakuda::Bench::Options.new(%w[-F hosts --cluster slurm])
    error = assert_raises(Rakuda::Bench::UsageError) { options.check(["run of a kernel"]) }
    assert_equal "-F and --cluster: expected one of them", error.message
    options = Rakuda::Bench::Options.new(%w[--cluster slurm --nodes 1,2])
    error = assert_raises(Rakuda::Bench::UsageError) { Rakuda::Bench::Suites.run("ci", options, 2, nil) }
    assert_equal "--nodes of the suite ci: expected one number, the size of its allocations", error.message
  end

  def test_numbers_that_are_none_are_refused
    [%w[--nodes 1,x], %w[--np 0], %w[--per-node -1]].each do |words|
      error = assert_raises(Rakuda::Bench::UsageError) { Rakuda::Bench::Options.new(words) }
      assert_match(/expected/, error.message)
    end
  end
end
