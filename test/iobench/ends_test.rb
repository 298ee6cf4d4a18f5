# frozen_string_literal: true

require "fileutils"
require "json"
require "minitest/autorun"
require "open3"
require "tmpdir"
require "rakuda/bench/launch"
require "rakuda/bench/processes"
require "rakuda/bench/verification"
require "support/bench_folder"
require "support/waiting"

# How runs of `rakudactl bench` end that do not end well: interrupted, killed, out of space, with words that mean
# nothing. What was measured is there, nothing else is left, and the reason is said in one line.
class BenchEndsTest < Minitest::Test
  include BenchFolder
  include Waiting

  KERNEL = %w[run argot-io -- --mesh 8x8x8 --reps 1000 --compute 0.1].freeze

  def refused(*words, with: 2)
    out, err, status = bench(*words)
    assert_equal with, status.exitstatus, out + err
    refute_match(/from \S+:\d+:in|\.rb:\d+/, err)
    err
  end

  def spawned(*words)
    Process.spawn(RAKUDACTL, "bench", *words, chdir: @folder, out: at("out"), err: at("err"))
  end

  # @return [Array(Integer, String)] exit status, and what it said
  def ended(pid, signal)
    Process.kill(signal, pid)
    [Process.wait2(pid).last.exitstatus, File.read(at("err"))]
  end

  def one_line(said)
    refute_match(/\.rb:\d+|terminated with exception/, said)
    assert_match(/^rakudactl bench: interrupted$/, said)
  end

  def workflow(seconds, tasks: 1)
    list = Array.new(tasks) do |i|
      { "id" => "t#{i}", "name" => "t#{i}", "parents" => [], "inputFiles" => [], "outputFiles" => ["o#{i}"] }
    end
    files = list.map { |task| { "id" => task["outputFiles"].first, "sizeInBytes" => 5 } }
    times = list.map { |task| { "id" => task["id"], "runtimeInSeconds" => seconds } }
    document(list, files, times)
  end

  def document(list, files, times)
    workflow = { "specification" => { "tasks" => list, "files" => files }, "execution" => { "tasks" => times } }
    File.write(at("w.json"), JSON.generate("name" => "w", "workflow" => workflow))
  end

  def rank? = Open3.capture2e("pgrep", "-f", "argot-io --dir #{@folder}").last.success?

  # Starts a kernel, and kills its guard when it writes.
  # @return [Array(Integer, Integer)] both processes
  def kernel_without_guard
    pid = spawned(*KERNEL)
    wait_for("its files") { rank? && File.exist?(at("bench-work/argot-io")) }
    guard, status = Open3.capture2("pgrep", "-P", pid.to_s, "-f", "read -r word")
    assert status.success?
    Process.kill(:KILL, Integer(guard))
    [pid, Integer(guard)]
  end

  # An engine that ends well twice, and then waits.
  def engine(line)
    FileUtils.mkdir_p(at("bin"))
    File.write(at("bin/ninja"), "#!/bin/sh\n#{line}\n")
    File.chmod(0o755, at("bin/ninja"))
    { "PATH" => "#{at("bin")}:#{ENV.fetch("PATH")}" }
  end

  def test_rounds_that_were_are_kept_when_a_comparison_is_interrupted
    workflow(0.0)
    %i[INT TERM].each do |signal|
      environment = engine("[ $1 = --version ] && echo 1.2 && exit\necho x >>#{at("count")}\n" \
                           "[ $(wc -l <#{at("count")}) -le 2 ] || exec sleep 1000\nexit 1")
      pid = Process.spawn(environment, RAKUDACTL, "bench", "compare", "w.json", "--engines", "make,ninja", "--rounds", "6",
                          chdir: @folder, out: at("out"), err: at("err"))
      wait_for("the third round") { File.exist?(at("count")) && File.read(at("count")).size >= 6 }
      status, said = ended(pid, signal)
      assert_equal 128 + Signal.list.fetch(signal.to_s), status
      one_line(said)
      assert_match(/^w: not run to its end; results of 2 rounds are in /, said)
      result = JSON.parse(File.read(Dir[at("bench-results/w-own-*-make.json")].first))
      assert_equal [false, 2], [result["valid"], result["rounds"].size]
      assert_match(/2 of 6 rounds: the comparison did not come to its end/, result["reasons"].join)
      assert_empty Rakuda::Bench::Verification.schema_faults(result)
      refute_path_exists at("bench-work")
      FileUtils.rm_rf([at("count"), at("bench-results")])
    end
  end

  def test_interrupts_are_one_line_whatever_runs
    { KERNEL => "argot-io/*", %w[compare w.json --engines rakuda --scale-time 1] => "rakuda-0/.tasks",
      %w[emit homology --engines make --size small] => "emitted/*.fasta" }.each do |words, begun|
      workflow(500)
      %i[INT TERM].each do |signal|
        pid = spawned(*words)
        wait_for(words.first(2).join(" ")) { !Dir[at("bench-work/#{begun}")].empty? }
        status, said = ended(pid, signal)
        assert_equal 128 + Signal.list.fetch(signal.to_s), status, said
        one_line(said)
        refute_path_exists at("bench-work")
        wait_for("all that it started to end") { !Open3.capture2e("pgrep", "-f", @folder).last.success? }
      end
    end
  end

  def test_a_run_whose_starter_is_killed_is_ended_and_its_folder_is_taken_again_then
    pid = spawned(*KERNEL)
    wait_for("its ranks") { rank? }
    # By then its guard has heard of them.
    wait_for("its files") { Dir[at("bench-work/argot-io/*")].any? }
    ended(pid, :KILL)
    wait_for("its ranks to end") { !rank? }
    # Until its guard has ended the folder is in use, and nobody is told anything else.
    said = nil
    wait_for("the folder") do
      _, said, status = bench("run", "metadata")
      assert_match(/what a run that was killed has started is being ended/, said) unless status.success?
      status.success?
    end
    refute_path_exists at("bench-work")
  end

  def test_what_is_left_when_the_guard_was_killed_too_is_named
    pid, = kernel_without_guard
    ended(pid, :KILL)
    said = refused("run", "metadata")
    assert_match(/a run that was killed has left processes: .*\d+ \(mpirun /, said)
    assert_path_exists at("bench-work/argot-io")
    said.scan(/(\d+) \(\S*mpirun/).flatten.each { |one| Process.kill(:TERM, one.to_i) }
    wait_for("all of it to end") do
      _, said, status = bench("run", "metadata")
      status.success?
    end
    refute_path_exists at("bench-work")
  end

  # Its lock goes with its guard.
  def test_a_folder_whose_guard_was_killed_is_in_use_as_before
    pid, guard = kernel_without_guard
    wait_for("its end") { Rakuda::Bench::Processes.started(guard).nil? }
    assert_match(/bench-work is in use \(process #{pid}\): wait/, refused("run", "metadata"))
    assert_path_exists at("bench-work/argot-io")
    status, = ended(pid, :TERM)
    assert_equal 143, status
    refute_path_exists at("bench-work")
  end

  def test_what_a_killed_run_has_left_is_removed_by_the_next_one_which_says_so
    FileUtils.mkdir_p(at("bench-work/make-0"))
    File.write(at("bench-work/mine"), "")
    state = { "by" => "rakudactl bench", "made" => true, "kept" => false, "stay" => %w[mine], "pid" => 1 }
    File.write(at("bench-work/.rakuda-bench"), JSON.generate(state))
    _, said, status = bench("run", "metadata")
    assert status.success?, said
    assert_match(/bench-work: removed what a run that was killed has left/, said)
    assert_equal %w[.rakuda-bench mine], Dir.children(at("bench-work")).sort
  end

  def test_a_kernel_that_failed_gives_its_own_reason
    built, made = Open3.capture2e("make", "-s", "-C", "#{ROOT}/iobench", "build/faults.so")
    assert made.success?, built
    FileUtils.mkdir_p(at("iobench"))
    File.write(at("iobench/argot-io"), <<~SH)
      #!/bin/sh
      LD_PRELOAD="#{ROOT}/iobench/build/faults.so" IOBENCH_FAULT="0:1:quota:/bench-work/" exec "#{ROOT}/iobench/build/argot-io" "$@"
    SH
    File.chmod(0o755, at("iobench/argot-io"))
    out, err, status = bench(*%w[run argot-io -- --writer block --block 4096], environment: { "IOBENCH" => at("iobench") })
    assert_equal 1, status.exitstatus, out + err
    assert_match(/not valid: it gave no result: failed: rank 0: .*Disk quota exceeded/, out)
    assert_empty Dir[at("bench-results/*_fail_")]
    refute_match(/to resume:|^\S*bench\.rake:\d/, err)
  end

  def test_a_rank_that_was_killed_is_the_reason
    pid = spawned(*KERNEL)
    wait_for("its files") { !Dir[at("bench-work/argot-io/*")].empty? }
    ranks, status = Open3.capture2("pgrep", "-f", "^[^ ]*/argot-io --dir #{@folder}")
    assert status.success?
    Process.kill(:KILL, Integer(ranks.split.last))
    assert_equal 1, Process.wait2(pid).last.exitstatus
    assert_match(/it gave no result: status 137, mpirun noticed that process rank \d .*signal 9/, File.read(at("out")))
  end

  # What engines print when a task of theirs fails.
  def test_the_reason_is_the_line_that_says_why
    reason = Rakuda::Bench::Launch.method(:reason)
    full = "io-task: cannot write a: No space left on device"
    { "#{full}\nmake: *** [Makefile:7: a] Error 1\n" => full,
      "#{full}\nrakuda aborted!\nTasks: TOP => default => a\n(See full trace by --trace)\nto resume: rakuda -j 2\n" => full,
      "bin/rakuda:3:in `write': No space left on device (Errno::ENOSPC)\n\tfrom bin/rakuda:21:in <main>\n" =>
        "bin/rakuda:3:in `write': No space left on device (Errno::ENOSPC)",
      "----\nmpirun noticed that process rank 1 exited on signal 9 (Killed).\n-----\n" =>
        "mpirun noticed that process rank 1 exited on signal 9 (Killed).",
      "odd\nlast\n\n" => "last" }.each { |output, line| assert_equal line, reason.call(output) }
    assert_nil reason.call("\n----\n")
  end

  def test_rounds_are_long_beside_what_starting_a_program_takes
    launch = Rakuda::Bench::Launch
    assert_operator launch.null_s, :positive?
    assert_equal [], launch.null_faults(0.005, [0.2, 0.1])
    assert_equal [], launch.null_faults(nil, [0.1]), "results of earlier versions do not say it"
    assert_equal [], launch.null_faults(0.005, []), "no round ended well"
    assert_equal ["a program that does nothing takes 6.0 ms, the shortest round 100.0 ms: expected at most 5 % of it"],
                 launch.null_faults(0.006, [0.2, 0.1])
  end

  def test_a_comparison_says_why_an_engine_failed_and_runs_the_others
    workflow(0.0)
    FileUtils.mkdir_p(at("iobench"))
    File.write(at("iobench/io-task"), "#!/bin/sh\necho 'io-task: cannot write o0: No space left on device' >&2\nexit 1\n")
    File.chmod(0o755, at("iobench/io-task"))
    out, err, status = bench("compare", "w.json", "--engines", "make,xargs,rakuda,rake", "--rounds", "1",
                             environment: { "IOBENCH" => at("iobench") })
    assert_equal 1, status.exitstatus, err
    assert_equal 4, out.scan(/not valid: round 1: ended with \d+: io-task: cannot write o0: No space left on device$/).size, out
  end

  def test_rounds_end_when_there_is_no_more_space_or_time
    workflow(0.0)
    FileUtils.mkdir_p(at("iobench"))
    # Room for the first round alone.
    File.write(at("iobench/room"), "#!/bin/sh\n[ -e #{at("bench-results")}/w-own-*-make.json ] && echo 3 - || echo 99999 -\n")
    File.chmod(0o755, at("iobench/room"))
    out, err, status = bench(*%w[compare w.json --engines make --rounds 5], environment: { "IOBENCH" => at("iobench") })
    assert_equal 3, status.exitstatus, out + err
    assert_match(/not valid: 1 of 5 rounds: too little space at .*: 5 bytes are written, 3 are free/, out)
    # The first round is kept, too, when there is no time for all.
    workflow(2.0)
    out, err, status = bench("compare", "w.json", "--engines", "make", "--rounds", "50", "--scale-time", "1", "--timeout", "60")
    assert_equal 2, status.exitstatus, out + err
    assert_match(/50 rounds would take about \d+ s: expected at most 60 s/, err)
    assert_match(/results of 1 round are in/, err)
  end

  # One that cannot be run does not keep the others from it.
  def test_a_family_goes_on_with_what_can_be_run
    File.write(at("wfcommons.py"), "raise ImportError")
    require "rakuda/bench/suites"
    require "rakuda/bench/options"
    said = []
    options = Rakuda::Bench::Options.new(["--out", at("bench-results"), "--dir", at("bench-work")])
    results = Rakuda::Bench::Suites.each_of(%w[copyfile montage-io], options, said.method(:<<)) do |name|
      raise Rakuda::Bench::Failure, "it broke" if name == "copyfile"

      [{ "benchmark" => name }]
    end
    assert_equal(%w[copyfile montage-io], results.map { |result| result["benchmark"] })
    assert_equal ["copyfile: it broke"], said
    assert_empty Rakuda::Bench::Verification.faults(JSON.parse(File.read(at("bench-results/copyfile-tiny-failed.json"))))
  end

  def test_words_that_mean_nothing_are_refused_and_not_traced
    ["", ","].each { |word| assert_match(/--engines .*expected names/, refused("compare", "copyfile", "--engines", word)) }
    assert_match(/--engines .*expected names/, refused("compare", "mr-sort", "--engines", ""))
    assert_match(/--style .*expected flat, idiomatic/, refused("compare", "copyfile", "--engines", "make", "--style", ""))
    assert_match(/--np "": expected numbers/, refused("run", "argot-io", "--np", ""))
    assert_match(/--nodes 2: say which with -F or --cluster/, refused("run", "argot-io", "--nodes", "2", "--np", "2"))
    assert_match(%r{-F /nonexistent: no such file}, refused("run", "argot-io", "-F", "/nonexistent"))
    assert_match(/one engine at a time: make, rake/, refused("emit", "copyfile", "--engines", "make,rake"))
    assert_match(/a folder without a colon/, refused("run", "fio", "--dir", "a:b"))
  end

  def test_a_workflow_with_wrong_values_is_refused_in_one_short_line
    task = { "id" => "a", "name" => "a", "parents" => [], "inputFiles" => [], "outputFiles" => ["o"] }
    { [[], 5, 1] => /it has no tasks/, [[task], "big", 1] => /sizeInBytes is "big": expected 0 to/,
      [[task], -5, 1] => /sizeInBytes is -5: expected 0 to/,
      [[task], 5, "x" * 2000] => /runtimeInSeconds is "x{39}: expected 0 or more/ }.each do |(tasks, bytes, seconds), told|
      document(tasks, [{ "id" => "o", "sizeInBytes" => bytes }], [{ "id" => "a", "runtimeInSeconds" => seconds }])
      assert_match(told, refused("compare", "w.json", "--engines", "make", "--scale-time", "1"))
    end
  end

  def test_results_that_are_none_are_refused_by_all_that_show_them
    _, err, status = bench("compare", "copyfile", "--engines", "make")
    assert status.success?, err
    good = JSON.parse(File.read(at("bench-results/copyfile-tiny-make.json")))
    { "rounds" => [], "derived" => { "makespan_s" => 3 }, "engine" => {} }.each do |key, value|
      File.write(at("bad.json"), JSON.generate(good.merge(key => value)))
      [%w[report bad.json], %w[diff bad.json bad.json], %w[predict bad.json bad.json]].each do |words|
        assert_match(/bad\.json: no result that can be shown: against the schema: #{key}/, refused(*words))
      end
    end
    no_times = good.merge("rounds" => good["rounds"].map { |round| round.merge("tasks_ns" => []) })
    assert_match(/tasks_ns/, Rakuda::Bench::Verification.faults(no_times).join)
  end

  def test_bytes_of_each_benchmark_are_told
    %w[argot-io fio copyfile homology montage mr-sort wf-bwa fio-files].each do |name|
      out, err, status = bench("info", name)
      assert status.success?, err
      assert_match(/^tiny .*\d [kMG]B\b/, out, name)
    end
  end
end
