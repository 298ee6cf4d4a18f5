# frozen_string_literal: true

# The live display on a real pseudo-terminal, seen as a user sees it.

require "fileutils"
require "minitest/autorun"
require "open3"
require_relative "../support/engines"
require_relative "../support/run_processes"
require_relative "../support/scratch_folder"
require_relative "../support/terminal"

class LiveDisplayTest < Minitest::Test
  include ScratchFolder

  HEAD = %r{\A\d+/\d+ done, \d+ running}.freeze
  CLOSING = /\Arakuda: \d+ done in \d.*; for a report: rakudactl report\z/.freeze
  GATE = "sleep 0.01 until File.exist?('gate')"

  def run_on_terminal(rakefile, *arguments, **options, &on_output)
    File.write(File.join(@folder, "Rakefile"), rakefile)
    Terminal.run(RAKUDA, *arguments, directory: @folder, input: options.delete(:input) || File::NULL, **options, &on_output)
  end

  def open_gate
    FileUtils.touch(File.join(@folder, "gate"))
  end

  # @return [Array<String>] what is left on the terminal, but for the closing line, which must be the last
  def lines_but_closing(terminal)
    *lines, closing, rest = terminal.lines
    assert_match(CLOSING, closing)
    assert_empty rest
    lines
  end

  # @return [Boolean] whether the display is to be seen
  def shown?(terminal)
    terminal.lines.any? { |line| line.match?(HEAD) }
  end

  def test_the_display_shows_counts_and_the_longest_tasks_and_leaves_nothing_behind
    File.write(File.join(@folder, "old"), "")
    rakefile = <<~RUBY
      file("old") { raise "up to date" }
      task(all: %w[old first second])
      task(:first) { sh "until [ -e gate ]; do sleep 0.01; done; echo first ends", verbose: false }
      task(second: :first) { puts "second" }
    RUBY
    terminal = run_on_terminal(rakefile, "-j2", "all") { |now| open_gate if now.lines.any?(/\A +\d+ s  first  sleep\z/) }
    assert_equal ["first ends", "second"], lines_but_closing(terminal)
    # It may be drawn before the first task has begun.
    assert_includes terminal.seen.flatten, "0/2 done, 1 running"
    # A terminal hands a line out in parts when it likes.
    programs = terminal.seen.flatten.filter_map { |line| line[/\A +\d+ s  first  (\S+)\z/, 1] }.uniq
    assert_includes programs, "sleep", "the first program that runs"
    assert_empty programs.reject { |word| "sleep".start_with?(word) }, "no word of the shell"
    assert terminal.status.success?
  end

  def test_names_of_what_failed_are_red_unless_the_user_wants_no_colour
    rakefile = "task(default: %w[bad good])\ntask(:bad) { sh 'exit 3' }\ntask(:good) { puts 'fine' }"
    red = "\e[31;1mbad\e[0m"
    terminal = run_on_terminal(rakefile, "-j2", "--keep-going", "--progress", "off")
    assert_includes terminal.bytes, "task #{red} failed after"
    assert_includes terminal.bytes, "\n#{red}: failed after"
    terminal = run_on_terminal(rakefile, "-j2", "--keep-going", "--progress", "off", environment: { "NO_COLOR" => "1" })
    assert_includes terminal.bytes, "task bad failed after"
    refute_includes terminal.bytes, "\e[31"
    _, errors, = Open3.capture3({ "NO_COLOR" => nil }, RAKUDA, "-j2", "--ci", "github", chdir: @folder)
    assert_includes errors, "\n#{red}: failed after"
    assert_match(/^::error .*title=bad::failed/, errors)
  end

  def test_off_a_terminal_nothing_is_red_unless_the_user_wants_colours
    File.write(File.join(@folder, "Rakefile"), "task(:bad) { sh 'exit 3' }")
    none = { "NO_COLOR" => nil, "CLICOLOR_FORCE" => nil, "FORCE_COLOR" => nil }
    { {} => false, { "CLICOLOR_FORCE" => "0" } => false, { "CLICOLOR_FORCE" => "1" } => true, { "FORCE_COLOR" => "1" } => true,
      { "FORCE_COLOR" => "1", "NO_COLOR" => "1" } => false }.each do |set, red|
      _, errors, = Open3.capture3(none.merge(set), RAKUDA, "-j2", "bad", chdir: @folder)
      assert_includes errors, red ? "\n\e[31;1mbad\e[0m: failed after" : "\nbad: failed after", set.inspect
      assert_equal red, errors.include?("\e["), set.inspect
    end
  end

  def test_output_of_many_tasks_is_whole_and_in_order_above_the_display
    rakefile = <<~RUBY
      task(:gate) { #{GATE} }
      8.times do |n|
        task("t\#{n}") do
          40.times do |i|
            puts "ruby \#{n} \#{i}"
            sh "echo sh \#{n} \#{i}; echo err \#{n} \#{i} >&2", verbose: false
          end
        end
      end
      task(default: (0..7).map { |n| "t\#{n}" } + ["gate"])
    RUBY
    terminal = run_on_terminal(rakefile, "-j9") { |now| open_gate if shown?(now) }
    8.times do |n|
      expected = (0...40).flat_map { |i| ["ruby #{n} #{i}", "sh #{n} #{i}"] }
      assert_equal expected, terminal.lines.grep(/\A(ruby|sh) #{n} /)
      assert_equal((0...40).map { |i| "err #{n} #{i}" }, terminal.lines.select { |line| line.start_with?("err #{n} ") })
    end
    assert_equal 8 * 40 * 3, lines_but_closing(terminal).size, "nothing but what tasks print is left"
  end

  def test_the_window_may_change_its_width_and_no_line_is_wider
    rakefile = %(task(:default) { sh "until [ -e gate ]; do sleep 0.01; done; : #{'x' * 200}", verbose: false })
    widths = []
    terminal = run_on_terminal(rakefile, "-j2", columns: 30) do |now|
      next unless shown?(now)

      widths << now.seen.last.map(&:size).max
      widths.size < 3 ? now.resize(60) : open_gate
    end
    assert_operator widths.max, :<, 60
    assert_operator widths.first, :<, 30
    assert_empty lines_but_closing(terminal)
  end

  def test_names_cannot_act_on_the_terminal
    rakefile = <<~'RUBY'
      task("evil\e[2J\n\rname#{'y' * 100}") { sh "until [ -e gate ]; do sleep 0.01; done", verbose: false }
      task default: Rake::Task.tasks.map(&:name).reject { |name| name == "default" }
    RUBY
    drawn = nil
    terminal = run_on_terminal(rakefile, "-j2") do |now|
      drawn ||= now.lines.grep(/\.\.\.y/).first if shown?(now)
      open_gate if drawn
    end
    assert_match(/evil\?\[2J\?\?namey+\.\.\.y+/, drawn)
    assert_empty lines_but_closing(terminal)
  end

  def test_colours_are_left_out_when_the_user_wants_none
    rakefile = %(task(:bad) { raise "x" }\ntask(:slow) { #{GATE} }\ntask default: %w[bad slow])
    { nil => true, "1" => false }.each do |value, coloured|
      FileUtils.rm_f(File.join(@folder, "gate"))
      terminal = run_on_terminal(rakefile, "-j2", "--failure", "continue", environment: { "NO_COLOR" => value }) do |now|
        open_gate if now.lines.any?(%r{\A0/2 done, .*1 failed})
      end
      assert_equal coloured, terminal.bytes.include?("\e[31m"), value.inspect
      refute terminal.status.success?
    end
  end

  def test_processes_and_questions_of_ruby_have_the_terminal_for_themselves
    rakefile = <<~'RUBY'
      task(:wait) { sleep 0.01 until File.exist?("shown"); nil }
      task(local: :wait) do
        system "printf 'local '; until [ -e gate ]; do sleep 0.01; done; echo ends"
        STDOUT.puts "constant"
        Thread.new { $stdout.puts "thread" }.join
      end
      task default: :local
    RUBY
    held = []
    terminal = run_on_terminal(rakefile, "-j2") do |now|
      FileUtils.touch(File.join(@folder, "shown")) if shown?(now)
      if now.lines.last == "local"
        held << shown?(now)
        open_gate
      end
    end
    assert_equal ["local ends", "constant", "thread"], lines_but_closing(terminal)
    assert_equal [false], held.uniq
  end

  def test_a_question_of_an_action_is_seen_and_answered
    rakefile = <<~'RUBY'
      task(:ask) { sleep 0.01 until File.exist?("shown"); print "name? "; puts "hello #{STDIN.gets}" }
      task default: :ask
    RUBY
    IO.pipe do |reader, writer|
      terminal = run_on_terminal(rakefile, "-j2", input: reader) do |now|
        FileUtils.touch(File.join(@folder, "shown")) if shown?(now)
        next unless now.lines.last == "name?"

        writer.puts("you") unless writer.closed?
        writer.close unless writer.closed?
      end
      assert_equal ["name? hello you"], lines_but_closing(terminal)
    end
  end

  def test_the_terminal_is_clean_after_an_interrupt_and_after_errors
    stubborn = "trap '' INT TERM; while :; do sleep 1; done"
    # One that ends with the first signal, and one that the second has to kill.
    { "sleep 1000" => 1, stubborn => 2 }.each do |command, times|
      rakefile = %(task(:default) { puts "begun"; File.write("begun", ""); sh #{command.dump}, verbose: false })
      FileUtils.rm_f(File.join(@folder, "begun"))
      left = times
      terminal = run_on_terminal(rakefile, "-j2") do |now|
        Process.kill(:INT, now.pid) if shown?(now) && File.exist?(File.join(@folder, "begun")) && (left -= 1) >= 0
      end
      assert_equal ["begun", "rakuda aborted!", "Interrupt", "== rakuda: stopped: 0/1 done ==", "to resume: rakuda -j2", ""],
                   terminal.lines, command
      assert_equal 130, terminal.status.exitstatus
    end
  end

  def test_the_terminal_is_clean_after_rakuda_or_the_engine_was_killed
    rakefile = %(task(:default) { sh "sleep 1000", verbose: false })
    terminal = run_on_terminal(rakefile, "-j2") { |now| shown?(now) && Process.kill(:KILL, now.pid) }
    assert_equal [""], terminal.lines
    killed = nil # once: what was written before may still come
    terminal = run_on_terminal(rakefile, "-j2") do |now|
      killed ||= shown?(now) && Process.kill(:KILL, RunProcesses.of(now.pid).fetch(:hub))
    end
    refute shown?(terminal), terminal.lines.join("\n")
    assert_match(/\Arakuda aborted!/, terminal.lines.first)
  end

  def test_where_there_is_no_terminal_a_line_is_printed_after_a_while
    File.write(File.join(@folder, "Rakefile"), %(task(:default) { #{GATE} }))
    IO.pipe do |reader, writer|
      pid = Process.spawn("timeout", "-s", "KILL", "120", RAKUDA, "-j2", chdir: @folder, out: File::NULL, err: writer)
      writer.close
      line = ""
      line = reader.gets until line.nil? || line.include?("done, ")
      open_gate
      Process.wait(pid)
      assert_equal "rakuda: 0/1 done, 1 running, 0 failed\n", line
      assert_equal 0, Process.last_status.exitstatus, reader.read
    end
    settings = Open3.capture2(Engines::REAL, RAKUDA, "-j2", "--show-conf", chdir: @folder).first
    assert_match(%r{^PROGRESS +off +\(.*/test/support/settings/rakuda/rakuda.yaml\)$}, settings, "other tests do not get it")
  end

  def test_no_display_where_it_would_disturb
    rakefile = %(task(:default) { sleep 0.6; puts "x" }) # longer than it takes until the display is first drawn
    [%w[-j2 --progress off], %w[-j2 --output none]].each do |arguments|
      terminal = run_on_terminal(rakefile, *arguments)
      assert_equal ["x"], lines_but_closing(terminal), arguments.join(" ")
      assert_equal 2, terminal.bytes.count("\n"), arguments.join(" ")
    end
    terminal = run_on_terminal(rakefile, "-j2", environment: { "TERM" => "dumb" })
    assert_equal ["x"], lines_but_closing(terminal)
    refute_includes terminal.bytes, "\e"
    # And not a word more than what the task prints.
    [%w[-j2 -q], %w[-j2 -s]].each do |arguments|
      assert_equal "x\r\n", run_on_terminal(rakefile, *arguments).bytes, arguments.join(" ")
    end
  end

  def test_the_closing_line_says_what_was_made_and_where_there_is_nothing_to_do
    rakefile = <<~'RUBY'
      (1..4).each { |n| file("#{n}.out") { |t| touch t.name, verbose: false } }
      task(all: %w[1.out 2.out 3.out 4.out]) { raise "cannot" if ENV["BAD"] }
      task(:nothing)
    RUBY
    { %w[1.out 2.out -j1] => "2 done in TIME; made 1.out, 2.out; for a report: rakudactl report",
      %w[1.out 2.out] => "nothing to do: all is up to date", %w[nothing] => "nothing to do",
      %w[--no-record all -B] => "5 done in TIME; made 4 targets" }.each do |words, expected|
      told = run_on_terminal(rakefile, *words).lines
      assert_equal ["rakuda: #{expected}", ""], told.map { |line| line.sub(/\d+ ms|\d+(\.\d)? s/, "TIME") }, words.join(" ")
    end
    told = run_on_terminal(rakefile, "all", "BAD=1").lines.join("\n")
    refute_match(/^rakuda: (?!aborted)|done in/, told, "a run that failed has its own last lines")
    assert_match(/Estimate: |would run$/i, run_on_terminal(rakefile, "-n", "all").lines[-3..].join("\n"))
  end

  def test_no_display_when_stdout_is_read_by_someone_who_may_write_to_the_terminal
    terminal = run_in_shell(%(task(:default) { sleep 0.6; puts "x" }), "| cat")
    assert_empty terminal.seen.flatten.grep(HEAD)
    assert_equal ["x"], terminal.lines.grep_v(/\A(#{CLOSING}|)\z/)
    # Elsewhere it is drawn, and the run ends when it was.
    ["> out", "> /dev/null"].each do |redirection|
      FileUtils.rm_f(File.join(@folder, "gate"))
      terminal = run_in_shell(%(task(:default) { #{GATE} }), redirection) { |now| open_gate if shown?(now) }
      assert terminal.status.success?, redirection
    end
  end

  def run_in_shell(rakefile, redirection, &on_output)
    File.write(File.join(@folder, "Rakefile"), rakefile)
    Terminal.run("/bin/sh", "-c", "#{RAKUDA} -j2 #{redirection}", directory: @folder, input: File::NULL, &on_output)
  end

  def test_a_display_that_cannot_be_is_refused_with_what_is_in_the_way
    File.write(File.join(@folder, "Rakefile"), "task(:default)")
    _, complaint, = Open3.capture3({ "TERM" => "xterm" }, RAKUDA, "--progress", "live", chdir: @folder)
    assert_match(/--progress live: stderr is no terminal; use --progress plain/, complaint)
  end
end
