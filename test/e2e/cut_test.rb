# frozen_string_literal: true

# A run's journal is cut after every record, and within every third one, and the folder is made as it would have been
# then: what had ended is there, what had begun is half-written, nothing else is. The next run must make the same files
# as an undisturbed one, redo nothing that had ended, and keep nothing half-written. No process is killed here: every
# moment is tried, not those that chance picks. (What is read of a journal that is cut anywhere:
# crates/record/tests/reader_test.rs.)

require "fileutils"
require "json"
require "minitest/autorun"
require "tmpdir"
require_relative "../support/engines"

class CutTest < Minitest::Test
  RAKUDA = File.expand_path("../../bin/rakuda", __dir__)

  # Each writes in two steps, and notes that it was executed.
  RAKEFILE = <<~'RUBY'
    def write(task, text)
      sh "echo #{task.name} >> executed; echo begun > #{task.name}; cat #{task.sources.join(" ")} >> #{task.name}; " \
         "echo #{text} >> #{task.name}", verbose: false
    end
    directory "out"
    %w[a b].each do |name|
      file("out/#{name}" => ["source", "out"]) do |t|
        sh "echo #{t.name} >> executed; echo begun > #{t.name}; cat source >> #{t.name}", verbose: false
      end
    end
    file("out/c" => ["out/a", "out/b"]) { |t| write(t, "c") }
    file("out/d" => ["out/b"]) { |t| write(t, "d") }
    file("all" => ["out/c", "out/d"]) { |t| write(t, "all") }
    task default: "all"
  RUBY
  TARGETS = %w[out/a out/b out/c out/d all].freeze

  def setup
    @place = Dir.mktmpdir("rakuda-cut")
    @whole = File.join(@place, "whole")
    new_folder(@whole)
    run_rakuda(@whole)
    journal = Dir[File.join(@whole, ".rakuda/runs/*/journal.jsonl")]
    assert_equal 1, journal.size
    @run = File.basename(File.dirname(journal.first))
    @lines = File.readlines(journal.first)
  end

  def teardown
    FileUtils.rm_rf(@place)
  end

  def test_a_journal_cut_after_any_record_gives_the_same_files_and_redoes_nothing
    assert_operator @lines.size, :>, 30
    (0..@lines.size - 1).each { |count| check_cut(@lines.first(count), "") }
  end

  def test_a_journal_cut_within_a_record_does_so_too
    random = Random.new(1)
    (0...@lines.size).step(3) { |index| check_cut(@lines.first(index), @lines[index][0, random.rand(1...@lines[index].size)]) }
  end

  private

  def new_folder(folder)
    FileUtils.mkdir_p(folder)
    File.write(File.join(folder, "Rakefile"), RAKEFILE)
    File.write(File.join(folder, "source"), "source\n")
    File.utime(1_000_000_000, 1_000_000_000, File.join(folder, "source"))
  end

  def run_rakuda(folder)
    log = File.join(@place, "log")
    assert system(Engines::REAL, RAKUDA, "-j", "2", chdir: folder, %i[out err] => log), File.read(log)
  end

  def check_cut(whole, torn)
    folder = File.join(@place, "cut")
    new_folder(folder)
    ended, open = replay(whole)
    ended.each { |name| restore(name, folder) }
    open.each { |name| half_write(name, folder) }
    leave_record(folder, whole.join + torn)
    run_rakuda(folder)
    what = "cut after #{whole.size} records and #{torn.size} bytes of the next (#{@lines[whole.size]&.slice(0, 60)})"
    check(folder, ended, what)
    renamed = File.read(File.join(@place, "log")).scan(/renamed unfinished target '(.+?)'/).flatten
    assert_equal (open - ["out"]).sort, renamed.sort, what
  ensure
    FileUtils.rm_rf(folder)
  end

  # @return [Array(Array<String>, Array<String>)] targets of attempts that had ended, and of those that had only begun
  def replay(lines)
    names = {}
    started = []
    ended = []
    lines.map { |line| JSON.parse(line) }.each do |event|
      case event["event"]
      when "task_defined" then names[event["task"]] = event["name"]
      when "attempt_started" then started << names.fetch(event["task"])
      when "attempt_ended" then ended << names.fetch(event["task"])
      end
    end
    [ended, started - ended]
  end

  def restore(name, folder)
    return FileUtils.mkdir_p(File.join(folder, name)) if name == "out"

    FileUtils.cp(File.join(@whole, name), File.join(folder, name), preserve: true)
  end

  def half_write(name, folder)
    File.write(File.join(folder, name), "begun\n") unless name == "out"
  end

  def leave_record(folder, journal)
    runs = File.join(folder, ".rakuda/runs", @run)
    FileUtils.mkdir_p([runs, File.join(folder, ".rakuda/running")])
    File.write(File.join(runs, "journal.jsonl"), journal)
    File.write(File.join(folder, ".rakuda/running", @run), "#{runs}/journal.jsonl\nno-such-mark")
  end

  def check(folder, ended, what)
    TARGETS.each do |name|
      assert_equal File.read(File.join(@whole, name)), File.read(File.join(folder, name)), "#{name}, #{what}"
    end
    executed = File.exist?(File.join(folder, "executed")) ? File.readlines(File.join(folder, "executed"), chomp: true) : []
    assert_equal (TARGETS - ended).sort, executed.sort, "executed, #{what}"
    assert_empty Dir.glob("**/*._fail_", base: folder), "made well since, #{what}"
    lines = File.readlines(File.join(folder, ".rakuda/runs", @run, "journal.jsonl"))
    assert_equal %w[run_ended recovered], JSON.parse(lines.last).values_at("event", "how"), what unless ended_by_itself?(lines)
    assert_empty Dir.children(File.join(folder, ".rakuda/running")), what
  end

  def ended_by_itself?(lines)
    lines.size == @lines.size && lines == @lines
  end
end
