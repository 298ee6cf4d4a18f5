# frozen_string_literal: true

# The Rakefile's own handlers of SIGINT and SIGTERM: called as with rake, which goes on unless they raise.

require "minitest/autorun"
require_relative "support/rakefile_run"

class TrapsTest < Minitest::Test
  include RakefileRun

  # The signal is sent by the command that the action waits for, so nothing depends on time.
  SIGNAL = 'sh "kill -%s #{Process.pid}", verbose: false' # rubocop:disable Lint/InterpolationCheck

  def setup
    @engine_environment = Engines::REAL
  end

  # Runs it with rake and with rakuda.
  # @return [Array(Array(Integer, Array<String>), Array(Integer, Array<String>))] status and lines of each
  def both(rakefile, *words)
    rakuda(rakefile, *words) do |run|
      out, _, status = Open3.capture3(@engine_environment, "rake", chdir: run.folder)
      yield [status.exitstatus, out.lines.map(&:chomp)], [run.status, run.lines], run.err
    end
  end

  def test_handler_of_the_rakefile_that_does_not_raise_lets_the_run_go_on
    %w[INT TERM].product(%w[-j1 -j2]).each do |signal, jobs|
      rakefile = "trap('#{signal}') { |number| puts \"mine \#{number}\" }\n" \
                 "task(:default) { 2.times { #{format(SIGNAL, signal)} }; puts 'after' }"
      both(rakefile, jobs) do |rake, rakuda, err|
        assert_equal rake, rakuda, err
        assert_equal [0, ["mine #{Signal.list[signal]}"] * 2 + ["after"]], rakuda, err
      end
    end
  end

  def test_handler_set_in_an_action_lets_the_run_go_on
    rakefile = "task(default: :next) { #{format(SIGNAL, "INT")}; puts 'after' }\n" \
               "task(:next) { trap('INT') { puts 'mine' }; #{format(SIGNAL, "INT")} }\nat_exit { Process.kill('INT', $$) }"
    both(rakefile, "-j2") do |rake, rakuda, err|
      assert_equal rake, rakuda, err
      assert_equal [0, %w[mine mine after mine]], rakuda, err
    end
  end

  def test_ignored_signal_stays_ignored
    rakefile = "trap('INT', 'IGNORE')\ntask(:default) { #{format(SIGNAL, "INT")}; puts 'after' }"
    both(rakefile, "-j2") { |rake, rakuda, err| assert_equal [rake] * 2, [[0, %w[after]], rakuda], err }
  end

  def test_what_a_handler_raises_ends_the_run
    { "exit 7" => 7, "raise Interrupt" => 130, "raise 'no'" => 1 }.each do |code, status|
      rakefile = "trap('TERM') { puts 'mine'; #{code} }\n" \
                 "task(:default) { sh \"kill -TERM \#{Process.pid}; sleep 100\", verbose: false; puts 'after' }"
      rakuda(rakefile, "-j2") { |run| assert_equal [status, %w[mine]], [run.status, run.lines], run.err }
    end
  end
end
