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
    Open3.capture3({ "RAKUDA_BENCHMARKS" => File.join(@folder, "others"), **environment }, "timeout", "-s", "KILL", "900",
                   File.join(ROOT, "bin/rakudactl"), "bench", *words, chdir: @folder)
  end

  def test_one_that_was_brought_is_listed_and_run_and_its_figures_are_computed
    out, = bench("list", "--family", "other")
    assert_match(/^copy +other +a copy$/, out)
    assert_match(/^fio-files +other /, out)
    out, err, status = bench("run", "copy", "--workers", "3")
    assert status.success?, out + err
    result = JSON.parse(File.read(File.join(@folder, "bench-results/copy-tiny-w3.json")))
    assert_equal [3500.0, 0.002], result["derived"].first.values_at("bw", "time_s")
    assert_equal [], Rakuda::Bench::Verification.faults(result)
    result["steps"]["copy"].first["end_ns"] += 1_000_000
    refute_empty Rakuda::Bench::Verification.faults(result)
  end

  def test_few_repetitions_are_not_valid_unless_it_is_tiny
    describe(GOOD.merge("sizes" => { "small" => GOOD["sizes"]["tiny"] }))
    out, err, status = bench("run", "copy", "--workers", "3", "--size", "small")
    assert_equal 3, status.exitstatus, out + err
    result = JSON.parse(File.read(File.join(@folder, "bench-results/copy-small-w3.json")))
    assert_match(/\Acopy: .*repetitions/, result["reasons"].first)
    told = Rakuda::Bench::Verification.faults(result.merge("valid" => true, "reasons" => []))
    assert_match(/it says that it is valid: copy: /, told.join("; "))
  end

  # Results may lie elsewhere than what is measured.
  def test_the_file_system_is_that_of_the_files
    own, = Open3.capture2("findmnt", "-no", "FSTYPE", "-T", @folder)
    skip_reason = own.strip == "tmpfs" || !File.directory?("/dev/shm")
    return if skip_reason

    Dir.mktmpdir("bench", "/dev/shm") do |folder|
      out, err, status = bench("run", "copy", "--workers", "3", "--dir", File.join(folder, "work"))
      assert status.success?, out + err
    end
    result = JSON.parse(File.read(File.join(@folder, "bench-results/copy-tiny-w3.json")))
    assert_equal "tmpfs", result.dig("machine", "fs", "type")
  end

  def test_a_kernel_stands_beside_ours_for_show_in_one_run
    out, err, status = bench("run", "argot-io", "fio-files", "--", "--mesh", "256x64x16", "--writer", "block")
    assert status.success?, out + err
    rate = %r{\S+ [kMG]B/s}
    apart = /; workers began up to \S+ % of the time apart$/
    assert_match(/^ +read +#{rate} .*; median of 2 #{rate} \[#{rate} - #{rate}\]#{apart}/, out)
    # What stands behind -- is the kernel's.
    kernel, fio = %w[argot-io-tiny-mesh-256x64x16-writer-block fio-files-tiny].map do |name|
      JSON.parse(File.read(File.join(@folder, "bench-results/#{name}.json")))
    end
    written = fio["steps"].select { |name, _| name.start_with?("write") }.values.flatten.sum { |one| one["bytes"] }
    assert_equal kernel.dig("instance", "bytes"), written
    assert_equal 1, Dir[File.join(@folder, "bench-results/.rakuda/runs/*/journal.jsonl")].size
    assert_match(/homology-io is a workflow: run it alone/, bench("run", "argot-io", "homology-io")[1])
  end

  # These tools are not in Debian: what stands in for them checks the command line, and writes what they write.
  def stand_in(name, words, output)
    stand_in_alone(name, words, <<~SHELL)
      [ "$OMPI_COMM_WORLD_SIZE" = 2 ] || exit 1
      [ "$OMPI_COMM_WORLD_RANK" = 0 ] || exit 0
      #{output}
    SHELL
  end

  # @param words [String] a pattern of the shell
  def stand_in_alone(name, words, lines)
    FileUtils.mkdir_p(File.join(@folder, "bin"))
    path = File.join(@folder, "bin", name)
    File.write(path, <<~SHELL)
      #!/bin/sh
      case "$*" in #{words.gsub(" ", "\\ ")}) ;; *) echo "$*" >&2; exit 1 ;; esac
      #{lines}
    SHELL
    File.chmod(0o755, path)
    { "PATH" => "#{File.dirname(path)}:#{ENV.fetch("PATH")}" }
  end

  def ran(name, environment, *words)
    out, err, status = bench("run", name, *words, environment: environment)
    assert status.success?, out + err
    result = JSON.parse(File.read(Dir[File.join(@folder, "bench-results/#{name}-tiny*.json")].first))
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

  # A row of elbencho's CSV, as its docs/csv-docs.md has it: the command line stands in it with blanks for commas.
  ELBENCHO = <<~'SHELL'
    labels='ISO date,label,path type,paths,hosts,threads,dirs,files,file size,block size,direct IO,random,random aligned,IO depth'
    labels="$labels,shared paths,truncate,operation,time ms [first],time ms [last],entries/s [first],entries/s [last]"
    labels="$labels,IOPS [first],IOPS [last],MiB/s [first],MiB/s [last],CPU% [first],CPU% [last],entries [first],entries [last]"
    labels="$labels,MiB [first],MiB [last],version,command"
    row() {
      echo "$labels" >rows.csv
      echo "2026-01-01T00:00:00,,dir,1,1,2,0,1,8388608,1048576,0,0,,1,,0,$1,$2,$2,1,1,$3,$3,$3,$3,9,9,2,2,$4,$4,3.1-9,\"elbencho\"" \
        >>rows.csv
    }
  SHELL

  def test_what_elbencho_tells_are_steps_of_a_result
    words = "-t 2 -n 0 -N 1 -s 8388608 -b 1048576 --nolive --csvfile rows.csv --resfile text.txt --jsonfile rows.json"
    environment = stand_in_alone("elbencho", "--[wr]* #{words} --direct data-[12]", <<~SHELL)
      #{ELBENCHO}
      # A long step, whose ms are exact, and a short one, whose calls a second are.
      case $1 in --write) row WRITE 2000 8 16 ;; *) row READ 3 4096 16 ;; esac
    SHELL
    figures, = ran("elbencho", environment, "--", "--direct")
    assert_equal %w[write read], figures.keys
    assert_in_delta (16 << 20) / 2.0, figures["write"]["bw"], 1
    assert_in_delta (16 << 20) * 256.0, figures["read"]["bw"], 1
    assert_equal 2, figures["read"]["reps"]
    result = JSON.parse(File.read(File.join(@folder, "bench-results/elbencho-tiny-direct.json")))
    assert_equal %w[8388608 1048576 2 --direct], result["settings"]["words"]
  end

  def test_what_elbencho_has_not_moved_and_its_errors_are_said
    environment = stand_in_alone("elbencho", "*", "#{ELBENCHO}\nrow \"$(echo \"$1\" | tr -d - | tr a-z A-Z)\" 2000 8 15")
    out, _, status = bench("run", "elbencho", environment: environment)
    assert_equal 3, status.exitstatus
    assert_match(/write-1: 15 MiB of 16/, out)
    environment = stand_in_alone("elbencho", "*", "echo 'ERROR: unrecognised option --jsonfile' >&2; exit 1")
    out, _, status = bench("run", "elbencho", environment: environment)
    assert_equal 1, status.exitstatus
    assert_match(/elbencho: ERROR: unrecognised option --jsonfile/, out)
  end

  # The CSV of h5bench; the configuration must be that of the size and what stands behind --.
  def h5bench(way, raw, observed, size = "16.000, MB")
    lines = ["metric, value, unit", "operation, #{way}, ", "ranks, 2, ", "collective data, YES, ", "collective meta, NO, ",
             "subfiling, NO, ", "total compute time, 0.000, seconds", "total size, #{size}", "raw time, 0.004, seconds",
             "raw rate, #{raw}", "metadata time, 0.001, seconds", "observed rate, #{observed}", "observed time, 0.009, seconds"]
    stand_in("h5bench_#{way}", "#{way}.cfg data.h5", <<~SHELL)
      grep -qx IO_OPERATION=#{way.upcase} #{way}.cfg && grep -qx DIM_1=131072 #{way}.cfg && grep -qx TIMESTEPS=2 #{way}.cfg &&
        grep -qx COLLECTIVE_DATA=YES #{way}.cfg || { echo "Unknown Parameter: X"; exit 0; }
      : >data.h5
      printf '%s\\n' #{lines.map { |line| "'#{line}'" }.join(" ")} >"$(sed -n s/^CSV_FILE=//p #{way}.cfg)"
    SHELL
  end

  def test_what_h5bench_tells_are_steps_of_a_result
    h5bench("write", "4.000, GB/s", "512.000, MB/s")
    environment = h5bench("read", "8192.000, KB/s", "1.000, MB/s")
    figures, = ran("h5bench", environment, "--", "COLLECTIVE_DATA=YES")
    assert_equal %w[write write-data read read-data], figures.keys
    assert_equal([512 << 20, 4 << 30, 1 << 20, 8 << 20], figures.values.map { |one| one["bw"].round })
    assert_equal 2, figures["write"]["reps"]
  end

  def test_what_h5bench_has_not_moved_and_its_errors_are_said
    h5bench("write", "4.000, GB/s", "512.000, MB/s")
    environment = h5bench("read", "4.000, GB/s", "1.000, GB/s", "8.000, MB")
    out, _, status = bench("run", "h5bench", "--", "COLLECTIVE_DATA=YES", environment: environment)
    assert_equal 3, status.exitstatus
    assert_match(/read-1: 8388608 bytes, expected 16777216/, out)
    out, _, status = bench("run", "h5bench", environment: environment)
    assert_equal 1, status.exitstatus
    assert_match(/h5bench: Unknown Parameter: X/, out)
  end

  def test_a_program_that_is_not_in_debian_is_missing
    sources = { "ior" => "hpc/ior", "mdtest" => "hpc/ior", "elbencho" => "breuner/elbencho", "h5bench" => "hpc-io/h5bench" }
    sources.each do |name, at|
      program = name == "h5bench" ? "h5bench_write" : name
      without = { "PATH" => ENV.fetch("PATH").split(":").reject { |folder| File.exist?(File.join(folder, program)) }.join(":") }
      _, err, status = bench("run", name, environment: without)
      assert_equal 2, status.exitstatus
      assert_includes err, "no #{program} in PATH (not in Debian: build it from https://github.com/#{at})"
    end
  end

  def test_words_behind_go_to_one_program_and_are_refused_for_several
    program("printf '#{JSON.generate(STEPS)}'; [ \"$*\" = '7 --more' ]")
    out, err, status = bench("run", "copy", "--", "--more")
    assert status.success?, out + err
    _, err, status = bench("run", "copy", "metadata", "--", "--more")
    assert_equal 2, status.exitstatus
    assert_match(/options behind -- \(--more\) are for MPI kernels of `run`, for one benchmark of others/, err)
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
