# frozen_string_literal: true

require "fileutils"
require "json"
require "minitest/autorun"
require "open3"
require "tmpdir"
require "rakuda/bench/mapreduce/engines"
require "rakuda/bench/mapreduce/job"
require "rakuda/bench/mapreduce/split"
require "rakuda/bench/plots"
require "rakuda/bench/verification"

# MapReduce jobs of `rakudactl bench`: on rakuda always, on the engines in Java where `make bench-engines` has put them.
class BenchMapReduceTest < Minitest::Test
  ROOT = File.expand_path("../..", __dir__)
  Engines = Rakuda::Bench::MapReduce::Engines
  Split = Rakuda::Bench::MapReduce::Split

  def setup
    @folder = Dir.mktmpdir
  end

  def teardown
    FileUtils.rm_rf(@folder)
  end

  def bench(*words, environment: {})
    Open3.capture3(environment, "timeout", "-s", "KILL", "900", File.join(ROOT, "bin/rakudactl"), "bench", *words, chdir: @folder)
  end

  def results = Dir[File.join(@folder, "bench-results/*.json")].map { |path| JSON.parse(File.read(path)) }

  def test_jobs_on_files_and_on_a_stream_give_what_must_come_out
    out, err, status = bench("run", "mapreduce", "--engines", "rakuda,rakuda-streams", "-j", "2")
    assert status.success?, out + err
    assert_equal 10, results.size
    results.group_by { |result| result["benchmark"] }.each_value do |of_job|
      assert_equal 1, of_job.map { |result| result.dig("verification", "digest") }.uniq.size
      of_job.each { |result| assert_adds_up(result) }
    end
    assert_match(/^ +start .*, map .*, shuffle .*, reduce .*, end /, out)
    bars = Rakuda::Bench::Plots.of(results).fetch("mr-sort-parts").scan(/<rect /)
    assert_equal Split::NAMES.size * 3, bars.size, "a legend and two engines"
    assert_match(/^mr-sort: likewise, from the first map to the last reduce$/, out)
    refute File.exist?(File.join(@folder, "bench-work"))
  end

  # The five parts of the time are the time, and nothing that was changed passes.
  def assert_adds_up(result)
    assert_equal [], Rakuda::Bench::Verification.faults(result)
    round = Split.of(result["rounds"].first)
    assert_in_delta round["makespan_s"], round.values_at(*Split::NAMES).sum, 1e-9
    assert_equal result.dig("instance", "maps"), result["rounds"].first["maps_ns"].size
    assert_operator result["rounds"].first["shuffle_bytes"], :positive?
    later = JSON.parse(JSON.generate(result))
    later["rounds"].first["end_ns"] += 1_000_000_000
    refute_empty Rakuda::Bench::Verification.figure_faults(later)
    backwards = JSON.parse(JSON.generate(result))
    backwards["rounds"].first["start_ns"] = backwards["rounds"].first["end_ns"]
    refute_empty Rakuda::Bench::Verification.figure_faults(backwards)
    assert_operator result["null_s"], :<, round["makespan_s"]
    # Nothing is long enough beside a harness that takes as long as the round.
    short = JSON.parse(JSON.generate(result)).merge("size" => "small", "null_s" => round["makespan_s"])
    short["rounds"] *= Rakuda::Bench::Figures::REPETITIONS_MIN
    assert_match(/a program that does nothing takes/, Rakuda::Bench::Verification.against(short).join("\n"))
  end

  def test_a_task_that_drops_a_row_makes_the_result_not_valid
    wrong = File.join(@folder, "iobench")
    FileUtils.mkdir_p(wrong)
    FileUtils.ln_s(File.join(ROOT, "iobench/build/homology-task"), wrong)
    File.write(File.join(wrong, "mapreduce-task"), <<~SH)
      #!/bin/sh
      "#{ROOT}/iobench/build/mapreduce-task" "$@" || exit
      case "$1" in merge) truncate -s -100 "$2" ;; esac
    SH
    File.chmod(0o755, File.join(wrong, "mapreduce-task"))
    out, err, status = bench("run", "mr-sort", "--engines", "rakuda", environment: { "IOBENCH" => wrong })
    assert_equal 1, status.exitstatus, out + err
    assert_match(/not valid: round 1: mapreduce-task: 31998 rows: expected 32000/, out)
  end

  # Two reads in a thousand: most others still find the protein that they come from.
  def test_a_hit_that_is_lost_makes_a_search_with_a_real_aligner_not_valid
    wrong = File.join(@folder, "iobench")
    FileUtils.mkdir_p(wrong)
    File.write(File.join(wrong, "homology-task"), <<~SH)
      #!/bin/sh
      "#{ROOT}/iobench/build/homology-task" "$@" || exit
      case "$1 $IOBENCH_PHASES" in "merge /"*) sed -i '/^r00000000[12]\t/d' "$2" ;; esac
    SH
    File.chmod(0o755, File.join(wrong, "homology-task"))
    out, err, status = bench("run", "mr-homology-diamond", "--engines", "rakuda", environment: { "IOBENCH" => wrong })
    assert_equal 3, status.exitstatus, out + err
    assert_match(/not valid: its output is not that without an engine/, out)
  end

  def test_jobs_with_an_aligner_give_java_the_command_of_a_map
    job = Rakuda::Bench::MapReduce::Job.new(Rakuda::Bench::Catalogue.find("mr-homology-diamond"), "tiny")
    name, slots, reducers, out, program, word, letters, *files = job.words(2)
    assert_equal ["homology-diamond", "2", "2", "out", "homology-task", "search", "120000"],
                 [name, slots, reducers, out, File.basename(program), word, letters]
    assert_equal %w[-- reads_0000 reads_0001 reads_0002 reads_0003 -- database_0000.dmnd database_0001.dmnd], files
    assert_equal [program, word, letters, "reads_0000", "database_0000.dmnd", "2", "-"], job.maps(->(_) { "-" }).first
  end

  def test_words_that_cannot_be_are_refused
    [[%w[run mr-sort --engines make], /no engine make runs MapReduce here; there are rakuda, rakuda-streams, spark, hadoop/],
     [%w[compare mr-sort --engines nope], /no engine nope runs MapReduce/],
     [%w[run mr-nothing], /no benchmark mr-nothing/]].each do |words, message|
      _, err, status = bench(*words)
      assert_equal 2, status.exitstatus
      assert_match message, err
    end
  end

  # Java's engines take half a minute: they are run by `rakudactl bench run mapreduce`, not here. What is looked at is
  # that an engine that is not there is named with what installs it.
  def test_an_engine_that_is_not_there_says_how_to_get_it
    Engines::JAVA.each do |engine|
      missing = Engines.missing(engine)
      assert_match(/make bench-engines|openjdk/, missing) if missing
    end
    assert_nil Engines.missing("rakuda")
  end
end
