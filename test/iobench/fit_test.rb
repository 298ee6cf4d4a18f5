# frozen_string_literal: true

require "fileutils"
require "json"
require "minitest/autorun"
require "open3"
require "tmpdir"
require "rakuda/bench/catalogue"
require "rakuda/bench/fit"
require "rakuda/bench/options"
require "rakuda/bench/verification"

# Sizes by time, and families as names.
class BenchFitTest < Minitest::Test
  FIT = Rakuda::Bench::Fit
  RAKUDACTL = File.expand_path("../../bin/rakudactl", __dir__)

  def setup = @folder = Dir.mktmpdir

  def teardown = FileUtils.rm_rf(@folder)

  def bench(*words)
    Open3.capture3("timeout", "-s", "KILL", "900", RAKUDACTL, "bench", *words, chdir: @folder)
  end

  def test_a_mesh_grows_in_all_its_sides_by_whole_units
    assert_equal [64, 64, 32], FIT.mesh([64, 64, 32], 1.0, 16)
    assert_equal [128, 128, 64], FIT.mesh([64, 64, 32], 8.0, 16)
    assert_equal [16, 16, 16, 32], FIT.mesh([8, 8, 8, 16], 16.0, 2)
    assert_equal([0] * 4, FIT.mesh([8, 8, 8, 16], 3.3, 2).map { |side| side % 2 })
  end

  def test_a_size_grows_by_bounded_steps_until_a_repetition_takes_long_enough
    assert_nil FIT.growth(0.5, 0.5)
    assert_in_delta 2.2, FIT.growth(0.25, 0.5)
    assert_equal FIT::GROWTH_MAX, FIT.growth(0.0, 0.5)
    assert_equal 1.2, FIT.growth(0.49, 0.5)
  end

  def test_the_shorter_of_writing_and_reading_counts
    phases = { "instant_write" => 3e9, "average_write" => 1e9, "instant_read" => 5e8, "average_read" => 1e9 }
    result = { "phases" => phases.map { |name, ns| { "name" => name, "time_ns" => ns } } }
    assert_in_delta 1.5, FIT.shorter(result)
  end

  # So short that the mesh which is tried first is long enough.
  def test_a_kernel_gets_its_mesh_and_at_least_five_repetitions_with_an_interval
    out, err, status = bench("run", "qcd-io", "--size", "small", "--seconds", "0.0001")
    assert status.success?, out + err
    assert_match(/^qcd-io: --local 8x8x8x16 .*--reps 6 --min-seconds 0.0001, \S+ MB on disk, \d+ s$/, err)
    assert_match(/^expected: \d+ s in all, \S+ MB on disk at one time$/, err)
    result = JSON.parse(File.read(File.join(@folder, "bench-results/qcd-io-small-seconds0.0001.json")))
    assert_equal [6], result["derived"].map { |one| one["reps"] }.uniq
    result["derived"].each { |one| assert_equal 2, one["ci95"].size }
    assert_empty Rakuda::Bench::Verification.faults(result)
    assert_equal %w[bench-results], Dir.children(@folder)
  end

  def test_what_would_take_too_long_or_is_said_twice_is_refused_before_it_begins
    options = Rakuda::Bench::Options.new(["--seconds", "1", "--timeout", "60", "--dir", File.join(@folder, "work")])
    fit = FIT.new(options, ->(_) {})
    part = Rakuda::Bench::Measured::Part.new(entry: Rakuda::Bench::Catalogue.find("qcd-io"), scale: "small", words: [])
    fit.define_singleton_method(:fit) { |*| FIT::Sized.new(part, 1 << 20, 61.0) }
    error = assert_raises(Rakuda::Bench::UsageError) { fit.call([part]) }
    assert_match(/would take about 61 s: expected at most 60 s \(--timeout\)/, error.message)
    _, err, status = bench("run", "qcd-io", "--seconds", "1", "--", "--local", "8x8x8x8")
    assert_equal 2, status.exitstatus, err
    assert_match(/--seconds chooses --local: leave one of both out/, err)
    assert_match(/--seconds means nothing to the suite ci/, bench("suite", "ci", "--seconds", "1")[1])
    assert_match(/--seconds tries sizes out: not with --dry-run/, bench("run", "qcd-io", "--seconds", "1", "--dry-run")[1])
    refute File.exist?(File.join(@folder, "bench-results"))
  end

  # A stand-in takes 1 s for 64 MiB: the file grows by what a step lacks, and is that of all repetitions.
  def test_files_of_bandwidth_grow_until_a_step_is_long_enough
    program = File.join(@folder, "bandwidth-io")
    File.write(program, <<~SH)
      #!/bin/sh
      # bandwidth-io WAY --file FILE --bytes N
      echo "{\\"bytes\\": $5, \\"start_ns\\": 0, \\"end_ns\\": $(($5 * 1000 / 67108864))000000, \\"calls\\": 1, \\"marks\\": []}"
    SH
    File.chmod(0o755, program)
    File.symlink(Rakuda::Bench::Programs.own("room"), File.join(@folder, "room"))
    before, ENV["IOBENCH"] = ENV.fetch("IOBENCH", nil), @folder
    options = Rakuda::Bench::Options.new(["--seconds", "2", "--dir", @folder])
    entry = Rakuda::Bench::Catalogue.find("bandwidth")
    part = Rakuda::Bench::Measured::Part.new(entry: entry, scale: "small", words: [])
    fit = FIT.new(options, ->(_) {})
    sized = fit.send(:fit, part, @folder)
    # Nothing has shown here that a file can be out of the page cache.
    assert_equal ["any", ["cache"]], sized.part.settings.values_at(:cache, :said)
    fit.instance_variable_set(:@provable, true)
    refute fit.send(:fit, part, @folder).part.settings.key?(:cache)
    assert_equal [85 << 20, 6, 2.0], sized.part.settings.values_at(:bytes, :trials, :seconds)
    assert_equal 2 * (85 << 20), sized.bytes
  ensure
    ENV["IOBENCH"] = before
  end

  def test_a_family_is_all_of_its_benchmarks
    out, err, status = bench("run", "mpi", "--dry-run")
    assert status.success?, err
    assert_includes out, 'task default: ["argot-io-tiny.json", "les-io-tiny.json", "qcd-io-tiny.json"]'
    assert_includes bench("run", "micro", "--dry-run")[0],
                    'task default: ["bandwidth-tiny.json", "fio-tiny.json", "metadata-tiny.json"]'
    assert_match(/--engines means nothing to `run of a workflow`/, bench("run", "workflow", "--engines", "make")[1])
  end
end
