# frozen_string_literal: true

# What is said of streams when something goes wrong, or stands still: who is to blame, what had gone through, who holds
# a stream open, and what is counted.

require "fileutils"
require "json"
require "minitest/autorun"
require "open3"
require "tmpdir"
require_relative "support/stream_run"

# The terminal, the report and `explain` say the same.
class StreamFailuresTest < Minitest::Test
  include StreamRun

  # Its second command is refused, since its stream is at fault; it has ended as far as cores and its end are concerned.
  def test_an_action_whose_command_was_refused_is_still_ended
    rakefile = <<~'RUBY'
      stream :s, from: "all", to: "two", replay: :journal, spool_max: "1M"
      task(:all) do
        sh("yes; sleep 600") rescue warn "first: #{$!.message}"
        sh("echo second") rescue warn "second: #{$!.message}"
        begin
          touch "sleeping", verbose: false
          sleep 600
        ensure
          warn "ended"
        end
      end
      task(:two) { sh "cat > two" }
      task(:bad) { sh "until [ -e sleeping ]; do sleep 0.05; done; exit 1" }
      multitask default: %w[two bad]
    RUBY
    rakuda(rakefile, "-j3", "-q", "FAILURE_TERMINATION=kill") do |run|
      assert_equal 1, run.status, run.err
      said = run.err.lines.grep(/\A(first|second|ended)/).map { |line| line[/\A\w+/] }
      assert_equal %w[first second ended], said, run.err
    end
  end

  def test_members_whose_turn_never_came_are_not_run_for_all_who_count
    rakefile = <<~'RAKEFILE'
      stream :s, from: %w[w0 w1], to: "r", replay: :journal
      2.times { |i| task("w#{i}") { sh "echo w#{i}; test -e ok#{i} || exit 3", verbose: false } }
      task(:r) { sh "cat > got", verbose: false }
      task(after: :r) { sh "true" }
    RAKEFILE
    rakuda(rakefile, "-j1", "--failure", "continue", "after") do |run|
      assert_includes run.err, "== rakuda: 1 failed, 3 not run because of it, 0 done ==\nw0: failed after"
      assert_includes run.err, "  not run because of it: w1, r, after\n"
      check_counts("failed" => 1, "stopped" => 0, "abandoned" => 3, "done" => 0)
    end
    rakuda("File.write('ok0', '')\n#{rakefile}", "-j1", "--failure", "continue", "after", "RETRY=1") do |run|
      assert_includes run.err, "== rakuda: 1 failed, 1 aborted, 2 not run because of it, 0 done ==\nw1: failed after"
      check_counts("failed" => 1, "stopped" => 1, "abandoned" => 2, "done" => 0)
    end
  end

  TORN = <<~'RAKEFILE'
    stream :s, from: %w[w v], to: "r", record: { bytes: 4 }
    file(:w) { sh "echo > w; test -e tried && printf abcd || printf abcdef; touch tried", verbose: false }
    task(:v) { sh "printf 1234", verbose: false }
    task(:r) { sh "cat > got", verbose: false }
  RAKEFILE
  FAULT = "stream s: the last record of task w has 2 bytes in place of 4; let it print whole records, or say another " \
          "`record:` of the stream"

  def test_who_prints_half_a_record_has_failed
    rakuda(TORN, "-j3", "r") do |run|
      assert_includes run.err, "== rakuda: 1 failed, 2 aborted, 0 done ==\nw: failed after"
      assert_includes run.err, "  error: #{FAULT}\n"
      assert_includes run.err, "rakuda aborted!\nRakuda::OutputSpoilt: #{FAULT}\n"
      check_counts("failed" => 1, "stopped" => 2, "abandoned" => 0, "done" => 0)
      refute_path_exists "w"
      assert_equal([["w", FAULT]], report.fetch("failures").map { |task| task.values_at("task", "message") })
      assert_match(/failed.*#{Regexp.escape(FAULT)}/m, control("story", "w"))
    end
    rakuda(TORN, "-j3", "r", "RETRY=1") do |run|
      assert_equal [0, "1234abcd"], [run.status, File.read("got").chars.each_slice(4).map(&:join).sort.join], run.err
      assert_includes run.err, "task w failed (attempt 1), trying again: #{FAULT}\n"
      assert_match(/trying again|tried again|retried/, control("story", "w") + run.err)
    end
    rakuda(TORN, "-j1", "r") do |run|
      assert_includes run.err, "w: failed after"
      assert_includes run.err, "  error: #{FAULT}\n"
    end
  end

  # Its pipe is closed before it is known how it has ended.
  def test_who_fails_within_a_record_is_told_by_its_failure
    rakuda(<<~'RAKEFILE', "-j2", "r") do |run|
      stream :s, from: "w", to: "r", record: { bytes: 4 }
      task(:w) { sh "printf abcdef; exec >&-; sleep 0.3; exit 3", verbose: false }
      task(:r) { sh "cat > got", verbose: false }
    RAKEFILE
      assert_includes run.err, "w: failed after"
      assert_includes run.err, "exit status 3"
      refute_includes run.err, "the last record"
    end
  end

  def test_who_holds_the_output_of_a_writer_that_has_ended_is_named
    rakefile = <<~'RAKEFILE'
      stream :s, from: "w", to: "r"
      task(:w) { sh "echo 1; sleep 600 2> /dev/null & echo $! > pid", verbose: false }
      task(:r) { sh "cat > got", verbose: false }
    RAKEFILE
    %w[-j2 -j1].each do |jobs|
      start_rakuda(rakefile, jobs, "r") do |pid, folder, out|
        held = explained_with(folder, "r", "(sleep 600)")
        process = File.read("#{folder}/pid").strip
        assert_match(/^    w has ended, and its standard output is still held on \S+ by process #{process} \(sleep 600\)$/, held)
        assert_match(/^  reads from stream s: 2 B, 1 record written so far$/, held)
        Process.kill(:KILL, process.to_i)
        told = out.read
        _, status = Process.wait2(pid)
        assert_predicate status, :success?, told
        assert_equal "1\n", File.read("#{folder}/got")
      end
    end
  end

  # The second attempt waits for a file, so that it can be asked about.
  INTERRUPTED = <<~'RAKEFILE'
    stream :s, from: "w", to: "r"
    task(:w) { sh "if test -e failed; then touch again; until test -e go; do sleep 0.05; done; exit 3; fi; seq 5; " \
                  "until test -e read; do sleep 0.05; done; touch failed; exit 3", verbose: false }
    task(:r) { sh "if test -e failed; then exec cat > got; fi; head -n 3; touch read; exec sleep 600", verbose: false }
  RAKEFILE

  def test_what_had_gone_through_when_a_member_failed_is_kept
    rakuda(INTERRUPTED, "-j2", "r") do |run|
      assert_equal 1, run.status
      refute_includes run.err, "had left before its end"
      stream = report.fetch("streams").first
      assert_equal ["closed", 10, 5, false], stream.values_at("ended", "bytes", "records", "balanced")
      ends = stream.values_at("writers", "readers").flatten.map { |side| side.values_at("task", "bytes", "records") }
      assert_equal [["w", 10, 5], ["r", 10, 5]], ends
      assert_includes control("report", "--text"), "stream s: 10 B, 5 records, closed before its end, as a task failed"
      assert_equal [true], interruptions
    end
    start_rakuda(INTERRUPTED, "-j2", "r", "RETRY=1") do |pid, folder, out|
      sleep 0.05 until File.exist?("#{folder}/again")
      told = explained_with(folder, "r", "when an attempt failed")
      before = "10 B, 5 records written, of which it had got 10 B, 5 records"
      assert_match(/^  reads from stream s.*\n    when an attempt failed: #{before}$/, told)
      File.write("#{folder}/go", "")
      out.read
      Process.wait(pid)
      Dir.chdir(folder) { assert_equal [true, true], interruptions }
    end
  end

  def test_a_cycle_that_stood_still_is_told_while_it_does_and_afterwards
    rakefile = <<~'RAKEFILE'
      stream :ask, from: "a", to: "b"
      stream :tell, from: "b", to: "a"
      task(:a) { sh "until test -e go; do sleep 0.05; done; echo 1; read x; echo $x > got", verbose: false }
      task(:b) { sh "read x; echo $((x + 10)); touch moved; until test -e end; do sleep 0.05; done", verbose: false }
    RAKEFILE
    words = "no byte has moved for 1 s in the cycle of tasks a, b: ask is empty, tell is empty"
    start_rakuda(rakefile, "-j2", "a", "STREAM_STALL=1") do |pid, folder, out|
      assert(out.each_line.find { |line| line.include?(words) })
      assert_includes explained(folder, "b"), words
      File.write("#{folder}/go", "")
      sleep 0.05 until File.exist?("#{folder}/moved") && !explained(folder, "b").include?(words)
      File.write("#{folder}/end", "")
      out.read
      _, status = Process.wait2(pid)
      assert_predicate status, :success?
      Dir.chdir(folder) do
        stood = "stood still .* after the begin: no byte had moved for 1.00? s in the cycle of tasks a, b: ask is empty"
        assert_match(/^stream ask: .*in = out\n  #{stood}$/, control("report", "--text"))
        stalls = report.fetch("streams").map { |stream| stream.fetch("stalls").map { |stall| stall.values_at("tasks", "still") } }
        assert_equal [[%w[a b], "empty"]] * 2, stalls.map(&:first)
        assert_equal(%w[ask tell], events("streams_stalled").first["streams"].map { |stream| stream["name"] })
      end
    end
  end

  def test_a_writer_that_fails_as_nobody_reads_is_told_so
    rakefile = <<~'RAKEFILE'
      stream :s, from: "w", to: "r", on_close: $on_close
      task(:w) { sh "trap '' PIPE; seq 2000000 2> /dev/null", verbose: false }
      task(:r) { sh "head -n 1 > got", verbose: false }
    RAKEFILE
    hint = "all readers of stream s had left before its end, so its pipe was closed: a program that ignores SIGPIPE " \
           "fails with EPIPE then; let it end well, or say `on_close: :drain` of the stream"
    rakuda("$on_close = :sigpipe\n#{rakefile}", "-j2", "r") do |run|
      assert_equal 1, run.status, run.err
      assert_includes run.err, "  exit status 1\n  #{hint}\n"
      message = report.fetch("failures").first["message"]
      assert_match(/\ACommand failed with status \(1\).* \(#{Regexp.escape(hint)}\)\z/m, message)
    end
    rakuda("$on_close = :drain\n#{rakefile}", "-j2", "r") do |run|
      assert_equal [0, "1\n"], [run.status, File.read("got")], run.err
    end
  end

  def test_tasks_that_share_cores_are_counted_and_estimated_so
    rakefile = <<~'RAKEFILE'
      stream :s, from: %w[a b], to: %w[c d]
      %w[a b].each { |name| task(name) { sh "sleep 0.5; seq 3", verbose: false } }
      %w[c d].each { |name| file(name) { sh "cat > #{name}", verbose: false } }
    RAKEFILE
    rakuda(rakefile, "-j2", "c") do |run|
      assert_equal 0, run.status, run.err
      assert_includes control("report", "--text"), "1 begun, 1 of them oversubscribed (4 cores asked for, 2 there)"
      assert_equal [4, 2], report.values_at("gangs_cores_asked", "gangs_cores_there")
      FileUtils.rm("c")
      plan = JSON.parse(again("-j2", "--plan", "json", "c").out)
      assert_equal [{ "tasks" => %w[c a b d], "cores_asked" => 4, "cores" => 2 }], plan["sharing"]
      longest = plan["tasks"].filter_map { |task| task["estimate_s"] }.max
      assert_in_delta longest, plan["estimate"]["wall_s"], 0.001
      assert_includes again("-j2", "-n", "c").out, "c, a, b, d would share cores: 4 asked for, 2 there\n4 of 4 tasks would run\n"
      plan = JSON.parse(again("-j4", "--plan", "json", "c").out)
      assert_nil plan["sharing"]
      assert_in_delta longest, plan["estimate"]["high_s"], 0.001
    end
  end

  UPSTREAM = <<~'RAKEFILE'
    stream :s, from: "w", to: "m"
    stream :t, from: "m", to: "end"
    task(w: WRITER_NEEDS) { sh "cat in", verbose: false; WRITER_DOES }
    task(:m) { sh "sort", verbose: false }
    file("end") { |t| sh "cat > #{t.name}", verbose: false }
  RAKEFILE

  def test_what_those_do_that_print_for_a_file_counts_for_rerun_on
    made = ->(needs, does) { File.write("Rakefile", UPSTREAM.sub("WRITER_NEEDS", needs).sub("WRITER_DOES", does)) }
    in_folder("") do
      %w[in more].each { |name| File.write(name, "1\n") }
      made.call('"in"', "nil")
      assert_equal 0, again("-j3", "end").status
      planned = -> { again("-j3", "-n", "--rerun-on", "command,inputs", "end").out }
      assert_includes planned.call, "0 of 3 tasks would run"
      made.call('"in"', "true")
      assert_includes planned.call, "end: its action has changed (of w, which prints for it)\n"
      made.call("%w[in more]", "nil")
      assert_match(/^end: .*\bmore\b.*\(of w, which prints for it: new\)$/, planned.call)
      assert_includes again("-j3", "-n", "end").out, "0 of 3 tasks would run"
      run = again("-j3", "--rerun-on", "inputs", "end")
      assert_equal 0, run.status, run.err
      assert_includes planned.call, "0 of 3 tasks would run"
    end
  end

  private

  def report
    JSON.parse(control("report", "--json"))
  end

  # Of a run that may not have begun yet, or not know the task.
  def explained(folder, task)
    Open3.capture2e("#{ROOT}/bin/rakudactl", "explain", task, chdir: folder).first
  end

  # What it says when it says this.
  def explained_with(folder, task, words)
    loop do
      told = explained(folder, task)
      return told if told.include?(words)

      sleep 0.05
    end
  end

  def events(name)
    Dir[".rakuda/runs/*/journal.jsonl"].flat_map { |path| File.readlines(path) }
                                       .map { |line| JSON.parse(line) }.select { |event| event["event"] == name }
  end

  def interruptions
    events("streams_ended").map { |ended| ended["interrupted"] }
  end

  def check_counts(counts)
    assert_equal counts, report.slice(*counts.keys)
    ended = events("run_ended").first
    assert_equal counts.slice("failed", "abandoned", "done"), ended.slice("failed", "abandoned", "done")
  end
end
