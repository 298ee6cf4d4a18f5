# frozen_string_literal: true

# What happens when actions run at the same time, on the fake hub and on the real one: seen from order and events.

require "minitest/autorun"
require_relative "support/rakefile_run"

# The tests; a class for each engine is made below.
module ParallelTests
  include RakefileRun

  # Each of two actions waits until the other has begun: with one at a time, neither would end.
  MEETING = <<~'RAKEFILE'
    task default: %w[a b]
    WAYS = {
      "sleep" => ->(name) { sleep 0.002 until File.exist?(name) },
      "command" => ->(name) { sh "until test -e #{name}; do sleep 0.01; done", verbose: false },
      "backticks" => ->(name) { `until test -e #{name}; do sleep 0.01; done` },
      "system" => ->(name) { system "until test -e #{name}; do sleep 0.01; done" },
      "pipe" => ->(name) { IO.popen("until test -e #{name}; do sleep 0.01; done; echo x", &:read) },
      "thread" => ->(name) { Thread.new { sleep 0.002 until File.exist?(name) }.join }
    }
    { "a" => "b", "b" => "a" }.each do |me, other|
      task(me) { touch "at_#{me}", verbose: false; WAYS.fetch(ENV.fetch("WAY")).call("at_#{other}"); puts me }
    end
  RAKEFILE

  %w[sleep command backticks system pipe thread].each do |way|
    define_method("test_#{way}_in_one_action_does_not_hold_up_another") do
      rakuda(MEETING, "-j2", environment: { "WAY" => way }) do |run|
        assert_equal 0, run.status, run.err
        assert_equal %w[a b], run.lines.sort
      end
    end
  end

  def test_current_directory_belongs_to_each_action
    rakefile = <<~'RAKEFILE'
      task default: %w[a b c d]
      %w[a b c d].each do |n|
        task(n) do
          mkdir n, verbose: false
          cd n, verbose: false do
            3.times { sleep 0.001; sh "basename $PWD", verbose: false; raise n unless File.basename(Dir.pwd) == n }
            File.write("here", n)
          end
          raise unless File.exist?("#{n}/here")
          Dir.chdir(n)
          sleep 0.001
          sh "basename $PWD", verbose: false
        end
      end
    RAKEFILE
    rakuda(rakefile, "-j4") do |run|
      assert_equal 0, run.status, run.err
      assert_equal %w[a b c d].to_h { |name| [name, 4] }, run.lines.tally
    end
  end

  def test_locks_select_and_computing_do_not_hold_up_another
    rakefile = <<~'RAKEFILE'
      require "timeout"
      task default: %w[a b reader writer computing]
      %w[a b].each do |n|
        task(n) { File.open("lock", "w") { |f| f.flock(File::LOCK_EX); sh "touch in_#{n}; sleep 0.05", verbose: false }; puts "locked" }
      end
      READER, WRITER = IO.pipe
      task(:reader) { IO.select([READER]); puts READER.gets }
      task(:writer) { sh "sleep 0.05", verbose: false; WRITER.puts "written" }
      task(:computing) { Timeout.timeout(0.1) { loop { 1 + 1 } } rescue puts "timed out" }
    RAKEFILE
    rakuda(rakefile, "-j5") do |run|
      assert_equal ["locked", "locked", "timed out", "written"], run.lines.sort, run.err
    end
  end

  def test_timeout_reaches_its_own_action_alone
    rakefile = <<~'RAKEFILE'
      require "timeout"
      task default: %w[short long computing]
      task(:short) { Timeout.timeout(0.1) { sleep 60 } rescue puts "short" }
      task(:long) { Timeout.timeout(60) { sleep 0.3; sh "true", verbose: false }; puts "long" }
      task(:computing) { limit = Time.now + 0.4; nil while Time.now < limit; puts "computing" }
    RAKEFILE
    rakuda(rakefile, "-j3") { |run| assert_equal %w[computing long short], run.lines.sort, run.err }
  end

  def test_partial_lines_of_two_actions_do_not_mix
    rakefile = <<~'RAKEFILE'
      task default: %w[a b c]
      %w[a b c].each { |n| task(n) { 50.times { 4.times { print n; sleep 0 }; $stderr.print n; sleep 0; $stderr.puts; puts } } }
    RAKEFILE
    rakuda(rakefile, "-j3") do |run|
      assert_equal({ "aaaa" => 50, "bbbb" => 50, "cccc" => 50 }, run.lines.tally)
      assert_equal({ "a" => 50, "b" => 50, "c" => 50 }, run.err.lines.map(&:chomp).tally)
    end
  end

  def test_output_and_commands_of_one_action_are_in_order
    rakefile = <<~'RAKEFILE'
      task default: (0..9).map { |i| "t#{i}" }
      10.times { |i| task("t#{i}") { puts "#{i} first"; sh "echo #{i} second", verbose: false; puts "#{i} third" } }
    RAKEFILE
    rakuda(rakefile, "-j4") do |run|
      10.times do |i|
        words = run.lines.grep(/\A#{i} /).map { |line| line.split.last }
        assert_equal %w[first second third], words
      end
    end
  end

  def test_status_variable_belongs_to_each_action
    rakefile = <<~'RAKEFILE'
      task default: (1..8).map { |i| "t#{i}" }
      (1..8).each do |i|
        task("t#{i}") do
          5.times { sh("exit #{i}", verbose: false) { |ok, s| raise unless s.exitstatus == i && $?.exitstatus == i } }
          system("exit #{i + 10}")
          sleep 0.002
          raise "#{i}: #{$?.exitstatus}" unless $?.exitstatus == i + 10
          10.times do
            sh("exit #{i}", verbose: false) {}
            sleep 0.001 # waits for a core first
            raise "#{i}: #{$?.exitstatus}" unless $?.exitstatus == i
          end
        end
      end
    RAKEFILE
    rakuda(rakefile, "-j4") { |run| assert_equal 0, run.status, run.err }
  end

  def test_verbose_belongs_to_each_action
    rakefile = <<~'RAKEFILE'
      task default: %w[loud quiet]
      task(:quiet) { verbose(false) { touch "in"; sleep 0.002 until File.exist?("done"); sh "echo quiet" } }
      task(:loud) { sleep 0.002 until File.exist?("in"); sh "echo loud"; sh "echo loud", verbose: true; touch "done", verbose: false }
    RAKEFILE
    rakuda(rakefile, "-j2") { |run| assert_equal %w[echo\ loud echo\ loud], run.err.lines.map(&:chomp) - ["touch in"] }
  end

  def test_failing_task_ends_itself_alone_with_continue
    rakefile = <<~'RAKEFILE'
      task default: %w[bad worse good dependent]
      task(:bad) { raise "it is bad" }
      task(:worse) { sh "exit 9" }
      task(:good) { puts "good" }
      task(dependent: :bad) { puts "never" }
    RAKEFILE
    rakuda(rakefile, "-j2", "--failure", "continue") do |run|
      assert_equal 1, run.status
      assert_equal %w[good], run.lines
      assert_match(/^rakuda aborted!$/, run.err)
      assert_equal %w[bad worse], run.err.scan(/^rakuda: task (\w+) failed after [\d.]+ m?s/).flatten.sort
      assert_match(/^Tasks: TOP => default => (bad|worse)$/, run.err)
    end
  end

  def test_nothing_starts_after_a_failure_with_wait
    rakefile = <<~'RAKEFILE'
      task default: [:bad, *(0..20).map { |i| "t#{i}" }]
      task(:bad) { raise "bad" }
      (0..20).each { |i| task("t#{i}" => i.zero? ? [] : "t#{i - 1}") { puts i; sleep 0.01 } }
    RAKEFILE
    rakuda(rakefile, "-j2") do |run|
      assert_equal 1, run.status
      refute_includes run.lines, "20"
      assert_match(/^bad$/, run.err)
    end
  end

  def test_running_actions_are_aborted_with_kill
    rakefile = <<~'RAKEFILE'
      task default: %w[sleeper command bad]
      task(:sleeper) { touch "s"; begin; sleep 1000; ensure; puts "cleaned up"; end }
      task(:command) { touch "c"; sh "sleep 1000" }
      task(:bad) { sleep 0.002 until File.exist?("s") && File.exist?("c"); raise "bad" }
    RAKEFILE
    rakuda(rakefile, "-j3", "--failure", "kill") do |run|
      assert_equal 1, run.status
      assert_includes run.lines, "cleaned up"
      assert_match(/^bad$/, run.err)
    end
  end

  def test_failed_attempts_are_retried
    rakefile = <<~'RAKEFILE'
      desc "retry=2"
      task(:default) { File.write("n", "x", mode: "a"); puts File.size("n"); raise "again" if File.size("n") < 3 }
    RAKEFILE
    rakuda(rakefile, "-j2") do |run|
      assert_equal 0, run.status, run.err
      assert_equal %w[1 2 3], run.lines
      assert_match(/^rakuda: task default failed \(attempt 1\), trying again: again$/, run.err)
    end
    rakuda(rakefile.lines.drop(1).join, "-j2", "--retry", "1") { |run| assert_equal [1, %w[1 2]], [run.status, run.lines] }
  end

  def test_prerequisite_that_a_sibling_makes_is_resolved_later
    rakefile = <<~'RAKEFILE'
      task default: ["generate", *(1..5).map { |i| "p#{i}" }]
      task(:generate) { (1..5).each { |i| File.write("s#{i}.txt", i.to_s) } }
      (1..5).each { |i| file("p#{i}" => "s#{i}.txt") { |t| sh "cp #{t.source} #{t.name}" } }
    RAKEFILE
    rakuda(rakefile, "-j4") do |run|
      assert_equal 0, run.status, run.err
      assert_equal "4", File.read(File.join(run.folder, "p4"))
    end
  end

  def test_deferred_task_may_wait_for_a_deferred_sibling
    rakefile = <<~'RAKEFILE'
      task default: %w[one two three]
      task(:one) { File.write("a.txt", "") }
      file("two" => "a.txt") { File.write("b.txt", ""); File.write("two", "") }
      file("three" => "b.txt") { |t| File.write("three", "") }
    RAKEFILE
    rakuda(rakefile, "-j4") { |run| assert_equal [0, true], [run.status, File.exist?(File.join(run.folder, "three"))], run.err }
  end

  def test_what_stays_unresolvable_is_rakes_error
    rakefile = <<~'RAKEFILE'
      task default: %w[a product]
      task(:a) { puts "a" }
      file "product" => "nothing"
    RAKEFILE
    rakuda(rakefile, "-j4") do |run|
      assert_equal [1, %w[a]], [run.status, run.lines]
      assert_match(/^Don't know how to build task 'nothing' \(See the list of available tasks with `rakuda --tasks`\)$/, run.err)
      assert_match(/^Tasks: TOP => default => product$/, run.err)
    end
  end

  def test_nested_invocations_give_up_their_core
    rakefile = <<~'RAKEFILE'
      task(:default) { Rake::Task["n0"].invoke; puts "end" }
      10.times { |i| task("n#{i}") { Rake::Task["n#{i + 1}"].invoke; puts i } }
      task("n10" => %w[x y]) { puts "bottom" }
      task(:x)
      task(:y) { sh "echo y", verbose: false }
    RAKEFILE
    rakuda(rakefile, "-j2") { |run| assert_equal ["y", "bottom", *(0..9).to_a.reverse.map(&:to_s), "end"], run.lines, run.err }
  end

  def test_two_actions_may_invoke_the_same_task
    rakefile = <<~'RAKEFILE'
      task default: %w[a b]
      %w[a b].each { |n| task(n) { Rake::Task[:shared].invoke; puts "after #{File.read("shared")}" } }
      task(:shared) { sleep 0.01; File.write("shared", "done", mode: "a") }
    RAKEFILE
    rakuda(rakefile, "-j2") { |run| assert_equal ["after done", "after done"], run.lines, run.err }
  end

  def test_invoking_a_task_that_needs_the_caller_does_not_hang
    rakefile = <<~'RAKEFILE'
      task default: %w[a d]
      task(:a) { Rake::Task[:c].invoke; puts "a" }
      task(b: :a) { puts "b" }
      task(c: :b) { puts "c" }
      task(d: :c) { puts "d" }
    RAKEFILE
    rakuda(rakefile, "-j4") { |run| assert_equal %w[b c a d], run.lines, run.err }
  end

  def test_tasks_defined_while_running_run
    rakefile = <<~'RAKEFILE'
      task(:default) do
        names = (0..4).map { |i| task("late#{i}") { File.write("l#{i}", "") }.name }
        task(all: names)
        Rake::Task[:all].invoke
        puts Dir["l*"].size
      end
    RAKEFILE
    rakuda(rakefile, "-j4") { |run| assert_equal %w[5], run.lines, run.err }
  end

  def test_planned_task_gets_a_prerequisite_from_an_action
    rakefile = <<~'RAKEFILE'
      task default: %w[a b]
      task(:a) { task(b: :extra) }
      task(b: :a) { puts "b" }
      task(:extra) { sleep 0.01; puts "extra" }
    RAKEFILE
    rakuda(rakefile, "-j4") { |run| assert_equal %w[extra b], run.lines, run.err }
  end

  def test_exit_in_an_action_ends_the_run
    rakefile = <<~'RAKEFILE'
      task default: %w[leave after]
      task(:leave) { exit 7 }
      task(after: :leave) { puts "never" }
    RAKEFILE
    rakuda(rakefile, "-j4") { |run| assert_equal [7, ""], [run.status, run.out] }
  end

  def test_threads_of_an_action_invoke_and_run_commands
    rakefile = <<~'RAKEFILE'
      task(:default) { (0..3).map { |i| Thread.new { Rake::Task["t#{i}"].invoke; sh "true", verbose: false; i } }.each { |t| p t.value } }
      4.times { |i| task("t#{i}") { sh "touch f#{i}", verbose: false } }
    RAKEFILE
    rakuda(rakefile, "-j2") do |run|
      assert_equal %w[0 1 2 3], run.lines, run.err
      assert_equal 4, Dir[File.join(run.folder, "f*")].size
    end
  end

  def test_mutex_and_queue_work_between_actions
    rakefile = <<~'RAKEFILE'
      QUEUE = Queue.new
      LOCK = Mutex.new
      task default: %w[taker giver]
      task(:taker) { puts QUEUE.pop; LOCK.synchronize { puts "locked" } }
      task(:giver) { LOCK.synchronize { QUEUE << "given"; sleep 0.01; puts "unlocking" } }
    RAKEFILE
    rakuda(rakefile, "-j2", "--output", "line") { |run| assert_equal %w[given unlocking locked], run.lines, run.err }
  end

  # Far more than Ruby has room for on its stack. (A million: crates/core/tests/large.rs.)
  def test_chain_of_thirty_thousand_tasks
    rakefile = <<~'RAKEFILE'
      task("c0") { puts "first" }
      (1..30_000).each { |i| task("c#{i}" => "c#{i - 1}") }
      task(default: "c30000") { puts "last" }
      task(:failing0) { raise "deep" }
      (1..30_000).each { |i| task("failing#{i}" => "failing#{i - 1}") }
    RAKEFILE
    rakuda(rakefile, "-j2") { |run| assert_equal [0, %w[first last]], [run.status, run.lines], run.err[0, 500] }
    rakuda(rakefile, "-j2", "failing30000") do |run|
      assert_equal 1, run.status
      assert_match(/^Tasks: TOP => failing30000 => .* => failing1 => failing0$/, run.err)
    end
  end

  def test_thirty_thousand_prerequisites
    rakefile = <<~'RAKEFILE'
      names = (0...30_000).map { |i| "w#{i}" }
      names.each { |n| task(n) }
      task("w29999") { puts "one acts" }
      task(default: names) { puts "last" }
    RAKEFILE
    rakuda(rakefile, "-j2") { |run| assert_equal ["one acts", "last"], run.lines, run.err[0, 500] }
  end

  def test_odd_names_reach_commands_and_files
    rakefile = <<~'RAKEFILE'
      NAMES = ["a b", "new\nline", "ünï", "$HOME", "`x`", "'q'", "\"dq\"", "*", "-n", "\\", "\xff\xfe".b]
      task default: NAMES
      NAMES.each { |n| file(n) { |t| sh "touch", "--", t.name, verbose: false } }
    RAKEFILE
    rakuda(rakefile, "-j4") do |run|
      assert_equal 0, run.status, run.err
      left = Dir.children(run.folder).map(&:b) - ["Rakefile", ".rakuda"]
      assert_equal 11, left.size
      assert_includes left, "\xff\xfe".b
    end
  end

  def test_cycle_is_found_before_anything_runs
    rakefile = <<~'RAKEFILE'
      task default: %w[a b]
      task(:a) { puts "never" }
      task(b: :c)
      task(c: :b)
    RAKEFILE
    rakuda(rakefile, "-j4") do |run|
      assert_equal [1, ""], [run.status, run.out]
      assert_match(/Circular dependency detected: TOP => default => b => c => b/, run.err)
    end
  end

  def test_engine_that_cannot_be_found_is_named
    rakuda("task(:default) { }", environment: { "RAKUDA_ENGINE" => "/no/engine" }) do |run|
      assert_equal 1, run.status
      assert_match(%r{cannot find the engine rakudad \(looked at: /no/engine}, run.err)
    end
  end

  def test_listing_tasks_needs_no_engine
    %w[-T -P -W --version --help].each do |option|
      rakuda("desc 'x'\ntask(:default) { }", option, environment: { "RAKUDA_ENGINE" => "/no/engine" }) do |run|
        assert_equal 0, run.status, option + run.err
      end
    end
  end

  def test_signals_end_the_run_with_their_status
    rakefile = <<~'RAKEFILE'
      task default: %w[a b c]
      task(:a) { puts "ready"; sh "sleep 1000" }
      task(:b) { begin; puts "ready"; sleep 1000; ensure; puts "cleaned up"; end }
      task(:c) { puts "ready"; loop { sleep 0.001 } }
    RAKEFILE
    { "INT" => 130, "TERM" => 143 }.each do |signal, wanted|
      start_rakuda(rakefile, "-j3", "--grace", "20") do |pid, _folder, out|
        seen = []
        seen << (out.gets || flunk("ended early: #{seen.join}")) until seen.grep(/ready/).size == 3
        Process.kill(signal, pid)
        text = out.read
        Process.wait(pid)
        assert_equal wanted, Process.last_status.exitstatus, text
        assert_match(/cleaned up/, text)
      end
    end
  end
end

Engines.each do |engine, environment|
  Class.new(Minitest::Test) do
    include ParallelTests
    define_method(:setup) { @engine_environment = environment }
    define_singleton_method(:name) { "ParallelTest#{engine.capitalize}" }
    Object.const_set("ParallelTest#{engine.capitalize}", self)
  end
end
