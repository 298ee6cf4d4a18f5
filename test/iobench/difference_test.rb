# frozen_string_literal: true

require "json"
require "minitest/autorun"
require "stringio"
require "rakuda/bench/buffered"
require "rakuda/bench/difference"
require "rakuda/bench/page"
require "rakuda/bench/plots"
require "rakuda/bench/report"
require "rexml/document"

# Which results stand beside each other, and what is said of where they differ.
class BenchDifferenceTest < Minitest::Test
  Bench = Rakuda::Bench

  # A result of a workflow: its makespans, and what makes it another one.
  def workflow(engine, makespans, comparison: "c", slots: 2, host: "a" * 16, cache: "any", **more)
    rounds = makespans.map.with_index { |time, round| { "round" => round, "order" => 0, "makespan_s" => time } }
    { "schema" => "rakuda-bench-workflow/1", "id" => "#{engine}#{slots}", "benchmark" => "w", "size" => "tiny",
      "instance" => { "hash" => "h", "tasks" => 1 }, "engine" => { "name" => engine, "style" => "flat", "slots" => slots },
      "machine" => { "host" => host, "fs" => { "type" => "ext4" } }, "conditions" => { "cache" => cache, "durable" => false },
      "rounds" => rounds, "valid" => true, "reasons" => [], "ended_at" => "2000-01-01T00:00:00Z",
      "derived" => { "makespan_s" => Bench::Figures.summary(makespans), "busy_s" => 1.0, "overhead_per_task_s" => 0.1,
                     "startup_s" => 0.1, "tail_s" => 0.1 } }
      .merge(comparison ? { "comparison" => comparison } : {}).merge(more)
  end

  def told(one, other, **options)
    out = StringIO.new
    valid = Bench::Difference.tell(one, other, out, **options)
    [out.string, valid]
  end

  def refused(one, other)
    assert_raises(Bench::UsageError) { told(one, other) }.message
  end

  def ratios(*results) = Bench::Report.ratios(results)

  def test_ratios_are_of_one_comparison
    assert_match(/make +2\.00 \[2\.00 - 2\.00\]/, ratios(workflow("rakuda", [1.0]), workflow("make", [2.0])).join("\n"))
    one = workflow("rakuda", [1.0])
    [workflow("make", [2.0], comparison: "d"), workflow("make", [2.0], slots: 8), workflow("make", [2.0], host: "b" * 16),
     workflow("make", [2.0], cache: "cold"), workflow("make", [2.0], comparison: nil)].each do |other|
      assert_equal ["w: results of 2 comparisons, whose rounds are not set beside each other; `diff` shows two"],
                   ratios(one, other)
    end
  end

  def test_other_slots_and_conditions_are_refused_unless_that_is_asked_for
    one = workflow("make", [1.0])
    assert_match(/other conditions: slots 2 and 8; --force/, refused(one, workflow("make", [1.0], slots: 8)))
    assert_match(/other conditions: cache any and cold; --force/, refused(one, workflow("make", [1.0], cache: "cold")))
    text, = told(one, workflow("make", [2.0], slots: 8), force: true)
    assert_match(/^other conditions: slots 2 and 8$/, text)
    assert_match(/^makespan_s +1\.00 s +2\.00 s +2\.00$/, text)
  end

  # Task programs lie elsewhere in another checkout; results from before say nothing but where.
  def test_results_of_two_checkouts_are_of_one_instance
    of = ->(hash, by_name = nil) { workflow("make", [1.0], "instance" => { "hash" => hash, "hash_by_name" => by_name }.compact) }
    [[of["h", "n"], of["i", "n"]], [of["h"], of["h", "n"]], [of["h", "n"], of["h"]], [of["h"], of["h"]]]
      .each { |one, other| assert_match(/^makespan_s /, told(one, other).first) }
    [[of["h", "n"], of["i", "m"]], [of["h"], of["i", "n"]], [of["h"], of["i"]]]
      .each { |one, other| assert_match(/different instances/, refused(one, other)) }
  end

  def test_another_machine_and_engine_and_what_is_not_valid_are_said
    bad = workflow("xargs", [2.0], host: "b" * 16, "valid" => false, "reasons" => ["late"])
    text, valid = told(workflow("make", [1.0]), bad)
    refute valid
    assert_match(/^they differ: machine aaaaaaaa and bbbbbbbb$/, text)
    assert_match(/^they differ: engine make and xargs$/, text)
    assert_match(/^second: w  tiny  xargs  NOT VALID, 2000-01-01.*\n +not valid: late$/, text)
    assert_equal true, told(workflow("make", [1.0]), workflow("make", [1.0])).last
  end

  def test_whether_they_differ_is_said_by_rounds_of_one_comparison_or_by_intervals
    one = workflow("make", [1.0, 1.1, 1.2, 1.0, 1.1, 1.2])
    near = [1.1, 1.0, 1.1, 1.2, 1.0, 1.3]
    assert_match(/^makespan_s .* no difference at 95 %$/, told(one, workflow("xargs", near)).first)
    assert_match(/^makespan_s .*\[1\.00 s - 1\.20 s\] and \[1\.00 s - 1\.30 s\], no difference$/,
                 told(one, workflow("xargs", near, comparison: "d")).first)
    far = told(one, workflow("xargs", [2.0] * 6, comparison: "d")).first
    assert_match(/^makespan_s .*medians at 95 %: .* and \[2\.00 s - 2\.00 s\]$/, far)
  end

  def phase(rate)
    rank = { "open_ns" => 1_000_000_000, "xfer_ns" => 2_000_000_000, "flush_ns" => 0, "close_ns" => 500_000_000 }
    { "name" => "write", "bw_last_done" => rate, "start_skew_ns_max" => 2_000, "ranks" => [rank, rank.merge("open_ns" => 0)],
      "steps" => [{ "start_ns" => [5_000, 7_000] }, { "start_ns" => [20_000, 20_000] }] }
  end

  # Kernels that differ in a parameter are of other instances; a report shows which is which.
  def test_parameters_stand_in_reports_and_tell_results_apart_in_plots
    results = %w[fpp shared].map do |layout|
      { "schema" => "rakuda-bench/1", "benchmark" => "qcd-io", "size" => "tiny", "valid" => true, "reasons" => [],
        "conditions" => {}, "engine" => { "name" => "mpirun", "slots" => 2 }, "hosts" => [{}],
        "instance" => { "ranks" => 2, "hash" => layout, "params" => { "local" => [4, 4], "layout" => layout } },
        "machine" => { "hostname_hash" => "fnv1a64:0123456789abcdef", "fs" => { "type" => "ext4" } },
        "phases" => [1, 3, 2].map { |rate| phase(rate) },
        "derived" => [{ "name" => "write", "bw_last_done" => 2.0, "ops_per_s" => 1.0, "bytes" => 6, "time_s" => 3.0, "reps" => 3,
                        "bw_first_done" => 2.0, "median_bw" => 2.0, "min_bw" => 1.0, "max_bw" => 3.0, "ci95" => [1.0, 3.0] }] }
    end
    out = StringIO.new
    Bench::Report.text(results, out)
    assert_match(/machine 01234567, fs ext4, local 4x4, layout shared$/, out.string)
    svg = Bench::Plots.of(results).fetch("qcd-io-bandwidth")
    words = REXML::XPath.match(REXML::Document.new(svg), "//text").map(&:text)
    assert_includes words, "write, layout fpp"
    assert_includes words, "write, layout shared"
    assert_equal 6, svg.scan("<circle").size, "every repetition has a point"
    plots = Bench::Plots.of(results)
    assert_equal %w[qcd-io-bandwidth qcd-io-parts qcd-io-repetitions qcd-io-starts], plots.keys
    points = plots.values_at("qcd-io-repetitions", "qcd-io-starts").map { |plot| plot.scan("<circle").size }
    assert_equal [6, 24], points
    # 3 is three times as high as 1, and JSON has whole numbers.
    one, three, two = plots["qcd-io-repetitions"].scan(/<circle cx="\S+" cy="(\S+)"/).flatten.map(&:to_f)
    assert_in_delta 2, (one - three) / (one - two), 0.1
    plots.each_value { |plot| refute_match(/NaN|Infinity/, REXML::Document.new(plot).to_s) }
    assert_includes words, "0" # the axis begins there
    assert_includes words, "3 B/s"
  end

  def test_where_the_time_of_a_phase_went_is_the_mean_of_ranks_and_starts_are_those_behind_the_first
    result = { "phases" => [phase(1.0), phase(2.0)] }
    assert_equal({ "write" => [0.5, 2.0, 0.0, 0.5] }, Bench::Splits.phases(result))
    assert_equal({ "write" => [0.0, 2e-6, 0.0, 0.0] * 2 }, Bench::Splits.lags(result))
    steps = { "read-4k-0" => [[0, 10], [0, 30], [1, 9000]].map { |node, ns| { "node" => node, "start_ns" => ns } } }
    assert_equal({ "read-4k" => [0.0, 2e-8, 0.0] }, Bench::Splits.lags("steps" => steps))
  end

  # Slots 2: of 10 s 1 before the first task and 2 after the last, 7 between, of which tasks took 5 of each slot.
  def test_where_the_slots_of_an_engine_were_follows_from_its_rounds
    round = { "makespan_s" => 10.0, "startup_s" => 1.0, "tail_s" => 2.0, "busy_s" => 10.0 }
    result = { "engine" => { "slots" => 2 }, "rounds" => [round, { "fault" => "x" }] }
    assert_equal [1.0, 5.0, 2.0, 2.0], Bench::Splits.rounds(result)
    assert_nil Bench::Splits.rounds(result.merge("rounds" => [{ "fault" => "x" }]))
  end

  def test_engines_of_several_comparisons_are_told_apart_in_plots
    results = [workflow("make", [1.0]), workflow("make", [2.0], slots: 8), workflow("xargs", [1.0])]
    assert_equal ["make, slots 2", "make, slots 8", "xargs, slots 2"], Bench::Plots.labels(results)
    assert_equal %w[make xargs], Bench::Plots.labels(results.values_at(0, 2))
    assert_equal %w[make], Bench::Plots.labels(results.take(1))
  end

  # Results of kernels have one digest of the machine's name, those from before another, new ones both.
  def test_a_machine_is_one_whichever_of_its_names_results_have
    names = [{ "host" => "a" * 16 }, { "host" => "a" * 16, "hostname_hash" => "fnv1a64:#{"b" * 16}" },
             { "hostname_hash" => "fnv1a64:#{"b" * 16}" }]
    before, both, kernel = names.map { |machine| workflow("make", [1.0], "machine" => machine.merge("fs" => {})) }
    assert_empty Bench::Facets.differences(before, both)
    assert_empty Bench::Facets.differences(both, kernel)
    assert_equal ["machine aaaaaaaa and bbbbbbbb"], Bench::Facets.differences(before, kernel)
    assert_equal 1, Bench::Page.html([both, kernel]).scan("<h2>Machine bbbbbbbb").size
  end

  def test_a_page_has_the_machines_of_all_results
    page = Bench::Page.html([workflow("make", [1.0]), workflow("make", [1.0], host: "b" * 16)])
    assert_includes page, "<h2>Machine aaaaaaaa, ext4</h2>"
    assert_includes page, "<h2>Machine bbbbbbbb, ext4</h2>"
  end

  # What must be known of times in which nothing is flushed.
  def test_what_tasks_have_written_may_be_in_memory
    machine = { "mem_bytes" => 25_000_000_000, "vm" => { "dirty_ratio" => 20 } }
    assert_match(/\Abuffered: .*\(4\.00 GB a round; up to 5\.00 GB may wait in memory\)\z/,
                 Bench::Buffered.notes(4_000_000_000, machine).join)
    assert_match(/when a round ends\z/, Bench::Buffered.notes(nil, {}).join)
    assert_empty Bench::Buffered.notes(0, machine)
  end
end
