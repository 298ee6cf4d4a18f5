# frozen_string_literal: true

# Actions that wait for what can never come are told so, as by Ruby; those that wait for what may come are left to wait.

require "minitest/autorun"
require_relative "support/rakefile_run"

# The tests; a class for each engine is made below.
module DeadlockTests
  include RakefileRun

  DEADLOCK = /^fatal: No live threads left\. Deadlock\?(?: \(fatal\))?$/.freeze

  def test_action_that_waits_for_nothing_fails_as_with_rake
    ["Queue.new.pop", "Thread.new { Queue.new.pop }.join", "Thread.new { sleep 0.01 }; Queue.new.pop",
     "m = Mutex.new; m.synchronize { ConditionVariable.new.wait(m) }",
     "m = Mutex.new; Thread.new { m.lock; Queue.new.pop }.tap { |t| Thread.pass until t.stop? }; m.lock"].each do |code|
      rakefile = "task(default: :other)\ntask(:other) { #{code} }"
      %w[-j1 -j2].each do |jobs|
        rakuda(rakefile, jobs) do |run|
          assert_equal [1, ""], [run.status, run.out], code
          assert_match DEADLOCK, run.err, code
          assert_match(/^Tasks: TOP => default => other$/, run.err)
        end
      end
    end
  end

  def test_actions_that_wait_for_one_another_all_fail
    rakefile = <<~'RAKEFILE'
      QUEUE = Queue.new
      task default: %w[a b]
      task(:a) { sh "true", verbose: false; QUEUE.pop }
      task(:b) { Rake::Task["c"].invoke }
      task(:c) { QUEUE.pop }
    RAKEFILE
    rakuda(rakefile, "-j2") do |run|
      assert_equal 1, run.status
      assert_match DEADLOCK, run.err
    end
  end

  def test_error_can_be_rescued_and_leaves_the_run_usable
    rakefile = <<~'RAKEFILE'
      task :default do
        2.times do
          Queue.new.pop
        rescue Exception => e
          puts e.class
        end
        sh "echo on", verbose: false
      end
    RAKEFILE
    rakuda(rakefile, "-j2") { |run| assert_equal [0, %w[fatal fatal on]], [run.status, run.lines], run.err }
  end

  # Each waits for a command, a task that has not begun, a thread, a pipe, a clock or a signal.
  def test_what_may_still_come_is_waited_for
    rakefile = <<~'RAKEFILE'
      task default: %w[command thread pipe clock signal condition]
      task(:wait_for_it) { (Q1 = Queue.new).tap { Thread.new { sleep 0.7; Q1 << 1 } }.pop }
      multitask command: %w[takes gives]
      Q2 = Queue.new
      task(:takes) { puts "command #{Q2.pop}" }
      task(:gives) { sh "sleep 0.7", verbose: false; Q2 << 1 }
      task(thread: :wait_for_it) { puts "thread 1" }
      task(:pipe) { r, w = IO.pipe; t = Thread.new { r.gets }; spawn("sleep 0.7; echo 1", out: w); puts "pipe #{t.value}" }
      task(:clock) { q = Queue.new; Timeout.timeout(0.7) { q.pop } rescue puts "clock 1" }
      task :condition do
        mutex, condition, come = Mutex.new, ConditionVariable.new, false
        Thread.new { sleep 0.7; mutex.synchronize { come = true; condition.signal } }
        mutex.synchronize { condition.wait(mutex) until come }
        puts "condition 1"
      end
      task(:signal) do
        q = Queue.new
        trap("USR1") { q << 1 }
        pid = spawn("sleep 0.7; kill -USR1 #{$$}")
        Process.wait(pid)
        puts "signal #{q.pop}"
      end
    RAKEFILE
    rakuda("require 'timeout'\n#{rakefile}", "-j8") do |run|
      wanted = %w[clock command condition pipe signal thread].map { |name| "#{name} 1" }
      assert_equal [0, wanted], [run.status, run.lines.sort], run.err
    end
  end

  def test_threads_that_are_slow_to_wake_up_are_no_deadlock
    rakefile = <<~'RAKEFILE'
      task default: %w[a b]
      %w[a b].each do |name|
        task(name) do
          there, back = Queue.new, Queue.new
          thread = Thread.new { 300.times { back << there.pop } }
          300.times { |n| there << n; back.pop }
          thread.join
          puts "done"
        end
      end
    RAKEFILE
    rakuda(rakefile, "-j2") { |run| assert_equal [0, %w[done done]], [run.status, run.lines], run.err }
  end
end

Engines.each do |engine, environment|
  Class.new(Minitest::Test) do
    include DeadlockTests
    define_method(:setup) { @engine_environment = environment }
    define_singleton_method(:name) { "DeadlockTest#{engine.capitalize}" }
    Object.const_set("DeadlockTest#{engine.capitalize}", self)
  end
end
