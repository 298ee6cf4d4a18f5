# frozen_string_literal: true

# MegaScript programs: plain Ruby runs them, and what they say of tasks is kept.

require "fileutils"
require "json"
require "minitest/autorun"
require "open3"
require "tmpdir"
require_relative "support/engines"

class MegascriptTest < Minitest::Test
  LIBRARY = File.expand_path("../lib", __dir__)

  EXAMPLE = <<~'RUBY'
    require "rakuda/megascript"
    raise "too early" if defined?(Task) || defined?(Stream)
    include MegaScript
    a = Task.new("./sim", cost: 10, output: "1MB/s")
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
      assert_equal({ "sim" => { "cost" => "10", "output" => "1MB/s" } }, stream["meta"])
    end
  end

  def test_options_are_taken_and_failures_raise
    text = EXAMPLE.sub("Scheduler.run", "begin; Scheduler.run('-j', 1); rescue MegaScript::Failed => e; puts e.message; end")
    program(text) { |out, status| assert_equal ["5000", true], [out.lines.last.chomp, status.success?], out }
    program(text.sub("./ana\", i", "./none\", i")) { |out,| assert_includes out, "rakuda ended with status 1" }
  end

  def test_mistakes_are_told_with_their_place
    mistakes = {
      "Scheduler.run" => "there is nothing to run",
      "Scheduler.add(3)" => "expected a MegaScript::Task or a MegaScript::Stream, not 3",
      "Task.new('x', coast: 3)" => "unknown keyword coast; there are cost, output",
      "s = Stream.new; s.in << Task.new('x'); Scheduler.add(s); Scheduler.run" =>
        "p.rb:3: a stream joins a task that was not added: x"
    }
    mistakes.each do |line, words|
      program("require 'rakuda/megascript'\ninclude MegaScript\n#{line}\n") do |out, status|
        refute status.success?, line
        assert_includes out, words
      end
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

  def program(text, environment = {})
    Dir.mktmpdir("rakuda") do |folder|
      Dir.chdir(folder) do
        File.write("p.rb", text)
        { "sim" => "seq 1000", "ana" => "wc -l > out.$1" }.each do |name, line|
          File.write(name, "#!/bin/sh\n#{line}\n")
          FileUtils.chmod(0o755, name)
        end
        out, status = Open3.capture2e(Engines::REAL.merge(environment), "timeout", "-s", "KILL", "120", "ruby", "-I", LIBRARY,
                                      "p.rb")
        yield out, status
      end
    end
  end
end
