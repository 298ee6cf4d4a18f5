# frozen_string_literal: true

require "minitest/autorun"
require "tmpdir"
require "rakuda/bench/micro_figures"
require "rakuda/bench/page"
require_relative "../support/bench_tables"
require_relative "../support/browser"

# The page of results: its list, its tables, and the pictures beside it.
class BenchPageTest < Minitest::Test
  include BenchTables

  Bench = Rakuda::Bench
  RATES = { "read-4k" => 7_000_000, "write-4k" => 3_400_000 }.freeze
  SIGNATURE = "\x89PNG\r\n\x1A\n".b

  def setup = @folder = Dir.mktmpdir

  def teardown = FileUtils.rm_rf(@folder)

  # Two workers; six repetitions, each a little slower than the one before.
  def micro(nodes: 1, **more)
    steps = RATES.flat_map do |name, bytes|
      Array.new(6) { |i| ["#{name}-#{i}", [0, 1].map { |worker| moved(worker, worker % nodes, bytes, i) }] }
    end
    { "schema" => "rakuda-bench-micro/1", "benchmark" => "fio", "family" => "micro", "size" => "tiny", "workers" => 2,
      "valid" => true, "reasons" => [], "machine" => {}, "steps" => steps.to_h, "settings" => { "blocks" => %w[4k] },
      "derived" => Bench::MicroFigures.derived(steps.to_h),
      "sync" => { "lag_s" => 0.0023, "overhead_s" => 0.011, "together" => 0.98, "rounds" => 12, "rounds_late" => 1 } }.merge(more)
  end

  def moved(worker, node, bytes, repetition)
    { "node" => node, "bytes" => bytes, "start_ns" => 377_700_000 * worker,
      "end_ns" => 1_000_000_000 + (repetition * 100_000_000) }
  end

  def workflow(engine, makespans, **more)
    rounds = makespans.map.with_index { |time, round| { "round" => round, "order" => 0, "makespan_s" => time } }
    { "schema" => "rakuda-bench-workflow/1", "benchmark" => "w", "family" => "workflow", "size" => "tiny", "comparison" => "c",
      "instance" => { "hash" => "h", "tasks" => 16 }, "engine" => { "name" => engine, "style" => "flat", "slots" => 2 },
      "machine" => {}, "rounds" => rounds, "valid" => true, "reasons" => [], "notes" => ["buffered"],
      "derived" => { "makespan_s" => Bench::Figures.summary(makespans), "busy_s" => 1.25, "overhead_per_task_s" => 0.0123,
                     "startup_s" => 0.0000456, "tail_s" => 0.789 } }.merge(more)
  end

  # @return [Array<String>] what was said
  def page
    said = []
    Bench::Report.stub(:rates_line, []) { Bench::Page.write([micro], @folder, said.method(:push)) }
    said
  end

  # @param plots [Array<Hash>] results of fio that are drawn
  def html(*results, plots: [])
    Bench::Report.stub(:rates_line, ["rates"]) { Bench::Page.html(results, { "fio" => Bench::Plots.of(plots) }) }
  end

  def test_figures_of_tables_are_those_of_the_text_and_of_the_result
    round = { "round" => 0, "makespan_s" => 2.0, "nodes" => 2, "hosts" => [0, 1, 1, 1] }
    over_hosts = { "hosts" => [{ "slots" => 1 }, { "slots" => 1 }], "rounds" => [round, { "fault" => "x" }] }
    [micro, micro(nodes: 2), workflow("make", [1.0, 1.1, 1.3, 1.2, 1.9, 1.4]), workflow("rakuda", [2.0], **over_hosts)]
      .each { |result| Bench::Report.stub(:rates_line, []) { assert_tables_tell(result) } }
  end

  def test_values_of_a_row_have_one_unit_in_which_none_loses_its_digits
    row = Bench::Tables.row("x", Bench::Figures::BYTES, { "median" => 2.5e9, "at 95 %" => [4.2e6, 3e9], "min" => 0 }, 6)
    assert_equal({ "figure" => "x", "median" => "2500.00", "at 95 %" => "4.20 – 3000.00", "min" => "0.00", "unit" => "MB",
                   "n" => "6" }, row)
  end

  def test_a_list_at_the_top_has_each_result_with_its_first_figure_or_why_it_has_none
    failed = { "schema" => "rakuda-bench-failure/1", "benchmark" => "les-io", "size" => "tiny", "valid" => false,
               "reasons" => ["a rank <died>", "late"] }
    page = html(micro, failed, workflow("make", [1.0]))
    list = REXML::Document.new(page[%r{<table class="contents">.*?</table>}m])
    lines = REXML::XPath.match(list, "//tr").map { |row| row.elements.map { |cell| REXML::XPath.match(cell, ".//text()").join } }
    assert_equal [["fio, tiny", "read-4k 11.20 MB/s", "valid"],
                  ["les-io, tiny", "", "not valid: a rank &lt;died&gt;; and 1 more"],
                  ["w, tiny, make", "makespan 1.00 s", "valid"]], lines
    links = REXML::XPath.match(list, "//a").map { |link| link.attributes["href"].delete("#") }
    assert_equal links, page.scan(/<article id="(.*?)">/).flatten
    assert_includes page, "<li>not valid: a rank &lt;died&gt;</li><li>not valid: late</li>"
  end

  # Within a round: 1, 3 and 2 times as long.
  def test_engines_of_a_comparison_have_a_row_each_with_their_ratio_to_rakuda
    make, rakuda = workflow("make", [1.0, 3.0, 4.0]), workflow("rakuda", [1.0, 1.0, 2.0])
    engines, = tables(html(make, rakuda))
    assert_equal(%w[make rakuda], engines.map { |row| row["engine"] })
    assert_equal(%w[2.00 1.00 3.00], engines.first.values_at("multiple", "least", "greatest"))
    assert_equal(%w[1.00 1.00 1.00], engines.last.values_at("multiple", "least", "greatest"))
    assert_match(/^ +make +2\.00 \[1\.00 - 3\.00\]$/, Bench::Report.ratios([make, rakuda]).join("\n"))
    assert_equal ["3.00", "1.00", "4.00", "s", "3", "12.3 ms"],
                 engines.first.values_at("median", "min", "max", "unit", "n", "overhead of a task")
    apart = html(make, workflow("rakuda", [1.0], "comparison" => "d"))
    assert_includes apart, "results of 2 comparisons, whose rounds are not set beside each other"
    assert_equal 2, tables(apart).size
  end

  # One phase, in which the second rank began a third of a millisecond late.
  def kernel(ranks, rate, **host)
    phase = { "name" => "write", "bw_last_done" => rate, "start_skew_ns_max" => 333_000,
              "steps" => [{ "start_ns" => [0, 333_000] }],
              "ranks" => [{ "open_ns" => 1, "xfer_ns" => 9, "flush_ns" => 0, "close_ns" => 1 }] }
    { "schema" => "rakuda-bench/1", "benchmark" => "argot-io", "size" => "tiny", "valid" => true, "reasons" => [],
      "hosts" => [host], "instance" => { "ranks" => ranks, "params" => { "mesh" => [32, 32, 32] } }, "conditions" => {},
      "engine" => { "name" => "mpirun" }, "phases" => [phase],
      "derived" => [{ "name" => "write", "bw_last_done" => rate, "bw_first_done" => rate / 3, "median_bw" => rate * 0.99,
                      "min_bw" => rate * 0.5, "max_bw" => rate * 2, "reps" => 2, "bytes" => 10_000_000, "time_s" => 0.12,
                      "ops_per_s" => 12_345.6 }] }
  end

  def test_points_of_a_sweep_are_rows
    results = [kernel(1, 4e8), kernel(4, 1.2e9)]
    [*results, kernel(2, 7e8, "clock_bound_ns" => 44_000)].each { |result| assert_tables_tell(result) }
    sweep, = tables(html(*results))
    assert_equal([%w[1 400.00 200.00 800.00 MB/s 1.00], %w[4 1200.00 600.00 2400.00 MB/s 3.00]],
                 sweep.map { |row| row.values_at("ranks", "bandwidth", "min", "max", "unit", "times the first") })
  end

  # Two sweeps of one kernel.
  def test_plots_of_two_sweeps_have_names_of_their_own
    results = [kernel(1, 4e8), kernel(4, 1.2e9)].flat_map { |one| [one, one.merge("size" => "small")] }
    assert_equal %w[argot-io-write-over-ranks argot-io-write-over-ranks-2],
                 Bench::Page.plots_of(results).keys.grep(/over/)
  end

  def test_each_plot_is_there_as_svg_and_as_png
    assert_empty page
    plots = %w[fio-bandwidth fio-repetitions fio-starts]
    assert_equal [*plots.flat_map { |name| ["#{name}.png", "#{name}.svg"] }, "index.html"], Dir.children(@folder).sort
    picture = File.binread(File.join(@folder, "fio-bandwidth.png"))
    assert_equal SIGNATURE, picture[0, 8]
    # Twice as wide as the SVG.
    assert_equal 2 * Bench::Plots::WIDTH, picture[16, 4].unpack1("N")
  end

  def test_without_the_converter_the_page_is_whole_and_its_package_is_named
    path = ENV.fetch("PATH")
    ENV["PATH"] = @folder
    assert_match(/plots as SVG alone: no rsvg-convert in PATH \(Debian: librsvg2-bin\)/, page.join)
    assert_equal %w[fio-bandwidth.svg fio-repetitions.svg fio-starts.svg index.html], Dir.children(@folder).sort
  ensure
    ENV["PATH"] = path
  end

  # What is wider scrolls within its own frame, and numbers end below each other.
  def test_the_page_fits_windows_wide_and_narrow
    assert Browser.there?, "this test needs the package chromium; tools/setup installs it"
    path = File.join(@folder, "index.html")
    File.write(path, html(micro, workflow("make", [1.0, 3.0]), workflow("rakuda", [1.0, 1.0]), plots: [micro]))
    Browser.open do |browser|
      [1280, 400].each do |width|
        browser.resize(width, 800)
        browser.show(path)
        assert_equal width, browser.evaluate("document.documentElement.scrollWidth")
        rights = "[...document.querySelectorAll('#result-1 tbody tr')].slice(0, 2).map((row) => " \
                 "{ const text = document.createRange(); text.selectNodeContents(row.cells[1]); " \
                 "return text.getBoundingClientRect().right })"
        assert_equal 1, browser.evaluate(rights).uniq.size
      end
      assert_empty browser.complaints
      assert_equal ["file://#{path}"], browser.requests.uniq
    end
  end
end
