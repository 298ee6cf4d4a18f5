# frozen_string_literal: true

require "fileutils"
require "json"
require "minitest/autorun"
require "open3"
require "tmpdir"
require "rakuda/bench/others"
require "rakuda/bench/verification"

# Benchmarks of others: ours for show, one made here, and descriptions and programs that are none.
class BenchOthersTest < Minitest::Test
  ROOT = File.expand_path("../..", __dir__)
  GOOD = { "name" => "copy", "summary" => "a copy", "program" => "run",
           "sizes" => { "tiny" => { "words" => ["7"], "bytes" => 7 } } }.freeze
  STEPS = { "steps" => { "copy" => [{ "bytes" => 7, "start_ns" => 1_000_000, "end_ns" => 3_000_000, "calls" => 1 }] } }.freeze

  def setup
    @folder = Dir.mktmpdir
    @copy = File.join(@folder, "others/copy")
    FileUtils.mkdir_p(@copy)
    describe(GOOD)
    program("printf '#{JSON.generate(STEPS)}'; [ \"$1\" = 7 ] && [ \"$BENCH_WORKERS\" = 3 ] && [ -z \"$(ls)\" ]")
  end

  def teardown
    FileUtils.rm_rf(@folder)
  end

  def describe(text) = File.write(File.join(@copy, "benchmark.json"), JSON.generate(text))

  def program(line)
    File.write(File.join(@copy, "run"), "#!/bin/sh\n#{line}\n")
    File.chmod(0o755, File.join(@copy, "run"))
  end

  def bench(*words, environment: {})
    Open3.capture3({ "RAKUDA_BENCHMARKS" => File.join(@folder, "others"), **environment }, "timeout", "-s", "KILL", "60",
                   File.join(ROOT, "bin/rakudactl"), "bench", *words, chdir: @folder)
  end

  def test_one_that_was_brought_is_listed_and_run_and_its_figures_are_computed
    out, = bench("list", "--family", "other")
    assert_match(/^copy +other +a copy$/, out)
    assert_match(/^fio-files +other /, out)
    out, err, status = bench("run", "copy", "--workers", "3")
    assert status.success?, out + err
    result = JSON.parse(File.read(File.join(@folder, "bench-results/copy-tiny.json")))
    assert_equal [3500.0, 0.002], result["derived"].first.values_at("bw", "time_s")
    assert_equal [], Rakuda::Bench::Verification.faults(result)
    result["steps"]["copy"].first["end_ns"] += 1_000_000
    refute_empty Rakuda::Bench::Verification.faults(result)
  end

  def test_a_kernel_stands_beside_ours_for_show_in_one_run
    out, err, status = bench("run", "argot-io", "fio-files", "--", "--mesh", "256x64x16", "--writer", "block")
    assert status.success?, out + err
    assert_match(%r{^ +read +\S+ [kMG]B/s .*; median of 2 \S+ [kMG]B/s \[\S+ [kMG]B/s - \S+ [kMG]B/s\]$}, out)
    files = %w[argot-io fio-files].map { |name| File.join(@folder, "bench-results/#{name}-tiny.json") }
    kernel, fio = files.map { |file| JSON.parse(File.read(file)) }
    written = fio["steps"].select { |name, _| name.start_with?("write") }.values.flatten.sum { |one| one["bytes"] }
    assert_equal kernel.dig("instance", "bytes"), written
    assert_equal 1, Dir[File.join(@folder, "bench-results/.rakuda/runs/*/journal.jsonl")].size
    assert_match(/homology-io is a workflow: run it alone/, bench("run", "argot-io", "homology-io")[1])
  end

  # IOR and mdtest are not in Debian: what stands in for them checks the command line, and writes what they write.
  def stand_in(name, words, output)
    FileUtils.mkdir_p(File.join(@folder, "bin"))
    path = File.join(@folder, "bin", name)
    File.write(path, <<~SHELL)
      #!/bin/sh
      [ "$*" = "#{words}" ] || { echo "$*" >&2; exit 1; }
      [ "$OMPI_COMM_WORLD_SIZE" = 2 ] || exit 1
      [ "$OMPI_COMM_WORLD_RANK" = 0 ] || exit 0
      #{output}
    SHELL
    File.chmod(0o755, path)
    { "PATH" => "#{File.dirname(path)}:#{ENV.fetch("PATH")}" }
  end

  def ran(name, environment)
    out, err, status = bench("run", name, environment: environment)
    assert status.success?, out + err
    result = JSON.parse(File.read(File.join(@folder, "bench-results/#{name}-tiny.json")))
    assert_equal [], Rakuda::Bench::Verification.faults(result)
    [result["derived"].to_h { |figures| [figures["name"], figures] }, out]
  end

  def test_what_ior_tells_are_steps_of_a_result
    results = [["write", 0.0502], ["read", 0.0005], ["write", 0.0092], ["read", 0.0004]].map do |access, seconds|
      { "access" => access, "bwMiB" => 1.0, "totalTime" => seconds }
    end
    sizes = { "blockSize" => 8 << 20, "segmentCount" => 1, "transferSize" => 1 << 20 }
    text = JSON.generate("Version" => "4.1.0", "tests" => [{ "Parameters" => sizes, "Results" => [results] }])
    environment = stand_in("ior", "-b 8m -t 1m -i 2 -e -C -o data -O summaryFormat=JSON -F", "echo '#{text}'")
    figures, = ran("ior", environment)
    assert_equal %w[write read], figures.keys
    assert_in_delta (32 << 20) / 0.0594, figures["write"]["bw"], 1
    assert_equal 2, figures["read"]["reps"]
  end

  def test_what_mdtest_tells_are_operations_of_a_result
    table = ["rank,items,rate-File creation,time-File creation,rate-File read,time-File read,rate-File removal,time-File removal",
             "all,200,1,0.9,inf,0,1,0.9", "0,,1,0.1,inf,0,1,0.4", "1,,1,0.2,inf,0,1,0.4", "0,,1,0.4,inf,0,1,0.5",
             "1,,1,0.4,inf,0,1,0.8"]
    environment = stand_in("mdtest", "-n 200 -i 2 -u -d tree --saveRankPerformanceDetails=ranks.csv",
                           "printf '%s\\n' #{table.map { |line| "'#{line}'" }.join(" ")} > ranks.csv")
    figures, out = ran("mdtest", environment)
    assert_equal %w[creation-file removal-file], figures.keys
    assert_in_delta (3000 + 1000) / 2.0, figures["creation-file"]["ops_per_s"], 1e-6
    assert_match(%r{creation-file +2000 +operations/s; median of 2 2000 \[1000 - 3000\]}, out)
  end

  def test_a_program_that_is_not_in_debian_is_missing
    without = { "PATH" => ENV.fetch("PATH").split(":").reject { |folder| File.exist?(File.join(folder, "ior")) }.join(":") }
    _, err, status = bench("run", "ior", environment: without)
    assert_equal 2, status.exitstatus
    assert_match(/no ior in PATH \(not in Debian: build it from its source\)/, err)
  end

  def test_a_description_that_is_none_is_refused_with_what_was_expected
    { GOOD.merge("name" => "Copy it") => /name "Copy it": expected small letters/,
      GOOD.merge("name" => "fio") => /fio is a benchmark of ours/,
      GOOD.merge("program" => "gone") => /gone is not there or cannot be executed/,
      GOOD.merge("sizes" => { "huge" => {} }) => /sizes huge: expected some of tiny, small, large/,
      GOOD.merge("sizes" => { "tiny" => { "words" => [] } }) => /sizes: bytes is nil: expected Integer/,
      [] => /expected an object/ }.each do |text, message|
      describe(text)
      _, err, status = bench("list")
      assert_equal 2, status.exitstatus
      assert_match message, err
    end
  end

  def test_a_program_that_fails_or_prints_something_else_gives_no_valid_result
    { "exit 3" => /not valid: it gave no result/, "echo hello" => /printed no JSON: "hello"/,
      "echo '{\"steps\": {\"a\": []}}'" => /copy printed no steps: expected/,
      "printf '#{JSON.generate(STEPS.merge("reasons" => ["it rained"]))}'" => /not valid: it rained/ }.each do |line, message|
      program(line)
      out, _, status = bench("run", "copy")
      refute status.success?
      assert_match message, out
    end
  end
end
