# frozen_string_literal: true

# The I/O kernels: their own checks, their results by the published schema, their figures computed once more from the
# raw times, and the package as it builds elsewhere.

require "fileutils"
require "json"
require "minitest/autorun"
require "open3"
require "tmpdir"

# What `make build-bench` has made ready.
class IobenchTest < Minitest::Test
  ROOT = File.expand_path("../..", __dir__)
  KERNELS = File.join(ROOT, "iobench")
  RESULTS = File.join(KERNELS, "build/check/results")
  SCHEMA = File.join(KERNELS, "schema/result.schema.json")
  VALIDATOR = File.join(ROOT, "test/support/validate_lines.py")
  # Debian's own, which has the package; another python in PATH may have none.
  PYTHON = File.executable?("/usr/bin/python3") ? "/usr/bin/python3" : "python3"

  def self.checked
    @checked ||= Open3.capture2e("timeout", "-s", "KILL", "900", "make", "-j2", "-C", KERNELS, "check")
  end

  def self.results
    output, status = checked
    raise output unless status.success?

    @results ||= Dir[File.join(RESULTS, "*.json")].to_h { |path| [File.basename(path, ".json"), JSON.parse(File.read(path))] }
  end

  def test_kernels_pass_their_own_checks
    output, status = self.class.checked
    assert status.success?, output
    assert_match(/^all well$/, output)
    output.scan(/^ +left out: .*/) { |line| puts line }
  end

  def test_results_are_as_the_schema_says
    refute_empty results
    assert_equal({}, faults(results.transform_values(&:to_json)).reject { |_, fault| fault.empty? })
  end

  def test_schema_refuses_what_is_no_result
    good = results.fetch("argot-io")
    bad = {
      other_version: good.merge("schema" => "rakuda-bench/2"),
      valid_with_reason: good.merge("reasons" => ["cold"]),
      invalid_without_reason: good.merge("valid" => false),
      unknown_field: good.merge("score" => 1),
      no_phases: good.reject { |key, _| key == "phases" }
    }
    assert_empty(faults(bad.transform_values(&:to_json)).select { |_, fault| fault.empty? }.keys)
  end

  def test_results_of_good_runs_are_valid_and_those_of_corrupted_files_are_not
    results.each do |name, result|
      assert_equal !name.start_with?("corrupt-"), result["valid"], "#{name}: #{result["reasons"]}"
      assert_equal result["valid"] ? 0 : 1, result["verification"]["errors"], name
      assert_operator result["verification"]["checked_bytes"], :>=, result["instance"]["bytes"], name
    end
  end

  def test_figures_follow_from_the_raw_times
    results.each do |name, result|
      result["phases"].each { |phase| assert_figures phase, figures(phase["steps"]), "#{name} #{phase["name"]}" }
      result["derived"].each do |derived|
        phases = result["phases"].select { |phase| phase["name"] == derived["name"] }
        time = phases.sum { |phase| phase["time_ns"] } / 1e9
        assert_in_epsilon phases.sum { |phase| phase["bytes"] } / time, derived["bw_last_done"], 1e-6
        assert_in_epsilon phases.sum { |phase| phase["calls"] } / time, derived["ops_per_s"], 1e-6
        assert_in_epsilon median(phases.map { |phase| phase["bw_last_done"] }), derived["median_bw"], 1e-6
      end
    end
  end

  # 13 floats a record, through stdio: many calls of the application, few of the system.
  def test_records_go_through_stdio_and_blocks_do_not
    records = results.fetch("argot-io")["phases"].find { |phase| phase["name"] == "write" }["ranks"]
    blocks = results.fetch("argot-io-block")["phases"].find { |phase| phase["name"] == "write" }["ranks"]
    records.each do |rank|
      assert_equal (32**3) + 4, rank["calls"]
      assert_includes (808 + (52 * (32**3))) / 4096..600, rank["system_calls_write"]
    end
    blocks.each { |rank| assert_operator rank["system_calls_write"], :<, 20 }
  end

  def test_package_builds_elsewhere
    version = File.read(File.join(KERNELS, "Makefile"))[/^VERSION = (\S+)/, 1]
    Dir.mktmpdir("iobench") do |folder|
      run_in(ROOT, "make", "-C", KERNELS, "dist", "DISTDIR=#{folder}")
      run_in(folder, "tar", "xzf", "iobench-#{version}.tar.gz")
      below = File.join(folder, "iobench-#{version}")
      assert_equal File.read(File.join(ROOT, "LICENSE")), File.read(File.join(below, "LICENSE"))
      run_in(below, "make", "-j2", "CFLAGS=-O0")
      %w[argot-io qcd-io les-io].each do |kernel|
        assert_equal "#{kernel} #{version}\n", run_in(below, "build/#{kernel}", "--version")
      end
    end
  end

  def test_missing_library_is_told_with_its_package
    output, status = Open3.capture2e("make", "-C", KERNELS, "needed", "NETCDF=no-such", "CC=no-such-cc")
    refute status.success?
    assert_match(/no parallel netCDF .*apt-get install libnetcdf-mpi-dev/, output)
    assert_match(/no no-such-cc.*apt-get install libopenmpi-dev/, output)
  end

  private

  def results = self.class.results

  def run_in(folder, *command)
    output, status = Open3.capture2e("timeout", "-s", "KILL", "900", *command, chdir: folder)
    assert status.success?, output
    output
  end

  # Name => what the validator says of the text; empty when it is valid.
  def faults(texts)
    output, errors, status = Open3.capture3(PYTHON, VALIDATOR, SCHEMA, stdin_data: "#{texts.values.join("\n")}\n")
    assert status.success?, errors
    texts.keys.zip(output.lines(chomp: true)).to_h
  end

  def median(values)
    sorted = values.sort
    (sorted[(sorted.size - 1) / 2] + sorted[sorted.size / 2]) / 2.0
  end

  # By the definitions in iobench/README.md.
  def figures(steps)
    {
      "bytes" => steps.sum { |step| step["bytes"].sum },
      "time_ns" => steps.sum { |step| step["end_ns"].max - step["start_ns"].min },
      "transfer_ns" => steps.sum { |step| step["transfer_ns"].max },
      "first_done_ns" => steps.sum { |step| step["end_ns"].min - step["start_ns"].min },
      "first_done_bytes" => steps.sum { |step| known_at(step, step["end_ns"].min) },
      "start_skew_ns_max" => steps.map { |step| step["start_ns"].max - step["start_ns"].min }.max
    }
  end

  def known_at(step, moment)
    step["end_ns"].each_index.sum do |rank|
      next step["bytes"][rank] if step["end_ns"][rank] <= moment

      step["marks"][rank].each_slice(2).select { |at, _| at <= moment }.map(&:last).max || 0
    end
  end

  def assert_figures(phase, figures, name)
    figures.each { |key, value| assert_equal value, phase[key], "#{name}: #{key}" }
    assert_in_epsilon figures["bytes"] * 1e9 / figures["time_ns"], phase["bw_last_done"], 1e-6, name
    assert_in_epsilon figures["bytes"] * 1e9 / figures["transfer_ns"], phase["bw_transfer"], 1e-6, name
    assert_in_epsilon figures["first_done_bytes"] * 1e9 / figures["first_done_ns"], phase["bw_first_done"], 1e-6, name
    assert_in_epsilon phase["calls"] * 1e9 / figures["time_ns"], phase["ops_per_s"], 1e-6, name
  end
end
