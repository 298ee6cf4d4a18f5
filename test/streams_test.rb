# frozen_string_literal: true

# Streams between the tasks of a Rakefile: the word `stream`, what runs when, what comes out, and what is said of
# mistakes and failures.

require "json"
require "minitest/autorun"
require "open3"
require "rakuda"
require_relative "support/run_processes"
require_relative "support/stream_run"

class StreamsTest < Minitest::Test
  include StreamRun

  MIXED = <<~RAKEFILE
    stream :s, from: %w[a b], to: %w[sorted count]
    task(:a) { sh "seq 3", verbose: false; puts "not in it"; sh "seq 4 6", verbose: false }
    task(:b => "from") { sh "seq 11 $(cat from)", verbose: false }
    file("sorted") { |t| sh "sort -n > \#{t.name}", verbose: false }
    file("count") { |t| sh "wc -l > \#{t.name}", verbose: false }
    file("from") { |t| sh "echo 13 > \#{t.name}", verbose: false }
    file("sum" => "count") { |t| sh "cp count sum", verbose: false }
    task default: "sum"
  RAKEFILE

  def test_commands_of_a_task_are_one_group_and_files_go_beside_streams
    [%w[-j4], %w[-j2], %w[-j1]].each do |options|
      rakuda(MIXED, *options) do |run|
        assert_equal [0, "not in it\n"], [run.status, run.out], run.err
        assert_equal [1, 2, 3, 4, 5, 6, 11, 12, 13], File.readlines("sorted").map(&:to_i), options
        assert_equal "9", File.read("sum").strip
        shared = "rakuda: tasks a, b, sorted, count share cores, of which there are fewer than they ask for (oversubscribed)\n"
        assert_equal options == %w[-j2], run.err.include?(shared), run.err
        assert_empty File.binread(Dir[".rakuda/runs/*/output.log"].first).scan(/^\d+$/)
      end
    end
  end

  # `b` ends while the stream that it writes into is still read from.
  def test_a_reader_that_has_got_all_did_not_leave_early
    rakefile = <<~'RAKEFILE'
      stream :one, from: "a", to: "b"
      stream :two, from: "b", to: "c"
      task(:a) { sh "seq 1000", verbose: false }
      task(:b) { sh "cat", verbose: false }
      file("c") { |t| sh "cat > #{t.name}; sleep 0.2", verbose: false }
    RAKEFILE
    rakuda(rakefile, "-j3", "c") do |run|
      assert_equal 0, run.status, run.err
      lines = File.readlines(Dir[".rakuda/runs/*/journal.jsonl"].first).grep(/"streams_ended"/)
      ended = lines.map { |line| JSON.parse(line) }
      readers = ended.flat_map { |event| event["streams"] }.flat_map { |stream| stream["readers"] }
      got = readers.map { |reader| reader.values_at("records", "is_special") }
      assert_equal [[1000, false]] * 2, got
    end
  end

  # If it were not cut off, the writer would never end.
  def test_a_reader_in_the_background_is_cut_off_when_its_task_ends
    rakefile = <<~'RAKEFILE'
      stream :s, from: "w", to: "r"
      task(:w) { sh "yes", verbose: false }
      file("r") { |t| sh "exec 3<&0; cat <&3 > all & echo gone > #{t.name}", verbose: false }
    RAKEFILE
    rakuda(rakefile, "-j2", "r") { |run| assert_equal [0, "gone\n"], [run.status, File.read("r")], run.err }
    waits = rakefile.sub("yes", "seq 3").sub("; cat", "; (until test -s r; do sleep 0.05; done; cat").sub("> all &", "> all) &")
    rakuda(waits.sub("\#{t.name}", "\#{t.name}; wait"), "-j2", "r") do |run|
      assert_equal [0, "1\n2\n3\n"], [run.status, File.read("all")], run.err
    end
  end

  def test_a_writer_in_the_background_keeps_readers_waiting
    rakefile = <<~'RAKEFILE'
      stream :s, from: "w", to: "r"
      task(:w) { sh "(while kill -0 $$; do sleep 0.05; done 2>/dev/null; echo late) & echo first", verbose: false }
      file("r") { |t| sh "cat > #{t.name}", verbose: false }
    RAKEFILE
    rakuda(rakefile, "-j2", "r") { |run| assert_equal [0, "first\nlate\n"], [run.status, File.read("r")], run.err }
  end

  THREADS = <<~'RAKEFILE'
    stream :s, from: "w", to: "r"
    task(:w) do
      threads = %w[a b].map do |name|
        Thread.new do
          Thread.new { sh "for i in 1 2 3; do echo #{name}; sleep 0.02; done", verbose: false }.join
          sh("pwd; exit 4", verbose: false) { |good, status| p [good, status.exitstatus, $?.exitstatus] }
        end
      end
      sh "echo c", verbose: false
      cd("/", verbose: false) { Thread.new { sh({ "WORD" => "d" }, "sh", "-c", "pwd; echo $WORD", verbose: false) }.join }
      threads.each(&:join)
    end
    file("r") { |t| sh "cat > #{t.name}", verbose: false }
  RAKEFILE

  def test_commands_of_threads_go_into_the_stream_of_their_task_one_after_the_other
    %w[-j2 -j1].each do |jobs|
      rakuda(THREADS, jobs, "r") do |run|
        assert_equal [0, "", "[false, 4, 4]\n" * 2], [run.status, run.err, run.out]
        lines = File.readlines("r").map(&:chomp)
        assert_equal 11, lines.size, lines
        assert_equal %w[a b c d], lines.grep(/\A\w\z/).chunk_while { |one, other| one == other }.map(&:first).sort
        assert_equal "/", lines[lines.index("d") - 1]
      end
    end
  end

  def test_a_command_of_a_thread_that_fails_fails_the_stream
    rakefile = <<~'RAKEFILE'
      stream :s, from: "w", to: "r"
      task(:w) { Thread.new { Thread.current.report_on_exception = false; sh "exit 3", verbose: false }.join }
      file("r") { |t| sh "cat > #{t.name}", verbose: false }
    RAKEFILE
    rakuda(rakefile, "-j2", "r") do |run|
      assert_equal 1, run.status, run.err
      assert_includes run.err, "Command failed with status (3)"
      refute File.exist?("r")
    end
  end

  def test_a_writer_that_started_no_command_is_told
    rakefile = <<~'RAKEFILE'
      stream :s, from: %w[w x], to: "r"
      task(:w) { puts "mine"; system "echo too" }
      task(:x) { sh "true", verbose: false }
      file("r") { |t| sh "cat > #{t.name}", verbose: false }
    RAKEFILE
    rakuda(rakefile, "-j3", "r") do |run|
      assert_equal [0, ""], [run.status, File.read("r")], run.err
      assert_equal "rakuda: stream s: task w started no command with sh, so nothing went into it\n", run.err
    end
  end

  # The reader has what it wanted, and ends well; then the writer fails.
  def test_what_a_reader_has_made_of_a_stream_that_fails_later_is_no_result
    rakefile = <<~'RAKEFILE'
      stream :s, from: "a", to: "first"
      task(:a) { sh "echo 1; until test -s first; do sleep 0.05; done; sleep 0.1; exit 3", verbose: false }
      file("first") { |t| sh "head -n 1 > #{t.name}", verbose: false }
    RAKEFILE
    rakuda(rakefile, "-j2", "first") do |run|
      assert_equal 1, run.status, run.err
      refute File.exist?("first"), run.err
      assert_equal "1\n", File.read("first._fail_")
    end
  end

  # The reader has what it wanted, and ends well; then the run is cut off.
  EARLY_READER = <<~'RAKEFILE'
    stream :s, from: "a", to: "first"
    task(:a) { sh "echo 1; until test -e go; do sleep 0.05; done", verbose: false }
    file("first") { |t| sh "echo >> made; head -n 1 > #{t.name}", verbose: false }
  RAKEFILE

  { interrupted: %i[INT rakuda], terminated: %i[TERM rakuda], killed: %i[KILL hub] }.each do |how, (signal, whom)|
    %w[rename leave].each do |policy|
      define_method("test_what_a_reader_has_made_is_no_result_when_the_run_is_#{how}_and_failed_targets_#{policy}") do
        check_early_reader(signal, whom, policy)
      end
    end
  end

  def check_early_reader(signal, whom, policy)
    start_rakuda(EARLY_READER, "-j2", "first", "FAILED_TARGET=#{policy}") do |pid, folder, out|
      journal = -> { Dir["#{folder}/.rakuda/runs/*/journal.jsonl"].map { |path| File.read(path) }.join }
      sleep 0.02 until journal.call.include?("attempt_ended")
      victim = whom == :hub ? RunProcesses.of(pid).fetch(:hub) : pid
      Process.kill(signal, victim)
      told = out.read
      Process.wait(pid)
      assert_equal [policy == "leave", policy == "rename"],
                   %w[first first._fail_].map { |name| File.exist?("#{folder}/#{name}") }, told
      FileUtils.touch("#{folder}/go")
      again, status = Open3.capture2e(@engine_environment, RAKUDA, "-j2", "first", chdir: folder)
      assert_predicate status, :success?, again
      assert_equal ["1\n", "\n\n"], %w[first made].map { |name| File.read("#{folder}/#{name}") }, again
    end
  end

  def test_a_stream_with_a_worker_of_sync_is_refused
    rakefile = <<~'RAKEFILE'
      sync(:w, workers: 1, overhead: false) { |w| sh "true" }
      stream :s, from: "w:task_0_w0", to: "out"
      file("out") { |t| sh "cat > #{t.name}" }
    RAKEFILE
    rakuda(rakefile, "-j2", "out") do |run|
      assert_equal 1, run.status, run.err
      assert_match(/Rakefile:2: stream: s: task w:task_0_w0 is in two gangs/, run.err)
    end
  end

  def test_component_runs_as_a_whole_when_a_file_of_it_is_out_of_date
    in_folder(MIXED) do
      assert_equal 0, again("-j4").status
      ran = ->(run) { run.out.include?("not in it") }
      refute ran.(again("-j4"))
      FileUtils.rm("sorted")
      refute ran.(again("-j4", "from"))
      assert ran.(again("-j4", "count")), "one file of the component is missing"
      assert_path_exists "sorted"
    end
  end

  UPSTREAM = <<~'RAKEFILE'
    stream :two, from: "between", to: "end"
    stream :one, from: "w", to: "between"
    task(:w => "in") { sh "cat in", verbose: false }
    task(:between) { sh "sort", verbose: false }
    file("end") { |t| sh "cat > #{t.name}", verbose: false }
    file("in" => "source") { |t| cp "source", t.name, verbose: false }
  RAKEFILE

  def test_a_file_is_out_of_date_when_what_those_upstream_depend_on_is_newer
    %w[-j4 -j1].each do |jobs|
      in_folder(UPSTREAM) do
        File.write("source", "1\n")
        assert_equal 0, again(jobs, "end").status
        was_made = File.mtime("end")
        assert_equal 0, again(jobs, "end").status
        assert_equal was_made, File.mtime("end"), "nothing has changed"
        File.write("source", "2\n")
        planned = again(jobs, "-n", "end")
        assert_includes planned.out, "end: in would run\n"
        assert_equal was_made, File.mtime("end")
        run = again(jobs, "end")
        assert_equal [0, "2\n"], [run.status, File.read("end")], run.err
        assert_match(/\bin\b/, control("story", "end"))
      end
    end
  end

  def test_a_file_whose_writer_depends_on_a_task_that_always_runs_is_made_each_time
    rakefile = <<~'RAKEFILE'
      stream :s, from: "w", to: "out"
      task(:setup) { sh "true", verbose: false }
      task(:w => :setup) { sh "echo >> runs; seq 3", verbose: false }
      file("out") { |t| sh "cat > #{t.name}", verbose: false }
    RAKEFILE
    in_folder(rakefile) do
      2.times { assert_equal 0, again("-j2", "out").status }
      assert_equal 2, File.readlines("runs").size
    end
  end

  def test_an_action_that_invokes_what_a_stream_joins_with_it_fails_at_once
    %w[-j4 -j1].product([%w[w r], %w[r w]]).each do |jobs, (caller, called)|
      rakefile = <<~RAKEFILE
        stream :s, from: "w", to: "r"
        task(:#{caller}) { Rake::Task["#{called}"].invoke; sh "true", verbose: false }
        task(:#{called}) { sh "true", verbose: false }
      RAKEFILE
      rakuda(rakefile, jobs, "r") do |run|
        assert_equal 1, run.status, run.err
        assert_match(/Rakefile:1: the action of #{caller} invokes #{called}, .*stream s joins the two/, run.err)
      end
    end
  end

  def test_nothing_begins_by_turns_after_a_failure_and_each_has_its_own_retries
    rakefile = <<~'RAKEFILE'
      stream :s, from: %w[w0 w1], to: "r"
      2.times { |i| task("w#{i}") { sh "echo w#{i} >> runs; test -e ok#{i} || { touch ok#{i}; exit 3; }", verbose: false } }
      task(:r) { sh "echo r >> runs; cat", verbose: false }
    RAKEFILE
    rakuda(rakefile, "-j1", "r") do |run|
      assert_equal [1, "w0\n"], [run.status, File.read("runs")], run.err
      refute_match(/w1|because of *$/, control("story", "w0"))
      refute_match(/because of *$/, control("story", "r"))
    end
    rakuda(rakefile, "-j1", "r", "RETRY=1") do |run|
      assert_equal [0, "w0\nw0\nw1\nw1\nr\n"], [run.status, File.read("runs")], run.err
    end
  end

  def test_accounts_are_shown_and_balanced
    rakuda(MIXED, "-j4") do |run|
      assert_equal 0, run.status, run.err
      stream = JSON.parse(control("report", "--json")).fetch("streams").first
      assert_equal ["s", 21, 9, true], stream.values_at("name", "bytes", "records", "balanced")
      assert_equal({ "a" => 6, "b" => 3 }, stream["writers"].to_h { |side| side.values_at("task", "records") })
      assert_includes control("report", "--text"), "stream s: 21 B, 9 records, in = out\n  from a: 12 B, 6 records\n"
      assert_match(/s0 \[label="s\\n21 B".*s0 -> t\d+;/m, (control("export", "dot", "-o", "g.dot") && File.read("g.dot")))
    end
  end

  # The bench lasts two minutes; here some seconds show the same: nothing lost, memory bounded, another stream goes on.
  def test_a_reader_that_sleeps_in_the_middle_loses_nothing_and_holds_up_no_other_stream
    out, status = Open3.capture2e(File.join(ROOT, "bench/streams/sleeper"), "--seconds", "8", "--mib", "16")
    assert status.success?, out
    assert_equal 4, out.scan(/^ok: /).size, out
  end

  # The slow reader waits for what the fast one makes at its end.
  def test_slow_reader_whose_rest_is_spilled_holds_up_nobody
    rakefile = <<~'RAKEFILE'
      stream :s, from: "all", to: %w[fast slow], slow: :spill, spill: "64MB"
      task(:all) { sh "seq 2000000", verbose: false }
      file("fast") { |t| sh "cksum > #{t.name}.new && mv #{t.name}.new #{t.name}", verbose: false }
      file("slow") { |t| sh "until test -e fast; do sleep 0.05; done; cksum > #{t.name}", verbose: false }
    RAKEFILE
    rakuda(rakefile, "-j3", "slow") do |run|
      assert_equal 0, run.status, run.err
      assert_equal File.read("fast"), File.read("slow")
      stream = JSON.parse(control("report", "--json")).fetch("streams").first
      assert_operator stream["spilled_bytes"], :>, 4 << 20
      assert stream["balanced"]
      assert_match(/^stream s: .* in = out, [\d.]+ MB spilled for slow readers \([\d.]+ MB at most at one time\)$/,
                   control("report", "--text"))
      refute Dir.exist?(".rakuda/spools"), "the folder goes with the run"
    end
    rakuda(rakefile.sub(/until .* done; /, ""), "-j1", "slow") do |run|
      assert_equal [0, File.read("fast")], [run.status, File.read("slow")], run.err
    end
  end

  def test_reader_that_leaves_early_ends_its_writer_well
    rakuda(<<~RAKEFILE, "-j2") { |run| assert_equal [0, "y\ny\n"], [run.status, File.read("two")], run.err }
      stream :s, from: "all", to: "two"
      task(:all) { sh "yes" }
      file("two") { sh "head -n 2 > two" }
      task default: "two"
    RAKEFILE
  end

  # Nobody reads while a spool is written: only its cap ends a writer that goes on and on.
  def test_a_spool_has_a_cap_and_a_file_a_limit
    rakefile = <<~RAKEFILE
      stream :s, from: "all", to: "two", spool_max: "1M"
      task(:all) { sh "yes" }
      file("two") { sh "head -n 2 > two" }
    RAKEFILE
    rakuda(rakefile, "-j1", "two") do |run|
      assert_equal 1, run.status, run.err
      words = "stream s: its spool would have more than 1048576 bytes, the most that `spool_max:` allows; give the stream"
      assert_includes run.err, "rakuda aborted!\n#{words}"
      refute_includes run.err, "Command failed"
    end
    in_folder(rakefile.sub(', spool_max: "1M"', "")) do
      out, status = Open3.capture2e(@engine_environment, "sh", "-c", "ulimit -f 1000; exec '#{RAKUDA}' -j1 two")
      refute status.success?
      assert_includes out, "rakuda aborted!\nstream s: File too large"
      refute_includes out, "status ()"
    end
  end

  def test_too_few_descriptors_are_told_once
    rakefile = <<~RAKEFILE
      stream :s, from: (0...200).map { |i| "w\#{i}" }, to: "out"
      200.times { |i| task("w\#{i}") { sh "echo \#{i}", verbose: false } }
      file("out") { |t| sh "wc -l > \#{t.name}", verbose: false }
    RAKEFILE
    in_folder(rakefile) do
      out, status = Open3.capture2e(@engine_environment, "sh", "-c", "ulimit -n 256; exec '#{RAKUDA}' -j4 out")
      refute status.success?
      words = "could not open its streams: Too many open files (os error 24): its 201 readers and writers take 402 " \
              "descriptors, and `ulimit -n` allows 256"
      assert_includes out, "rakuda aborted!\n#{words}"
      assert_operator out.scan("Too many open files").size, :<=, 3, out
      refute_includes out, "status (127)"
    end
  end

  def test_what_is_dropped_is_shown_beside_what_went_in
    rakuda(<<~RAKEFILE, "-j2", "two") do |run|
      stream :s, from: "all", to: "two", on_close: :drain
      task(:all) { sh "seq 2000000", verbose: false }
      file("two") { sh "head -n 2 > two", verbose: false }
    RAKEFILE
      assert_equal 0, run.status, run.err
      stream = JSON.parse(control("report", "--json")).fetch("streams").first
      writer = stream.fetch("writers").first
      assert_equal 14_888_896, writer["bytes"] + writer["dropped_bytes"]
      assert_operator writer["dropped_bytes"], :>, 0
      assert_match(/^stream s: .*, all readers left early, .* dropped$/, control("report", "--text"))
      assert_match(/^  from all: .* records?, .* dropped$/, control("report", "--text"))
    end
  end

  def test_failed_writer_fails_its_readers_and_all_are_tried_again
    rakefile = <<~RAKEFILE
      stream :s, from: "w", to: "out"
      task(:w) { sh "seq 5; test -e tried || { touch tried; exit 3; }" }
      file("out") { sh "cat > out" }
      task default: "out"
    RAKEFILE
    rakuda(rakefile, "-j2") do |run|
      assert_equal 1, run.status
      assert_includes run.err, "Command failed with status (3)"
      refute_path_exists "out"
    end
    %w[-j2 -j1].each do |jobs|
      rakuda(rakefile, jobs, "RETRY=1") { |run| assert_equal [0, "1\n2\n3\n4\n5\n"], [run.status, File.read("out")], run.err }
    end
  end

  def test_journal_reads_the_spool_again_and_leaves_its_writers_alone
    rakefile = <<~RAKEFILE
      stream :s, from: %w[a b], to: "out", replay: :journal
      task(:a) { sh "echo a >> ran; seq 100000" }
      task(:b) { sh "echo b >> ran; seq 5" }
      file("out") { sh "wc -l > out; test -e tried || { touch tried; exit 3; }" }
      task default: "out"
    RAKEFILE
    %w[-j3 -j1].each do |jobs|
      rakuda(rakefile, jobs, "RETRY=1") do |run|
        assert_equal [0, "100005"], [run.status, File.read("out").strip], run.err
        assert_equal %w[a b], File.readlines("ran", chomp: true).sort
        assert_empty Dir[".rakuda/**/spools/*"]
      end
    end
  end

  # The reader damages the spool of m, and fails; then that is found out, and m runs again.
  def test_whoever_has_written_a_spool_that_is_damaged_runs_again
    rakefile = <<~'RAKEFILE'
      stream :s, from: "w", to: "m", replay: :journal
      stream :t, from: "m", to: "out"
      task(:w) { sh "echo w >> ran; seq 5" }
      task(:m) { sh "echo m >> ran; echo middle; cat" }
      file("out") { sh "test -e tried || { touch tried; truncate -s -1 $(grep -l middle .rakuda/spools/*/*); exit 3; }; cat > out" }
      task default: "out"
    RAKEFILE
    %w[-j3 -j1].each do |jobs|
      rakuda(rakefile, jobs, "RETRY=2") do |run|
        assert_equal [0, "middle\n1\n2\n3\n4\n5\n"], [run.status, File.read("out")], run.err
        assert_equal %w[w m m], File.readlines("ran", chomp: true)
        assert_match(/stream t: the spool .* ends early/, run.err)
      end
    end
  end

  # So a, which had ended well, has read the same as b.
  def test_whoever_has_read_a_spool_that_is_damaged_later_reads_what_is_written_then
    rakefile = <<~'RAKEFILE'
      stream :s, from: "w", to: %w[a b], replay: :journal
      damage = "until test -s a; do sleep 0.05; done; truncate -s -1 .rakuda/spools/*/*"
      task(:w) { sh "echo w >> ran; grep -c w ran" }
      file("a") { sh "cat > a" }
      file("b") { sh "test -e tried || { touch tried; #{damage}; exit 3; }; cat > b" }
      task default: %w[a b]
    RAKEFILE
    %w[-j3 -j1].each do |jobs|
      rakuda(rakefile, jobs, "RETRY=2") do |run|
        assert_equal [0, "2\n", "2\n"], [run.status, File.read("a"), File.read("b")], run.err
      end
    end
  end

  def test_task_may_answer_the_one_that_it_reads_from
    rakefile = <<~RAKEFILE
      stream :ask, from: "a", to: "b"
      stream :tell, from: "b", to: "a"
      task(:a) { sh "for i in 1 2 3; do echo $i; read x; echo $x >> got; done" }
      task(:b) { sh "while read x; do echo $((x * x)); done" }
      task default: "a"
    RAKEFILE
    rakuda(rakefile, "-j2") { |run| assert_equal [0, "1\n4\n9\n"], [run.status, File.read("got")], run.err }
    rakuda(rakefile, "-j1") do |run|
      assert_equal 1, run.status
      assert_includes run.err, "Rakefile:1: stream: ask: its tasks read from one another in a cycle"
    end
  end

  # c reads from the cycle and is not of it.
  def test_a_cycle_in_which_nothing_moves_is_told_with_the_tasks_that_form_it
    rakefile = <<~RAKEFILE
      stream :ask, from: "a", to: %w[b c]
      stream :tell, from: "b", to: "a"
      task(:a) { sh "n=0; until test -e go || test $n -gt 1200; do n=$((n + 1)); sleep 0.05; done; echo 1; read x; echo $x > got", verbose: false }
      task(:b) { sh "read x; echo $((x + 10))", verbose: false }
      task(:c) { sh "cat > all", verbose: false }
      task default: %w[a b c]
    RAKEFILE
    start_rakuda(rakefile, "-j3", "STREAM_STALL=1") do |pid, folder, out|
      told = out.each_line.find { |line| line.include?("no byte") }
      assert_equal "rakuda: streams: no byte has moved for 1 s in the cycle of tasks a, b: ask is empty, tell is empty\n", told
      File.write(File.join(folder, "go"), "")
      out.read
      _, status = Process.wait2(pid)
      assert_equal [0, "11\n", "1\n"], [status.exitstatus, *%w[got all].map { |name| File.read(File.join(folder, name)) }]
    end
  end

  # A reader that is ended by a signal is not to blame, and a task is counted once.
  def test_who_is_blamed_and_counted_when_a_component_fails
    torn = <<~RAKEFILE
      stream :s, from: "w", to: "r", record: { bytes: 4 }
      task(:w) { sh "printf abcdef", verbose: false }
      task(:r) { sh "cat > got", verbose: false }
      task after: :r do sh "true" end
    RAKEFILE
    rakuda(torn, "-j2", "--failure", "continue", "after") do |run|
      assert_includes run.err, "== rakuda: 1 failed, 1 aborted, 1 not run because of it, 0 done ==\n"
      fault = "stream s: the last record of task w has 2 bytes in place of 4; let it print whole records, or say another " \
              "`record:` of the stream"
      assert_includes run.err, "w: failed after"
      assert_includes run.err, "  error: #{fault}\n"
      refute_includes run.err, "SIGTERM"
      check_counts("failed" => 1, "stopped" => 1, "abandoned" => 1, "done" => 0)
      check_failed_stream(fault)
    end
  end

  # It stands in every form of the report, and between its tasks in the graph.
  def check_failed_stream(fault)
    stream = JSON.parse(control("report", "--json")).fetch("streams").first
    assert_equal ["s", "Rakefile:1", "failed", fault, false], stream.values_at("name", "place", "ended", "fault", "balanced")
    assert_equal [["w"], ["r"]], (%w[writers readers].map { |side| stream[side].map { |one| one["task"] } })
    assert_match(/^stream s: .*, failed: #{fault}$/, control("report", "--text"))
    page = File.read(control("report").strip)
    ["<title>stream s (Rakefile:1): not whole, ", "<title>into stream s: 1 writer</title>",
     "<span class=\"bad\">failed: #{fault}</span>"].each { |part| assert_includes page, part }
  end

  # Each member is ended by the other's failure in one attempt, and fails itself, or ends well, in the other.
  def test_an_attempt_that_was_ended_is_forgotten_when_the_next_one_fails_or_ends_well
    rakefile = <<~RAKEFILE
      WAIT = "until test -e begun; do sleep 0.05; done"
      stream :s, from: "w", to: "r"
      task(:w) { sh "test -e tried || { touch begun; exec sleep 600; }; test -e well || exit 3", verbose: false }
      task(:r) { sh "test -e tried || { \#{WAIT}; touch tried; exit 4; }; cat > got", verbose: false }
      task default: "r"
    RAKEFILE
    rakuda(rakefile, "-j2", "RETRY=1") do |run|
      assert_includes run.err, "== rakuda: 1 failed, 1 aborted, 0 done ==\nw: failed after"
      check_counts("failed" => 1, "stopped" => 1, "abandoned" => 0, "done" => 0)
    end
    rakuda("File.write('well', '')\n#{rakefile}task(:bad) { sh 'exit 5' }\n", "-j2", "RETRY=1", "default", "bad") do |run|
      assert_includes run.err, "== rakuda: 1 failed, 2 done ==\nbad: failed after"
    end
  end

  def check_counts(counts)
    report = JSON.parse(control("report", "--json"))
    assert_equal counts, report.slice(*counts.keys)
    ended = JSON.parse(File.readlines(Dir[".rakuda/runs/*/journal.jsonl"].first).last)
    assert_equal counts.slice("failed", "abandoned", "done"), ended.slice("failed", "abandoned", "done")
  end

  def test_stages_one_after_the_other_share_no_cores
    rakuda(MIXED, "-j1") { |_run| assert_equal 0, JSON.parse(control("report", "--json"))["gangs_oversubscribed"] }
    wide = <<~RAKEFILE
      stream :s, from: "a", to: "b"
      needs nodes: 2
      task(:a) { sh "seq 3", verbose: false }
      task(:b) { sh "cat > got", verbose: false }
    RAKEFILE
    %w[-j1 -j4].each do |jobs|
      rakuda(wide, jobs, "--oversubscribe", "b") do |run|
        assert_equal 0, run.status, run.err
        assert_includes run.err, "rakuda: task a has fewer nodes or cores than it asks for (oversubscribed)\n"
      end
    end
  end

  def test_torn_record_fails_with_names
    rakuda(<<~RAKEFILE, "-j2", "--grace", "0.2") do |run|
      stream :s, from: "w", to: "r", record: { bytes: 4 }
      task(:w) { sh "printf abcdef" }
      task(:r) { sh "trap '' TERM; cat > got; exit 0" }
      task default: "r"
    RAKEFILE
      assert_equal 1, run.status
      assert_includes run.err, "stream s: the last record of task w has 2 bytes in place of 4"
    end
  end

  def test_command_that_cannot_start_fails_its_component
    rakefile = <<~RAKEFILE
      stream :s, from: "a", to: %w[b c]
      task(:a) { sh "seq 100000" }
      task(:b) { sh "./none" }
      task(:c) { sh "cat > got" }
      task default: %w[b c]
    RAKEFILE
    %w[-j1 -j3].each do |jobs|
      rakuda(rakefile, jobs) { |run| assert_equal [1, true], [run.status, run.err.include?("status (127)")], run.err }
    end
  end

  ORDER = <<~'RAKEFILE'
    stream :s, from: %w[a b], to: %w[c d]
    stream :t, from: %w[d f], to: "e"
    %w[a b c d e f].each { |name| task(name) { sh "echo #{name} >> order", verbose: false } }
    task all: %w[f c]
  RAKEFILE

  # Writers come before their readers, as if these needed them; else what is named first, or stands first in the
  # Rakefile.
  { %w[d b a] => "b a d c f e", %w[e] => "a b d f e c", %w[f a] => "f a b c d e",
    %w[all e b] => "f b a c d e" }.each do |named, order|
    define_method("test_with_one_job_members_run_in_rakes_order_of_#{named.join("_")}") do
      rakuda(ORDER, "-q", "-j1", *named) do |run|
        assert_equal [0, order], [run.status, File.read("order").split.join(" ")], run.err
      end
    end
  end

  # With a core kept for the reader none would be left for what its writer waits for.
  def test_who_waits_for_its_writers_has_no_core
    rakefile = <<~'RAKEFILE'
      stream :s, from: "w", to: "r", replay: :journal
      task(:w) { sh "until test -e other; do sleep 0.05; done; seq 3", verbose: false }
      task(:r) { sh "cat > got", verbose: false }
      task(:other) { sh "touch other", verbose: false }
      task default: %w[r other]
    RAKEFILE
    rakuda(rakefile, "-j2") { |run| assert_equal [0, "1\n2\n3\n"], [run.status, File.read("got")], run.err }
  end

  def test_an_action_may_invoke_a_task_while_its_reader_waits
    rakefile = <<~'RAKEFILE'
      stream :s, from: "w", to: "r", replay: :journal
      task(:w) { Rake::Task["first"].invoke; sh "cat first", verbose: false }
      file("first") { sh "seq 3 > first", verbose: false }
      task(:r) { sh "cat > got", verbose: false }
      task default: "r"
    RAKEFILE
    %w[-j1 -j2].each do |jobs|
      rakuda(rakefile, jobs) { |run| assert_equal [0, "1\n2\n3\n"], [run.status, File.read("got")], run.err }
    end
  end

  DEVICE = <<~'RAKEFILE'
    stream :s, from: %w[a b], to: "out", replay: $replay
    needs resource: "gpu:1"
    task(:a) { sh "mkdir held && seq 3 && rmdir held", verbose: false }
    needs resource: "gpu:1"
    task(:b) { sh "mkdir held && seq 3 && rmdir held", verbose: false }
    needs resource: "gpu:1"
    file("out") { |t| sh "mkdir held && cat > #{t.name} && rmdir held", verbose: false }
  RAKEFILE

  def test_one_job_takes_members_in_the_order_of_rake_each_after_its_writers
    rakefile = <<~'RAKEFILE'
      stream :s, from: %w[w1 w2], to: %w[r1 r2]
      %w[r2 w1 r1 w2].each { |name| task(name) { sh "echo #{name} >> order", verbose: false } }
      task default: %w[r1 w2 w1 r2]
    RAKEFILE
    rakuda(rakefile, "-j1") { |run| assert_equal [0, %W[w2\n w1\n r1\n r2\n]], [run.status, File.readlines("order")], run.err }
  end

  # Members that run one after the other have a device one after the other.
  def test_a_device_of_which_there_are_too_few_is_named_and_enough_for_stages
    rakuda("$replay = :gang\n#{DEVICE}", "-j4", "--resource", "gpu=1", "out") do |run|
      assert_equal 1, run.status
      assert_includes run.err, "Rakefile:2: tasks a, b, out together need 3 of gpu at once, but this run has 1: join fewer " \
                               "tasks, or let them run one after the other with `replay: :journal`"
    end
    %w[-j4 -j1].each do |jobs|
      rakuda("$replay = :journal\n#{DEVICE}", jobs, "--resource", "gpu=1", "out") do |run|
        assert_equal [0, 6], [run.status, File.readlines("out").size], run.err
      end
    end
  end

  def test_memory_of_which_there_is_too_little_is_told_where_nothing_is_shared
    rakefile = <<~'RAKEFILE'
      stream :s, from: "a", to: "b"
      needs memory: "3G"
      task(:a) { sh "true" }
      needs memory: "2G"
      task(:b) { sh "true" }
    RAKEFILE
    rakuda(rakefile, "-j4", "--memory", "4G", "--no-oversubscribe", "b") do |run|
      assert_equal 1, run.status
      assert_includes run.err, "Rakefile:1: tasks a, b together need 5 GiB of memory at once, but this run has 4 GiB: join fewer"
    end
  end

  def test_who_waits_for_what_it_reads_says_so
    rakefile = <<~'RAKEFILE'
      stream :s, from: %w[v w], to: "r", replay: :journal
      task(:v) { sh "echo 1", verbose: false }
      task(:w) { sh "touch begun; until test -e go; do sleep 0.05; done", verbose: false }
      task(:r) { sh "cat > got", verbose: false }
    RAKEFILE
    start_rakuda(rakefile, "-j2", "r") do |pid, folder, out|
      journal = -> { Dir["#{folder}/.rakuda/runs/*/journal.jsonl"].map { |path| File.read(path) }.join }
      sleep 0.02 until File.exist?("#{folder}/begun") && journal.call.include?("attempt_ended")
      why = Dir.chdir(folder) { control("explain", "r") }
      FileUtils.touch("#{folder}/go")
      told = out.read
      _, status = Process.wait2(pid)
      assert_predicate status, :success?, told
      assert_match(/^r: waits for what it reads from w\b/, why)
      refute_includes why, "running for"
    end
  end

  # A writer counts those that run at the same time.
  def test_writers_over_spools_run_beside_one_another_as_far_as_there_is_room
    rakefile = <<~'RAKEFILE'
      writers = (1..6).map { |number| "w#{number}" }
      stream :s, from: writers, to: "all", replay: :journal
      writers.each do |w|
        needs(**$needs) if $needs
        task(w) { sh "mkdir on.#{w}; ls -d on.* | wc -l >> counts; seq 3; sleep 0.2; ls -d on.* | wc -l >> counts; rmdir on.#{w}", verbose: false }
      end
      file("all") { |t| sh "cat > #{t.name}", verbose: false }
      task default: "all"
    RAKEFILE
    { ["-j2", "--no-oversubscribe"] => [nil, 2], %w[-j8 --memory 4G] => [{ memory: "3G" }, 1] }.each do |words, (needs, most)|
      rakuda("$needs = #{needs.inspect}\n#{rakefile}", *words) do |run|
        assert_equal [0, 18], [run.status, File.readlines("all").size], run.err
        assert_operator File.readlines("counts").map(&:to_i).max, :<=, most, words.inspect
      end
    end
  end

  MISTAKES = {
    "stream" => "expected a name and keywords",
    "stream :s, from: 'a'" => "s: to: expected a task, or a list of tasks",
    "stream :s, from: [], to: 'b'" => "s: from: expected a task, or a list of tasks",
    "stream :s, from: 'a', to: 'b', recrd: :line" => "s: unknown keyword recrd; there are from, to, record, window",
    "stream :s, from: 'a', to: 'b', record: :word" => "s: record: expected :line, :nul, :raw, or { bytes: N }",
    "stream :s, from: 'a', to: 'b', window: '1k'" => "s: window: expected a number of bytes from \"2M\" to \"1G\"",
    "stream :s, from: 'a', to: 'b', slow: :drop" => "s: slow: expected :block or :spill, not :drop",
    "stream :s, from: 'a', to: 'b', slow: :spill, spill: '1M'" =>
      "s: spill: expected a number of bytes from \"16M\" to \"16T\", not \"1M\"",
    "stream :s, from: 'a', to: 'b', spill: '1G'" => "s: spill: says how much `slow: :spill` may keep on disk; add slow: :spill",
    "stream :s, from: 'a', to: 'b', slow: :spill, replay: :journal" =>
      "s: slow: :spill is for readers that run beside one another; with replay: :journal each reads a file of its own",
    "stream :s, from: 'a', to: 'b', spool_max: '1k'" => "s: spool_max: expected a number of bytes from \"1M\" to \"16T\"",
    "stream :s, from: 'a', to: 'b', replay: 'x'" => "s: replay: expected :gang or :journal or :atomic",
    "stream :s, from: 'a', to: 'b'; stream :s, from: 'c', to: 'd'" => "s: there is a stream of that name already (Rakefile:1)",
    "stream :s, from: 'a', to: 'b', meta: 3" => "s: meta: expected a hash by task, such as",
    "stream :s, from: 'a', to: 'b', meta: { 'a' => { coast: 1 } }" => "s: meta: a: unknown keyword coast; there are cost",
    "stream :s, from: 'a', to: 'b', meta: { 'a' => { output: '1TB' } }" => "s: meta: a: output: expected bytes or bytes a second",
    "stream :s, from: 'a', to: 'b', meta: { 'c' => { cost: 1 } }" => "s: meta: it joins no task c",
    "stream :s, from: 'a', to: 'b', meta: { 'x*' => { cost: 1 } }" => "s: meta: it joins no task x*",
    "stream :s, from: 'a', to: 'b', slow: :spill; stream :t, from: 'b', to: 'c', replay: :journal" =>
      "s: slow: :spill is for readers that run beside one another; its tasks are joined to those of the stream t (Rakefile:1) " \
      "with replay: :journal",
    "stream :s, from: 'nobody', to: 'b'" => "s: from: there is no task nobody",
    "stream :s, from: 'x*', to: 'b'" => "s: from: no task has a name like x*",
    "stream :s, from: 'empty', to: 'b'" => "s: from: the task empty has no action that could write into it",
    "stream :s, from: 'a', to: 'a'" => "s: the task a cannot read what it writes itself",
    "stream :s, from: %w[a a], to: 'b'" => "s: from: the task a is named twice",
    "stream :s, from: %w[a c], to: 'b', record: :raw" => "s: record: :raw takes one writer, not 2",
    "stream :s, from: 'a', to: 'b'; stream :t, from: 'a', to: 'b'" => "t: the task a cannot write into two streams; it is " \
                                                                      "to write into s (Rakefile:1), too"
  }.freeze

  def test_mistake_is_told_in_one_line_with_its_place
    MISTAKES.each do |statement, words|
      tasks = "%w[a b c d].each { |name| task(name) { sh 'true' } }\ntask :empty\ntask default: 'b'\n"
      rakuda("#{statement}\n#{tasks}", "-j2") do |run|
        assert_equal 1, run.status, statement
        assert run.err.start_with?("Rakefile:1: stream: #{words}"), "#{statement}: #{run.err}"
      end
    end
  end

  def test_too_few_jobs_are_told_where_cores_are_not_shared
    rakuda(MIXED, "-j2", "--no-oversubscribe") do |run|
      assert_equal 1, run.status
      assert_includes run.err, "need 4 slots at once, but this run has 2: give it -j 4, let tasks share cores (without " \
                               "--no-oversubscribe), or let them run one after the other with `replay: :journal`"
    end
  end

  def test_members_of_a_cycle_are_not_told_to_take_turns
    rakuda(<<~'RUBY', "-j2", "--no-oversubscribe") do |run|
      stream :ask, from: "a", to: "b"
      stream :pass, from: "b", to: "c"
      stream :tell, from: "c", to: "a"
      task("a") { sh "echo go; head -n 1 > done" }
      %w[b c].each { |name| task(name) { sh "head -n 1" } }
      task default: "a"
    RUBY
      assert_equal 1, run.status
      assert_match(/need 3 slots at once, but this run has 2: .*let tasks share cores \(without --no-oversubscribe\)$/, run.err)
    end
  end

  def test_word_yields_to_a_method_a_variable_and_a_library
    rakuda("def stream(name)\n  puts name\nend\nstream(:mine)\ntask(:default)\n") do |run|
      assert_equal [0, "mine\n"], [run.status, run.out], run.err
    end
    rakuda("stream = 3\nputs stream\ntask(:default)\n") { |run| assert_equal [0, "3\n"], [run.status, run.out], run.err }
    library = "module Library\n  private\n  def stream(*) = puts('its own')\nend\nObject.include(Library)\n"
    rakuda("#{library}stream 1, 2\ntask(:default)\n") { |run| assert_equal [0, "its own\n"], [run.status, run.out], run.err }
  end

  def test_plain_rake_says_what_it_lacks
    in_folder("require \"rakuda/dsl\"\nstream :s, from: 'a', to: 'b'\ntask(:default)\n") do
      out, status = Open3.capture2e("ruby", "-I#{ROOT}/lib", "-rrake", "-e", "Rake.application.run")
      refute status.success?
      assert_includes out, "stream: rake cannot join tasks; run this Rakefile with rakuda"
    end
  end

  def test_streams_are_listed_and_planned
    listed = "rakuda stream s\n    from a\n    from b\n    to sorted\n    to count\n"
    rakuda(MIXED, "-P") { |run| assert_includes run.out, listed }
    rakuda(MIXED, "-n", "-j4") { |run| assert_includes run.out, "stream s, live: a, b -> sorted, count\n6 of 6 tasks would run" }
  end
end
