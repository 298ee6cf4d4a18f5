# frozen_string_literal: true

# What a record cannot vouch for, as a user meets it: a journal that may not grow, folders that are renamed, a lock that
# another process holds, limits that are too low. What is half-written is never kept, what is good never put away.

require "fileutils"
require "minitest/autorun"
require "open3"
require_relative "../support/engines"
require_relative "../support/rakefile_run"
require_relative "../support/run_processes"
require_relative "../support/scratch_folder"
require_relative "../support/waiting"

class UnvouchedTest < Minitest::Test
  include ScratchFolder
  include Waiting

  # Each is made in two steps; `last` waits between them until it may go on.
  MANY = <<~'RUBY'
    names = (1..60).map { |number| "out#{number}" }
    names.each { |name| file(name) { sh "echo a > #{name}; echo b >> #{name}", verbose: false } }
    file("last" => names) { sh "echo a > last; echo begun; while ! [ -e go ]; do sleep 0.05; done; echo b >> last", verbose: false }
    task default: "last"
  RUBY

  def test_a_run_whose_journal_may_not_grow_ends_well_and_leaves_nothing_to_be_settled
    rakefile(MANY)
    FileUtils.touch(path("go"))
    _, err, status = run_rakuda("-j", "2", limit: "-f 8")
    assert_predicate status, :success?, err
    assert_match(/File too large.*going on without a record/, err)
    _, err, status = run_rakuda("-j", "2")
    assert_predicate status, :success?, err
    assert_equal ["a\nb\n"], contents, err
    assert_empty Dir[path("*._fail_")] + Dir[path(".rakuda/running/*")]
  end

  def test_what_such_a_run_left_when_it_was_killed_is_made_again_and_nothing_is_put_away
    rakefile(MANY)
    start("-j", "2", limit: "-f 8") do |process, out|
      wait_for("its last task") { out.gets == "begun\n" }
      kill_all(process.pid)
    end
    assert_equal "a\n", File.read(path("last"))
    FileUtils.touch(path("go"))
    _, err, status = run_rakuda("-j", "2")
    assert_predicate status, :success?, err
    assert_match(/could not be written to its end/, err)
    assert_match(/was changed while the run .* no record tells whether it was finished; it will be made again/, err)
    assert_equal ["a\nb\n"], contents
    assert_empty Dir[path("*._fail_")]
  end

  def test_a_command_is_ended_by_the_limit_that_the_engine_outlives
    rakefile("task(:default) { sh 'head -c 100000 /dev/zero > big; echo $?', verbose: false }")
    out, err, status = run_rakuda("-j", "2", limit: "-f 8")
    assert_equal ["#{128 + Signal.list.fetch("XFSZ")}\n", true], [out, status.success?], err
  end

  def test_many_commands_run_at_once_where_few_files_may_be_open_at_first
    rakefile(<<~'RUBY')
      task default: (1..200).map { |number| task("t#{number}") { sh "ulimit -Sn; true", verbose: false }.name }
    RUBY
    out, err, status = run_rakuda("-j", "150", limit: "-Sn 128")
    assert_equal [["128\n"], 200, true], [out.lines.uniq, out.lines.size, status.success?], err
    out, err, status = run_rakuda("-j", "150", limit: "-n 128")
    assert_match(/ commands at once instead of 150/, err)
    assert_equal [["128\n"], 200, true], [out.lines.uniq, out.lines.size, status.success?], err
  end

  def test_a_folder_that_is_renamed_while_a_task_fails_has_its_target_put_away
    rakefile("file('half') { sh 'echo a > half; echo begun; while ! [ -e go ]; do sleep 0.05; done; exit 1', verbose: false }")
    start("-j", "2", "half") do |process, out|
      assert_equal "begun\n", out.gets
      # The hub tells them of it as it starts; one that looks for it only later finds nothing.
      above = RunProcesses.of(process.pid).values_at(:starter, :guard)
      wait_for("those above to have the folder open") { above.all? { |id| open?(id, @folder) } }
      moved = "#{@folder}-moved"
      File.rename(@folder, moved)
      gone = @folder
      @folder = moved
      FileUtils.touch(path("go"))
      process.value
      assert_equal ["half._fail_"], Dir.children(@folder).grep(/half/)
      refute_path_exists gone
      assert_empty Dir[path(".rakuda/running/*")]
    end
  end

  def test_who_waits_for_one_that_looks_after_a_dead_run_says_so_and_can_be_ended
    rakefile(MANY)
    start("-j", "2") do |process, out|
      wait_for("its last task") { out.gets == "begun\n" }
      kill_all(process.pid)
    end
    File.open(path(".rakuda/recovery.lock"), "a") do |lock|
      lock.flock(File::LOCK_EX)
      start("-j", "2") do |process, _out, err|
        assert_match(/another process looks after a run that was cut off here, and is waited for/, err.gets)
        Process.kill(:TERM, process.pid)
        refute_predicate process.value, :success?
      end
    end
    assert_equal "a\n", File.read(path("last")), "nothing was begun"
  end

  private

  def rakefile(text)
    File.write(path("Rakefile"), text)
  end

  def contents
    Dir.glob("{out*,last}", base: @folder).map { |name| File.read(path(name)) }.uniq
  end

  def words(limit, options)
    limit ? ["sh", "-c", "ulimit #{limit}; exec \"$@\"", "sh", RAKUDA, *options] : [RAKUDA, *options]
  end

  def run_rakuda(*options, limit: nil)
    Open3.capture3(Engines::REAL, *words(limit, options), chdir: @folder)
  end

  def start(*options, limit: nil)
    Open3.popen3(Engines::REAL.merge(RakefileRun::READ_LIVE), *words(limit, options), chdir: @folder) do |stdin, out, err, thread|
      stdin.close
      yield thread, out, err
    end
  end

  def open?(pid, folder) = Dir["/proc/#{pid}/fd/*"].any? { |link| File.identical?(link, folder) }

  def kill_all(pid)
    processes = RunProcesses.of(pid).values
    RunProcesses.kill_all(pid)
    wait_for("their end") { processes.none? { |number| RunProcesses.alive?(number) } }
  end
end
