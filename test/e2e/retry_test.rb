# frozen_string_literal: true

# Before an action is tried again, what the commands of its failed attempt have left behind is ended, so that two
# attempts never write one target at a time; what other tasks have left goes on.

require "minitest/autorun"
require "open3"
require_relative "../support/engines"
require_relative "../support/run_processes"
require_relative "../support/scratch_folder"

class RetryTest < Minitest::Test
  include ScratchFolder

  # In a session of its own, with its output elsewhere, and an orphan at once.
  DAEMON = "(setsid sh -c 'while :; do echo part >> out; sleep 0.001; done' > /dev/null 2>&1 &)"

  def test_nothing_of_a_failed_attempt_writes_while_the_next_one_does
    out, status = run_rakuda(<<~RUBY)
      file "out" do
        next sh("for i in $(seq 100); do echo whole; sleep 0.001; done >> out") if File.exist?("failed")
        touch "failed"
        sh "#{DAEMON}; until test -s out; do sleep 0.001; done; exit 1"
      end
      task default: "out"
    RUBY
    assert_predicate status, :success?, out
    assert_equal ["whole\n"] * 100, File.readlines(path("out")), out
    refute_path_exists path("out._fail_")
  end

  # The reader did not fail itself: it was ended with its writer, and is tried again with it.
  def test_nothing_that_a_task_ended_with_its_gang_has_left_writes_while_the_next_attempt_does
    out, status = run_rakuda(<<~RUBY)
      stream :words, from: "talk", to: "out"
      task :talk do
        next sh("echo whole") if File.exist?("failed")
        touch "failed"
        sh "until test -s out; do sleep 0.001; done; exit 1"
      end
      file "out" do
        next sh("cat >> out; for i in $(seq 99); do echo whole; sleep 0.001; done >> out") if File.exist?("begun")
        touch "begun"
        sh "#{DAEMON}; cat > /dev/null"
      end
      task default: "out"
    RUBY
    assert_predicate status, :success?, out
    assert_equal ["whole\n"] * 100, File.readlines(path("out")), out
  end

  def test_what_other_tasks_have_left_goes_on_while_one_is_tried_again
    out, status = run_rakuda(<<~'RUBY')
      task(:server) { sh "setsid sleep 1000 > /dev/null 2>&1 & echo $! > server" }
      task default: :server do
        next sh("kill -0 $(cat server)") if File.exist?("failed")
        touch "failed"
        sh "exit 1"
      end
    RUBY
    server = Integer(File.read(path("server")))
    assert_predicate status, :success?, out
    assert RunProcesses.alive?(server), "it lives on after the run as well"
  ensure
    Process.kill(:KILL, server) if server
  end

  private

  def run_rakuda(rakefile)
    File.write(path("Rakefile"), rakefile)
    Open3.capture2e(Engines::REAL, RAKUDA, "-j", "2", "--retry", "1", chdir: @folder)
  end
end
