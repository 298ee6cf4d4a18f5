# frozen_string_literal: true

# What the front says to a user about options, output and failures, on the fake hub and on the real one.

require "minitest/autorun"
require_relative "support/rakefile_run"

# The tests; a class for each engine is made below.
module FrontTests
  include RakefileRun

  OUT_OF_RANGE = [%w[-j 0], %w[-j 99999999999], %w[--grace -1], %w[--grace nan], %w[--seed -1],
                  %w[--seed 99999999999999999999999], %w[--resource gpu=-1], %w[--resource gpu=99999999999],
                  %w[--resource =3], %w[--retry -1], %w[--retry 99999999999], %w[--memory 99999999999999T],
                  %w[--memory much], %w[--config /nonexistent], %w[--policy best], %w[--output best], %w[--ci best], ["-L", ""],
                  %w[--failure best], %w[--no-record FAILED_TARGET=leave]].freeze

  def test_values_out_of_range_are_refused_in_one_line
    OUT_OF_RANGE.each do |words|
      rakuda("task(:default) { puts 1 }", *words) do |run|
        assert_equal [1, ""], [run.status, run.out], words.inspect
        assert_match(/\Arakuda: [^\n]*#{Regexp.quote(words.last[/[^=]*/])}[^\n]+\n\z/, run.err)
      end
    end
  end

  def test_description_with_an_equals_sign_stays_one
    rakuda("desc 'Retry flaky ones with retry=N'\ntask(:default) { puts 1 }") do |run|
      assert_equal [0, "1\n"], [run.status, run.out]
      assert_match(%r{\Arakuda: Rakefile:2: retry=N: expected a whole number [^\n]*; taken as text of the description\n\z},
                   run.err)
    end
  end

  def test_show_conf_shows_each_setting_once_with_its_origin
    rakuda("", "--show-conf", "-j3", "--memory", "1G", "--resource", "a=1", "--resource", "b=2", "--strict", "--on-end", "true",
           "--no-oversubscribe", "--stream-route", "relay", environment: { "XDG_CONFIG_HOME" => nil }) do |run|
      wanted = ["NCORE 3 (option)", "QUEUE_PRIORITY LIHR, as lifo_hrf (default)", "memory 1G (option)",
                "resource a=1 b=2 (option)", "record true (default)", "grace 5.0 s (default)", "OUTPUT task (default)",
                "STRICT true (option)",
                "ON_END true (option)", "ON_FAIL nothing (default)", "UI false (default)", "OVERSUBSCRIBE false (option)",
                "STREAM_ROUTE relay (option)", "config none (default)"]
      assert_empty wanted - run.lines.map { |line| line.squeeze(" ") }
      names = run.lines.map { |line| line[/\A\S+/].downcase.tr("_", "-") }
      assert_equal names.uniq, names
      assert_empty %w[jobs policy] & names, "NCORE and QUEUE_PRIORITY say it"
      parts = run.lines.map { |line| line[/\A\S+/] }.partition { |name| name.match?(/\A[A-Z]/) }
      parts.each { |part| assert_equal part.sort, part }
    end
    rakuda("", "--show-conf", "-j1") do |run|
      wanted = ["OUTPUT line (default)", "NCORE 1 (option)", "QUEUE_PRIORITY serial (one job)"]
      assert_empty wanted - run.lines.map { |line| line.squeeze(" ") }
    end
  end

  def test_an_option_without_its_value_is_told_in_one_line
    rakuda("", "--on-end") do |run|
      assert_equal [1, "", "rakuda: missing argument: --on-end\n"], [run.status, run.out, run.err]
    end
  end

  def test_show_conf_shows_what_a_file_sets_once_with_its_origin
    settings = { "NCORE" => 4, "QUEUE_PRIORITY" => "fifo", "OUTPUT" => "line", "STRICT" => true, "UI" => true,
                 "ON_END" => "notify", "ON_FAIL" => "cry", "OVERSUBSCRIBE" => true, "STREAM_ROUTE" => "direct" }
    text = settings.map { |key, value| "#{key}: #{value}\n" }.join
    rakuda("", "--show-conf", "--config", "set.yaml", files: { "set.yaml" => text }) do |run|
      settings.each do |key, value|
        found = run.lines.grep(/\A#{key.tr("_", ".")} /i)
        assert_equal 1, found.size, found.join
        assert_match(%r{\A#{key} +#{value} +\(.*/set\.yaml\)$}, found.first)
      end
    end
    rakuda("", "--show-conf", "-F", "hosts", files: { "hosts" => "localhost\n" }) do |run|
      assert_match(/^NCORE +all of each host +\(default\)$/, run.lines.join("\n"))
    end
    rakuda("", "--show-conf", "-F", "hosts", "HOSTS=others", files: { "hosts" => "localhost\n" }) do |run|
      shown = run.lines.grep(/^HOST(S|FILE)/).map { |line| line.squeeze(" ") }
      assert_equal ["HOSTFILE #{run.folder}/hosts (option)"], shown
    end
  end

  def test_last_line_is_finished_and_prefixed
    rakefile = "task(default: %w[a b])\ntask(:a) { print 'tail' }\ntask(:b) { print 'other' }"
    rakuda(rakefile, "-j2") { |run| assert_equal %w[other tail], run.lines.sort }
    %w[-j2 -j1].each do |jobs|
      rakuda(rakefile, jobs, "--output", "line", "--output-prefix") do |run|
        assert_equal ["[a] tail", "[b] other"], run.lines.sort
      end
    end
  end

  def test_options_come_from_rakeopt_too
    rakuda("task(:default) { sh 'exit 3' }", "-j2", environment: { "RAKEOPT" => "--output line --failure continue -q" }) do |run|
      assert_equal 1, run.status
      refute_match(/does not fit/, run.err)
    end
  end

  def test_question_is_shown_before_its_answer_is_read
    rakefile = "task(:default) { print 'name? '; x = $stdin.gets; puts x }"
    Dir.mktmpdir do |folder|
      File.write(File.join(folder, "Rakefile"), rakefile)
      IO.popen([@engine_environment, RAKUDA, "-j2"], "r+", chdir: folder) do |io|
        assert_equal "name? ", io.readpartial(100)
        io.puts "bob"
        assert_equal "bob\n", io.gets
      end
    end
  end

  def test_file_of_a_redirection_that_cannot_be_opened_raises
    return if @engine_environment["RAKUDA_ENGINE"].end_with?("fake_hub.rb") # it has texts of its own

    rakefile = "task(:default) { sh 'true', in: 'missing' rescue p $! }"
    rakuda(rakefile, "-j2") { |run| assert_equal ["#<Errno::ENOENT: No such file or directory - missing>"], run.lines, run.err }
  end

  def test_aborted_tasks_are_called_so
    rakefile = <<~'RAKEFILE'
      task default: %w[bad other]
      task(:bad) { sleep 0.002 until File.exist?("in"); raise "bad" }
      task(:other) { sh "touch in; sleep 1000", verbose: false }
    RAKEFILE
    rakuda(rakefile, "-j2", "--failure", "kill") do |run|
      assert_match(/^rakuda: task other was aborted$/, run.err)
      refute_match(/^rakuda: task .* failed/, run.err)
    end
  end

  def test_actions_that_invoke_one_another_deeply
    rakefile = <<~'RAKEFILE'
      task(default: "n0")
      1500.times { |i| task("n#{i}") { Rake::Task["n#{i + 1}"].invoke } }
      task("n1500") { puts "bottom" }
    RAKEFILE
    rakuda(rakefile, "-j2") { |run| assert_equal [0, %w[bottom]], [run.status, run.lines], run.err[0, 300] }
  end

  def test_job_stats_count_actions
    rakuda("task(default: %w[a b])\ntask(:a) { sleep 0.01 }\ntask(:b) { }", "-j2", "--job-stats") do |run|
      assert_match(/\AMaximum active threads: [12] \+ main\nTotal threads in play:  2 \+ main\n\z/, run.out)
    end
  end
end

Engines.each do |engine, environment|
  Class.new(Minitest::Test) do
    include FrontTests
    define_method(:setup) { @engine_environment = environment }
    define_singleton_method(:name) { "FrontTest#{engine.capitalize}" }
    Object.const_set("FrontTest#{engine.capitalize}", self)
  end
end

# The order in which a run is made ready.
class FrontStartTest < Minitest::Test
  LIB = File.expand_path("../lib", __dir__)
  # An engine that tells, when it is started, which of the session's files are loaded.
  PROGRAM = <<~'RUBY'
    require "rakuda"
    require "rakuda/engine"
    Rakuda::Engine.class_eval do
      def start(_settings)
        puts "started", $LOADED_FEATURES.grep(%r{/rakuda/(session|planner|reactor)\.rb\z})
        raise Rakuda::EngineError, "enough"
      end
    end
    application = Rakuda::Application.new
    application.init("rakuda", [])
    begin
      application.session
    rescue Rakuda::EngineError => e
      puts e.message
    end
  RUBY

  def test_the_engine_starts_before_ruby_loads_what_a_session_needs
    out, status = Open3.capture2e(RbConfig.ruby, "-I", LIB, "-e", PROGRAM)
    assert_equal [true, "started\nenough\n"], [status.success?, out]
  end
end
