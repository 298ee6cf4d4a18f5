# frozen_string_literal: true

# Which program a command starts when PATH has one earlier in the middle of a run: the one that a shell would start,
# which has looked it up before, and the new one once a task has made it.

require "minitest/autorun"
require "open3"
require_relative "../support/rakefile_run"

class ProgramsTest < Minitest::Test
  include RakefileRun

  # `tool` is in the second folder of PATH; each task after another.
  HEAD = <<~'RUBY'
    def program(folder, word, mode = 0o755)
      mkdir_p folder, verbose: false
      File.write("#{folder}/tool", "#!/bin/sh\necho #{word}\n")
      chmod mode, "#{folder}/tool", verbose: false
    end

    def tool = sh("tool", verbose: false)

    ENV["PATH"] = "#{Dir.pwd}/first:#{Dir.pwd}/second:#{ENV.fetch("PATH")}"
    program("second", "old")
    mkdir_p "first", verbose: false
    task(:before) { tool }
  RUBY

  def setup
    @engine_environment = Engines::REAL
  end

  def test_what_appears_by_hand_is_seen_as_a_shell_sees_it
    rakefile = HEAD + <<~'RUBY'
      task(by_hand: :before) { program("first", "new") }
      task(default: :by_hand) { tool }
    RUBY
    rakuda(rakefile) do |run|
      assert_equal [%w[old old], 0], [run.lines, run.status], run.err
      path = %w[first second].map { |folder| File.join(run.folder, folder) }.join(":")
      File.delete(File.join(run.folder, "first/tool"))
      script = "tool; /bin/cp second/tool first/tool; echo echo new >> first/tool; tool"
      printed, status = Open3.capture2({ "PATH" => path }, "/bin/sh", "-c", script, chdir: run.folder)
      assert_equal [%w[old old], true], [printed.lines.map(&:chomp), status.success?]
    end
  end

  def test_what_a_task_makes_is_started_from_then_on
    rakefile = HEAD + <<~'RUBY'
      file("first/tool" => :before) { program("first", "new") }
      task(default: "first/tool") { tool }
    RUBY
    rakuda(rakefile) { |run| assert_equal [%w[old new], 0], [run.lines, run.status], run.err }
  end

  def test_what_is_gone_or_no_program_any_more_is_looked_for_again
    rakefile = HEAD + <<~'RUBY'
      task(first: :before) { program("first", "new"); rm "second/tool", verbose: false }
      task(moved: :first) { tool }
      task(second: :moved) { program("second", "back"); chmod 0o644, "first/tool", verbose: false }
      task(back: :second) { tool }
      task(default: :back) { rm "second/tool", verbose: false; tool }
    RUBY
    rakuda(rakefile) do |run|
      assert_equal [%w[old new back], 1], [run.lines, run.status], run.err
      assert_match(/tool/, run.err)
    end
  end

  def test_another_path_finds_another_program
    rakefile = HEAD + <<~'RUBY'
      program("first", "new")
      task(one: :before) { sh({ "PATH" => "#{Dir.pwd}/second" }, "tool", verbose: false) }
      task(default: :one) { tool }
    RUBY
    rakuda(rakefile) { |run| assert_equal [%w[new old new], 0], [run.lines, run.status], run.err }
  end

  def test_a_relative_part_of_path_means_the_folder_of_each_command
    rakefile = HEAD + <<~'RUBY'
      ENV["PATH"] = ".:#{ENV.fetch("PATH")}"
      program("here", "here")
      task(one: :before) { sh("tool", chdir: "here", verbose: false) }
      task(default: :one) { tool }
    RUBY
    rakuda(rakefile) { |run| assert_equal [%w[old here old], 0], [run.lines, run.status], run.err }
  end
end
