# frozen_string_literal: true

# Whoever is killed, and however: no process is left, nothing half-written is taken as good, and the next run
# finishes with the same files as an undisturbed one. Runs the real command; waits for events, not for time.

require "minitest/autorun"
require "fileutils"
require "pty"
require "tmpdir"
require_relative "../support/run_processes"
require_relative "../support/waiting"

# Kills the command, its engine, its guard, and what a user's Ctrl-C does.
class KillTest < Minitest::Test
  include Waiting

  RAKUDA = File.expand_path("../../bin/rakuda", __dir__)

  # Each target is written in two halves; "slow" ones wait between them until the test lets them go on.
  RAKEFILE = <<~'RUBY'
    names = (1..8).map { |n| "out/#{n}" }
    directory "out"
    names.each do |name|
      file name => "out" do
        sh "echo first > #{name}; touch #{name}.half; #{ENV.fetch("HOLD")}; echo second >> #{name}", verbose: false
      end
    end
    file "all" => names do |t|
      sh "cat #{names.join(" ")} > all", verbose: false
    end
    task default: "all"
  RUBY

  def setup
    @directory = Dir.mktmpdir("rakuda-kill")
    rakefile(RAKEFILE)
    # A number that no other process has in its arguments: to find ours by.
    @token = "86400.#{Process.pid}#{rand(1_000_000)}"
  end

  def teardown
    stragglers.each { |pid| Process.kill(:KILL, pid) rescue nil }
    FileUtils.rm_rf(@directory)
  end

  VICTIMS = [%i[starter], %i[guard], %i[front], %i[hub], %i[front hub], %i[guard hub], %i[starter hub], %i[starter front]].freeze

  VICTIMS.each do |victims|
    define_method("test_killed_#{victims.join("_and_")}_leave_nothing") { check_killed(victims) }
  end

  def test_killed_hub_takes_processes_along_that_left_their_group
    start("setsid sleep #{@token} & sleep #{@token}")
    wait_until { stragglers.size >= 2 }
    check_nothing_left(:KILL, RunProcesses.of(@rakuda).fetch(:hub))
  end

  def test_killed_rakuda_takes_along_what_ruby_itself_had_started
    rakefile("task(:default) { system \"setsid sleep #{@token} & sleep #{@token}\" }\n")
    start(":")
    wait_until { stragglers.size >= 2 }
    check_nothing_left(:KILL, @rakuda)
  end

  def test_ctrl_c_ends_commands_and_says_so
    start("sleep #{@token}")
    wait_until { stragglers.size >= 2 }
    Process.kill(:INT, @rakuda)
    _, status = Process.wait2(@rakuda)
    assert_equal 130, status.exitstatus
    assert_predicate stragglers, :empty?
    check_resume
  end

  def test_ctrl_c_also_ends_group_members_that_outlive_their_leader
    start("(trap '' INT TERM HUP; sleep #{@token}; sleep #{@token}) | cat", "--grace", "1")
    wait_until { stragglers.size >= 2 }
    check_nothing_left(:INT, @rakuda)
  end

  def test_ctrl_c_also_ends_what_ruby_itself_had_started
    rakefile("task(:default) { system \"sleep #{@token}\" }\n")
    start(":")
    wait_until { stragglers.any? }
    check_nothing_left(:INT, @rakuda)
  end

  def test_one_job_on_a_terminal_can_ask_its_user
    rakefile("task(:default) { sh \"sh -c 'read x; echo got $x'\" }\n")
    PTY.spawn(RAKUDA, "-j", "1", chdir: @directory) do |output, input, pid|
      @rakuda = pid
      input.puts "hello"
      seen = +""
      begin
        seen << output.readpartial(1000) until seen.include?("got hello")
      rescue Errno::EIO
        flunk "the terminal was closed after #{seen.inspect}"
      end
    end
  end

  def test_command_without_a_terminal_fails_instead_of_being_stopped
    rakefile("task(:default) { sh \"sh -c 'read x </dev/tty'\" }\n")
    PTY.spawn(RAKUDA, "-j", "2", chdir: @directory) do |output, _input, pid|
      @rakuda = pid
      seen = +""
      begin
        loop { seen << output.readpartial(1000) }
      rescue Errno::EIO
        assert_includes seen, "Command failed with status"
      end
    end
  end

  def test_second_ctrl_c_does_not_wait_for_those_who_ignore_the_first
    start("trap '' INT TERM; sleep #{@token} & wait; sleep #{@token}", "--grace", "600")
    wait_until { stragglers.size >= 2 }
    Process.kill(:INT, @rakuda)
    Process.kill(:INT, @rakuda) until Process.wait2(@rakuda, Process::WNOHANG).tap { |done| @ended = done; sleep 0.05 }
    assert_equal 130, @ended[1].exitstatus
    wait_until { stragglers.empty? }
    check_resume
  end

  def test_those_who_ignore_signals_are_killed_after_the_grace
    start("trap '' INT TERM; sleep #{@token} & wait; sleep #{@token}", "--grace", "0.1")
    wait_until { stragglers.size >= 2 }
    Process.kill(:INT, @rakuda)
    _, status = Process.wait2(@rakuda)
    assert_equal 130, status.exitstatus
    wait_until { stragglers.empty? }
  end

  def test_command_that_nobody_waits_for_ends_with_the_run
    rakefile(<<~RUBY)
      task(:default) do
        Fiber.schedule { sh "touch begun; sleep #{@token}; :" }
        sleep 0.01 until File.exist?("begun")
      end
    RUBY
    start(":")
    Process.wait(@rakuda)
    assert_path_exists File.join(@directory, "begun")
    wait_until { stragglers.empty? }
    assert_empty stragglers
  end

  private

  def log = File.join(@directory, "log")

  def rakefile(text) = File.write(File.join(@directory, "Rakefile"), text)

  # The victim gets the signal, rakuda ends, and no process of the run is left.
  def check_nothing_left(signal, victim)
    Process.kill(signal, victim)
    Process.wait(@rakuda)
    wait_until { stragglers.empty? }
    assert_empty stragglers
  end

  def start(hold, *options)
    @rakuda = Process.spawn({ "HOLD" => hold }, RAKUDA, "-j", "2", *options, chdir: @directory, out: log, err: log)
  end

  def check_killed(victims)
    start("sleep #{@token}")
    wait_until { stragglers.size >= 2 && Dir["#{@directory}/out/*.half"].size >= 2 }
    processes = RunProcesses.of(@rakuda)
    victims.each do |victim|
      Process.kill(:KILL, processes.fetch(victim))
    rescue Errno::ESRCH
      nil # it has noticed the end of the one before, and has ended
    end
    Process.wait(@rakuda)
    wait_until { stragglers.empty? && processes.values.none? { |pid| RunProcesses.alive?(pid) } }
    check_resume
  end

  # The next run takes nothing half-written as good and makes what an undisturbed run makes.
  def check_resume
    ok = system({ "HOLD" => ":" }, RAKUDA, "-j", "2", chdir: @directory, out: log, err: log)
    assert ok, File.read(log)
    (1..8).each { |n| assert_equal "first\nsecond\n", File.read("#{@directory}/out/#{n}") }
    assert_equal "first\nsecond\n" * 8, File.read("#{@directory}/all")
  end

  def wait_until(&block)
    wait_for("it at #{caller(1, 1).first}", -> { File.exist?(log) ? File.read(log) : "" }, &block)
  end

  # Processes of ours that hold the token in their arguments (shells and sleeps).
  def stragglers
    RunProcesses.all.map(&:pid).select { |pid| RunProcesses.words(pid).include?(@token) } - [@rakuda]
  end
end
