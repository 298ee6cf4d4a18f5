# frozen_string_literal: true

# kill -9 of the hub, the front, the guard, or all of them, at moments that a seed picks, in a workflow of 200 slow
# writers. The next run must end with the same files as an undisturbed one, redo no task that had finished, and keep no
# half-written file. KILLS=50 tries 50 moments, SEED=N others.

require "json"
require "minitest/autorun"
require_relative "../support/disturbed_runs"

class RandomKillTest < Minitest::Test
  include DisturbedRuns

  KILLS = Integer(ENV.fetch("KILLS", "6"))
  SEED = Integer(ENV.fetch("SEED", "20"))
  VICTIMS = [%i[hub], %i[front], %i[guard], %i[starter], %i[front hub], %i[hub guard front starter], %i[guard hub],
             %i[starter guard]].freeze

  # 100 first, 99 second, one that joins them. Each is written in three steps that take their time.
  RAKEFILE = <<~'RUBY'
    def write(task)
      name = task.name
      sh "echo #{name} >> executed; echo first > #{name}; sleep 0.01; cat #{task.sources.join(" ")} >> #{name}; sleep 0.01; " \
         "echo last >> #{name}", verbose: false
    end
    directory "out"
    (1..100).each do |n|
      file("out/a#{n}" => %w[source out]) do |t|
        sh "echo #{t.name} >> executed; echo first > #{t.name}; sleep 0.02; echo #{n} >> #{t.name}", verbose: false
      end
    end
    (1..99).each { |n| file("out/b#{n}" => ["out/a#{n}", "out/a#{n + 1}"]) { |t| write(t) } }
    file("all" => (1..99).map { |n| "out/b#{n}" }) { |t| write(t) }
    task default: "all"
  RUBY
  TARGETS = [*(1..100).map { |n| "out/a#{n}" }, *(1..99).map { |n| "out/b#{n}" }, "all"].freeze

  def test_whoever_is_killed_when_the_next_run_finishes_and_redoes_nothing_that_was_done
    whole = folder_with_source("whole")
    Process.wait(start(whole))
    @contents = TARGETS.to_h { |name| [name, File.read(File.join(whole, name))] }
    totals = Hash.new(0)
    KILLS.times { |round| kill_once(round, totals) }
    assert_operator totals[:killed_in_the_middle], :>, 0
    puts "\n#{KILLS} kills (seed #{SEED}): #{totals.map { |what, count| "#{what.to_s.tr("_", " ")} #{count}" }.join(", ")}"
  end

  private

  def folder_with_source(name)
    folder = new_folder(name, RAKEFILE)
    File.write(File.join(folder, "source"), "source\n")
    folder
  end

  def executed(folder)
    File.readlines(File.join(folder, "executed"), chomp: true)
  rescue Errno::ENOENT
    []
  end

  def kill_once(round, totals)
    folder = folder_with_source("round")
    moment = @random.rand(1..199)
    victims = VICTIMS[@random.rand(VICTIMS.size)]
    starter = start(folder)
    wait_until(folder) { executed(folder).size >= moment }
    processes = RunProcesses.of(starter)
    spin(@random.rand(20_000))
    processes.values_at(*victims).compact.each { |pid| kill(pid) }
    Process.wait(starter)
    wait_until(folder) { processes.values.none? { |pid| RunProcesses.alive?(pid) } }
    check(folder, "round #{round}: #{victims.join(", ")} killed after #{moment} executions began (seed #{SEED})", totals)
  ensure
    FileUtils.rm_rf(folder)
  end

  # A moment between two events.
  def spin(turns)
    turns.times { |turn| turn * turn }
  end

  def kill(pid)
    Process.kill(:KILL, pid)
  rescue Errno::ESRCH
    nil # it has noticed the end of another
  end

  def check(folder, what, totals)
    begun, done = attempts(folder)
    before = executed(folder)
    totals[:killed_in_the_middle] += 1 unless done.size == TARGETS.size + 1
    # What the guard has moved away; the next run moves away the rest, and removes it all when it has made it.
    moved = Dir.glob("**/*._fail_", base: folder).map { |name| name.delete_suffix("._fail_") }
    _, status = Process.wait2(start(folder))
    assert_predicate status, :success?, "#{what}\n#{File.read(log(folder))}"
    TARGETS.each { |name| assert_equal @contents[name], File.read(File.join(folder, name)), "#{name}, #{what}" }
    counts = executed(folder).tally
    open = (begun - done) & TARGETS
    # What had begun and not ended is made again. (Its command may have come to its first word only after the kill,
    # before the next run killed it; so it is counted at the end.)
    assert_equal TARGETS.sort, counts.keys.sort, what
    assert_empty counts.select { |name, count| count > (open.include?(name) ? 2 : 1) }, "redone, #{what}"
    moved |= File.read(log(folder)).scan(/renamed unfinished target '(.+?)'/).flatten
    assert_empty moved - (begun - done), what
    assert_empty Dir.glob("**/*._fail_", base: folder), what
    totals[:attempts_open] += (begun - done).size
    totals[:made_by_the_next_run] += counts.values.sum - before.size
    totals[:half_written_moved_away] += moved.size
  end

  # @return [Array(Array<String>, Array<String>)] names of tasks whose attempts the journal says began, and ended well
  def attempts(folder)
    journal = Dir[File.join(folder, ".rakuda/runs/*/journal.jsonl")]
    assert_equal 1, journal.size
    names = {}
    begun = []
    done = []
    File.foreach(journal.first) do |line|
      event = JSON.parse(line) rescue next # a torn last line
      case event["event"]
      when "task_defined" then names[event["task"]] = event["name"]
      when "attempt_started" then begun << names.fetch(event["task"])
      when "attempt_ended" then done << names.fetch(event["task"]) if event["outcome"] == "done"
      end
    end
    [begun, done]
  end
end
