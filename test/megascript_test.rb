# frozen_string_literal: true

# MegaScript programs: plain Ruby runs them, and what they say of tasks is kept.

require "fileutils"
require "json"
require "minitest/autorun"
require "open3"
require "timeout"
require "tmpdir"
require_relative "support/engines"

class MegascriptTest < Minitest::Test
  LIBRARY = File.expand_path("../lib", __dir__)

  EXAMPLE = <<~'RUBY'
    require "rakuda/megascript"
    raise "too early" if defined?(Task) || defined?(Stream)
    include MegaScript
    a = Task.new("./sim", cost: 10, output: "1MB/s", frequency: 5r/2)
    b = 5.times.map { |i| Task.new("./ana", i) }
    s = Stream.new
    s.in << a
    s.out.concat(b)
    Scheduler.add(a, *b, s)
    Scheduler.run
    puts Dir["out.*"].sort.map { |name| File.read(name).to_i }.sum
  RUBY

  def test_example_of_the_paper_runs_by_ruby_alone
    program(EXAMPLE, "RAKUDA_OPTIONS" => "-j2") do |out, status|
      assert status.success?, out
      assert_equal "5000", out.lines.last.chomp
      journal = File.readlines(Dir[".rakuda/runs/*/journal.jsonl"].first).map { |line| JSON.parse(line) }
      stream = journal.find { |line| line["event"] == "streams_opened" }.fetch("streams").first
      assert_equal({ "sim" => { "cost" => "10", "output" => "1MB/s", "frequency" => "2.500" } }, stream["meta"])
    end
  end

  def test_options_are_taken_and_failures_raise
    text = EXAMPLE.sub("Scheduler.run", "begin; Scheduler.run('-j', 1); rescue MegaScript::Failed => e; puts e.message; end")
    program(text) { |out, status| assert_equal ["5000", true], [out.lines.last.chomp, status.success?], out }
    program(text.sub("./ana\", i", "./none\", i")) { |out,| assert_includes out, "rakuda ended with status 1" }
  end

  def test_options_are_words_of_a_command_line_whatever_they_are
    options = "require 'pathname'; Scheduler.run('-j', 2, [:'-q'], '-C', Pathname('.'))"
    program(EXAMPLE.sub("Scheduler.run", options)) do |out, status|
      assert_equal ["5000", true], [out.lines.last.chomp, status.success?], out
    end
    ["j: 4", "'-j 4 -q'"].each do |option|
      program(EXAMPLE.sub("Scheduler.run", "Scheduler.run(#{option})")) do |out, status|
        refute_predicate status, :success?
        assert_match(/p\.rb:\d+: Scheduler\.run: expected options of rakuda, a word each, such as /, out)
      end
    end
  end

  def test_a_folder_that_cannot_be_written_is_told_at_the_line_of_the_program
    program("File.write('.rakuda', '')\n#{EXAMPLE}") do |out, status|
      refute status.success?
      assert_match(/\A\S+:\d+:in .*Scheduler\.run: the Rakefile of the run cannot be written into \.rakuda/, out.lines.first)
    end
  end

  def test_mistakes_are_told_with_their_place
    mistakes = {
      "Scheduler.run" => "there is nothing to run",
      "Scheduler.add(3)" => "expected a MegaScript::Task or a MegaScript::Stream, not 3",
      "Task.new('x', coast: 3)" => "unknown keyword coast; there are cost, output",
      "s = Stream.new; s.in << Task.new('x'); s.out << Task.new('y'); Scheduler.add(s); Scheduler.run" =>
        "p.rb:3: Stream: a stream joins a task that was not added: x",
      "Scheduler.add(Stream.new); Scheduler.run" => "p.rb:3: Stream: in: it has no task",
      "Task.new('x', cost: nil)" => "p.rb:3: Task: cost: expected a number above 0 and up to 10^15: computing, in any unit, " \
                                    "not nil",
      "Task.new('x', cost: 10**20)" => "p.rb:3: Task: cost: expected a number above 0 and up to 10^15: computing, in any " \
                                       "unit, not 100000000000000000000",
      "Task.new('x', input: [1])" => "p.rb:3: Task: input: expected bytes or bytes a second, such as",
      "Task.new('x', output: '1 gigabyte')" => "such as \"20MB\" or \"1.5MB/s\", with B, KB, MB or GB, not \"1 gigabyte\"",
      "Task.new('x', frequency: -1)" => "p.rb:3: Task: frequency: expected a number above 0 and up to 10^15: messages a " \
                                        "second, not -1",
      "Task.new('x', pattern: :star)" => "p.rb:3: Task: pattern: expected :steady or :burst, not :star",
      "Task.new('x', memory: ->(n) { n })" => "p.rb:3: Task: memory: expected text, numbers, lists",
      "Task.new('x', name: 'default')" => "p.rb:3: Task: name: default is the name under which all run",
      "Task.new('x', after: 3)" => "p.rb:3: Task: after: expected tasks (MegaScript::Task) and names of files, not 3",
      "Scheduler.add(Task.new('x', name: 'a'), Task.new('y', name: 'a')); Scheduler.run" =>
        "p.rb:3: Task: the name a is taken already (p.rb:3)",
      "Scheduler.add(Task.new('x', retry_delay: 'soon')); Scheduler.run" => "p.rb:3: needs: retry_delay",
      "a, b = Task.new('x'), Task.new('y')\ns = Stream.new(window: 1)\ns.in << a\ns.out << b\n" \
      "Scheduler.add(a, b, s)\nScheduler.run" => "p.rb:4: stream: window: expected a number of bytes",
      "a = Task.new('x')\ns = Stream.new\ns.in << a\ns.out << a\nScheduler.add(a, s)\nScheduler.run" =>
        "p.rb:4: stream: the task x cannot read what it writes itself"
    }
    mistakes.each do |line, words|
      program("require 'rakuda/megascript'\ninclude MegaScript\n#{line}\n") do |out, status|
        refute status.success?, line
        assert_includes out, words
      end
    end
  end

  def test_names_are_those_of_the_program_whatever_letters_they_have
    program(<<~'RUBY') do |out, status|
      require "rakuda/megascript"
      include MegaScript
      FileUtils.cp("sim", "default")
      names = ["a[1]", "a{b,c}", "a*", "a?"]
      sims = names.map { |name| Task.new("./sim", name: name) }
      s = Stream.new
      s.in.concat([Task.new("./default"), *sims])
      s.out << Task.new("./ana", "x")
      Scheduler.add(*s.in, *s.out, Task.new("./sim >/dev/null", name: "a1"), s)
      Scheduler.run("-j", 6)
      puts File.read("out.x")
    RUBY
      assert status.success?, out
      assert_equal "5000", out.lines.last.strip
    end
  end

  def test_files_and_streams_mix_and_a_file_is_made_once
    text = <<~'RUBY'
      require "rakuda/megascript"
      include MegaScript
      File.write("seed", "3") unless File.exist?("seed")
      first = Task.new("echo first >> log")
      sim = Task.new("seq $(cat seed)", after: "seed")
      sum = Task.new("awk '{ s += $1 } END { print s }' > sum.txt", file: "sum.txt", cost: 2)
      plot = Task.new("sed s/^/plot:/ sum.txt > plot.txt; echo plotted >> log", file: "plot.txt", after: sum)
      s = Stream.new
      s.in << sim
      s.out << sum
      Scheduler.add(first, sim, sum, plot, s)
      2.times { Scheduler.add(first, sim, sum, plot, s); Scheduler.run("-j", 2) }
      puts File.read("plot.txt"), File.readlines("log").map(&:chomp).sort.inspect
    RUBY
    program(text) do |out, status|
      assert status.success?, out
      assert_equal ["plot:6", %w[first first plotted].inspect], out.lines.last(2).map(&:chomp), out
    end
  end

  def test_another_program_makes_its_file_anew_with_rerun_on_command
    text = <<~'RUBY'
      require "rakuda/megascript"
      include MegaScript
      ["cat > x.txt", "cat > x.txt", "cat -n > x.txt", ["sh", "-c", "tac > x.txt"]].each do |words|
        a = Task.new("seq 2; echo >> runs; echo > made", file: "made")
        b = Task.new(*words, file: "x.txt")
        s = Stream.new
        s.in << a
        s.out << b
        Scheduler.add(a, b, s)
        Scheduler.run("-q", "-j", 2, "--rerun-on", "command")
        puts "#{File.read("x.txt").split.join(" ")}, #{File.readlines("runs").size}"
      end
    RUBY
    program(text) do |out, status|
      assert status.success?, out
      assert_equal ["1 2, 1", "1 2, 1", "1 1 2 2, 2", "2 1, 3"], out.lines.map(&:chomp)
    end
  end

  FAILING = <<~'RUBY'
    require "rakuda/megascript"
    include MegaScript
    def go = Scheduler.run("-j", 2)
    a = Task.new("exit 3")
    b = Task.new("cat > x.txt", file: "x.txt")
    s = Stream.new
    s.in << a
    s.out << b
    Scheduler.add(a, b, s)
    go
  RUBY

  def test_a_failure_is_told_at_the_line_of_the_program_and_resumed_by_it
    program(FAILING) do |out, status|
      assert_equal 1, status.exitstatus, out
      assert_match(/^p\.rb:3:in .*go': rakuda ended with status 1 \(MegaScript::Failed\)\n\s+from p\.rb:10:in .<main>'\n\z/, out)
      assert_includes out, ": ruby -I #{LIBRARY} p.rb\n"
    end
    program(FAILING, "RAKUDA_OPTIONS" => "-q --retry 1") do |out,|
      assert_includes out, ": env 'RAKUDA_OPTIONS=-q --retry 1' ruby -I #{LIBRARY} p.rb\n"
    end
    program("require 'rakuda/megascript'\nMegaScript::Task.new('x', coast: 3)\n") do |out,|
      assert_match(/\Ap\.rb:2:in .*: p\.rb:2: Task: unknown keyword coast/, out)
      refute_includes out, "megascript.rb"
    end
  end

  def test_a_program_ends_where_its_options_only_ask
    %w[-n -P -T --plan=text -V].each do |option|
      program("#{EXAMPLE}puts 'not reached'", "RAKUDA_OPTIONS" => option) do |out, status|
        assert_equal 0, status.exitstatus, out
        assert_match(/^p\.rb: rakuda has run no task, as its options say \(#{option}\): the program ends here\n\z/, out)
        assert_empty Dir["out.*"]
      end
    end
  end

  def test_questions_about_tasks_of_a_program_name_its_rakefile
    program(EXAMPLE) do |out, status|
      assert status.success?, out
      ctl = File.expand_path("../bin/rakudactl", __dir__)
      said, = Open3.capture2e(Engines::REAL, ctl, "why", "sim")
      assert_includes said, "No Rakefile found"
      assert_includes said, "; for what a MegaScript program has run here: -f .rakuda/megascript/p.rake\n"
      said, = Open3.capture2e(Engines::REAL, ctl, "why", "sim", "-f", ".rakuda/megascript/p.rake")
      assert_includes said, "sim would run"
      assert_equal ["p.rake"], Dir.children(".rakuda/megascript")
    end
  end

  ENDLESS = <<~'RUBY'
    require "rakuda/megascript"
    include MegaScript
    a = Task.new("echo $$ > pid; exec sleep 1000000")
    b = Task.new("cat > x.txt", file: "x.txt")
    s = Stream.new
    s.in << a
    s.out << b
    Scheduler.add(a, b, s)
    at_exit { puts "at_exit" }
    Scheduler.run("-q", "-j", 2)
    puts "not reached"
  RUBY

  def test_signals_end_the_run_and_then_the_program_as_a_shell_tells_it
    %w[TERM HUP QUIT INT].each do |name|
      endless do |pid, out|
        Process.kill(name, pid)
        status = Process.wait2(pid).last
        said = out.read
        assert_equal Signal.list[name], status.termsig, said
        assert_includes said, "at_exit"
        refute_match(/not reached|megascript/, said.gsub(%r{\.rakuda/megascript}, ""))
        assert_includes said, "stopped: 0/2 done"
      end
    end
  end

  def test_a_sigint_of_the_whole_group_ends_the_run_gently
    endless do |pid, out|
      Process.kill("INT", -pid)
      status = Process.wait2(pid).last
      said = out.read
      assert_equal 2, status.termsig, said
      assert_match(/rakuda aborted!\nInterrupt\n/, said)
      refute_match(/SIGTERM|megascript.*rb:/, said)
    end
  end

  def test_a_killed_program_leaves_no_run_behind
    endless do |pid, out|
      Process.kill("KILL", pid)
      Process.wait(pid)
      assert_includes out.read, "stopped: 0/2 done" # all that has the pipe has ended
    end
  end

  def test_a_handler_of_the_program_runs_after_the_end_of_the_run
    text = ENDLESS.sub(/^Scheduler.run.*/) { |run| "begin; #{run}; rescue Failed => e; p e; end" }
    endless("trap('TERM') { puts 'mine' }\n#{text}") do |pid, out|
      Process.kill("TERM", pid)
      Process.wait(pid)
      said = out.read
      assert_match(/stopped: 0.*^mine$.*rakuda ended with status 143.*^not reached$/m, said)
    end
  end

  def test_tasks_of_rake_stay_beside_it
    lines = ["require 'rake'", "require 'rakuda/megascript'", "puts Rake::Task.equal?(MegaScript::Task)",
             "puts defined?(Task).inspect"]
    program(lines.join("\n")) do |out,|
      assert_equal "false\nnil\n", out
    end
  end

  private

  # Starts a program in a group of its own, and waits until its commands run.
  # @yield [pid, out] out: what it and all below it print
  def endless(text = ENDLESS)
    Dir.mktmpdir("rakuda") do |folder|
      File.write(File.join(folder, "p.rb"), text)
      IO.pipe do |out, writer|
        pid = Process.spawn(Engines::REAL, "ruby", "-I", LIBRARY, "p.rb", chdir: folder, out: writer, err: writer, pgroup: true)
        writer.close
        sleep 0.05 until File.size?(File.join(folder, "pid")) && File.exist?(File.join(folder, "x.txt"))
        Timeout.timeout(Integer(ENV.fetch("RAKUDA_TEST_LIMIT", "120"))) { yield pid, out } # only turns a hang into a failure
      rescue Timeout::Error
        Process.kill("TERM", -pid)
        raise
      end
    end
  end

  def program(text, environment = {})
    Dir.mktmpdir("rakuda") do |folder|
      Dir.chdir(folder) do
        File.write("p.rb", text)
        { "sim" => "seq 1000", "ana" => "wc -l > out.$1" }.each do |name, line|
          File.write(name, "#!/bin/sh\n#{line}\n")
          FileUtils.chmod(0o755, name)
        end
        out, status = Open3.capture2e(Engines::REAL.merge(environment), "timeout", "-s", "KILL", "300", "ruby", "-I", LIBRARY,
                                      "p.rb")
        yield out, status
      end
    end
  end
end
