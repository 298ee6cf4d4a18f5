# frozen_string_literal: true

require "fileutils"
require "json"
require "minitest/autorun"
require "rakuda/bench/far_rounds"
require "rakuda/bench/mapreduce/engines"
require "rakuda/bench/mapreduce/job"
require "rakuda/bench/mapreduce/marks"
require "rakuda/bench/mapreduce/split"
require "rakuda/bench/options"
require "rakuda/bench/run_record"
require "rakuda/bench/suites"
require "rakuda/bench/verification"
require "support/bench_folder"

# MapReduce jobs over hosts: what maps and reduces note there, parts of the time by the record of the run, what is
# refused. Runs on several machines are in test/cluster.
class BenchFarMapReduceTest < Minitest::Test
  include BenchFolder

  S = 1_000_000_000
  Bench = Rakuda::Bench
  Marks = Bench::MapReduce::Marks
  Split = Bench::MapReduce::Split

  def setup
    super
    File.write(at("hosts"), "localhost 2\n")
  end

  MAPS = [%w[/bin/task split in_0 1 map_0], %w[/bin/task split in_1 1 map_1]].freeze
  REDUCES = [%w[/bin/task merge out map_0.0 map_1.0]].freeze

  def line(part, words, *numbers) = "#{[part, *numbers, Bench::Instance.noted_as(words)].join(" ")}\n"

  # The second host's clock is far ahead, and it has run the first map.
  def marks_of_hosts(*more)
    marks = File.join(@folder, "phases")
    FileUtils.mkdir_p(marks)
    { "on-one" => line("map", MAPS[1], 10, 30, 30, 5) + line("reduce", REDUCES[0], 40, 45, 50, 0),
      "on-two" => line("map", MAPS[0], 9000, 9010, 9010, 7) + more.join }.each do |name, text|
      File.write(File.join(marks, name), text)
    end
    Marks.new(marks, { "map" => 2 + more.size, "reduce" => 1 })
  end

  def test_maps_and_reduces_are_told_apart_by_their_words_whatever_the_clock_of_their_host
    expected = { "maps_ns" => [[9000, 9010], [10, 30]], "reduces_ns" => [[40, 45, 50]], "shuffle_bytes" => 12 }
    assert_equal expected, marks_of_hosts.far(MAPS, REDUCES)
    error = assert_raises(Bench::Failure) { marks_of_hosts(line("map", MAPS[0], 1, 2, 2, 0)).far(MAPS, REDUCES) }
    assert_equal "split in_0 1 ran 2 times", error.message
    error = assert_raises(Bench::Failure) { marks_of_hosts.far([MAPS[0], %w[/bin/task split other]], REDUCES) }
    assert_equal "split other ran 0 times", error.message
    error = assert_raises(Bench::Failure) { Marks.new(File.join(@folder, "phases"), { "map" => 3, "reduce" => 1 }) }
    assert_equal "2 maps and 1 reduces ran: expected 3 and 1", error.message
  end

  # The programs in Java note no words.
  def test_on_one_machine_times_stand_in_the_order_of_beginning
    path = File.join(@folder, "phases")
    File.write(path, "map 20 30 30 5\nmap 10 40 40 6\n#{line("reduce", REDUCES[0], 41, 45, 50, 0)}")
    expected = { "maps_ns" => [[10, 40], [20, 30]], "reduces_ns" => [[41, 45, 50]], "shuffle_bytes" => 11 }
    assert_equal expected, Marks.new(path, { "map" => 2, "reduce" => 1 }).near
  end

  def test_a_record_tells_where_and_when_each_command_ran
    record = Bench::RunRecord.new(<<~TEXT.lines)
      {"event":"node_joined","node":1,"name":"host1","cores":2,"time_ns":1}
      {"event":"task_defined","task":7,"name":"b"}
      {"event":"attempt_started","task":7,"node":1,"time_ns":10}
      {"event":"command_started","command":0,"task":7,"time_ns":12,"words":["x","1"]}
      {"event":"command_started","command":1,"task":7,"time_ns":14,"words":["x","2"]}
      {"event":"command_started","command":2,"task":7,"time_ns":15,"line":"echo"}
      {"event":"command_ended","command":0,"time_ns":31}
      {"event":"command_ended","command":2,"time_ns":32}
    TEXT
    assert_equal [%w[x 1]], record.commands.keys, "what has not ended, and what is no list of words"
    assert_equal([["host1", 12, 31]], record.commands[%w[x 1]].map { |one| [one.node.name, one.first_ns, one.last_ns] })
  end

  # Two maps and a reduce on two hosts, from 1 s after the start on. The second host's clock is an hour ahead.
  ROUND = { "round" => 0, "order" => 0, "start_ns" => 5 * S, "end_ns" => 15 * S, "shuffle_bytes" => 12, "nodes" => 2,
            "maps" => %w[in_0 in_1], "maps_ns" => [[1000 * S, 1002 * S], [6 * S, 7 * S]], "maps_hosts" => [1, 0],
            "maps_commands_ns" => [[1 * S, 4 * S], [1 * S, 2 * S]],
            "reduces" => %w[out], "reduces_ns" => [[1004 * S, 1006 * S, 1007 * S]], "reduces_hosts" => [1],
            "reduces_commands_ns" => [[4 * S, 8 * S]] }.freeze
  HOSTS = [{ "slots" => 1 }, { "slots" => 1 }].freeze

  # The reduce has its rows 1 s before its end.
  def test_parts_of_the_time_over_hosts_go_by_the_record
    assert_equal [1.0, 3.0, 3.0, 1.0, 2.0], Split.of(ROUND).values_at(*Split::NAMES)
    assert_equal [3.0, 2.0, 1.0, 10.0], Split.of(ROUND).values_at(*Split::BUSY, "makespan_s")
    # Its rows seem to be there before the last map was known to have ended.
    early = ROUND.merge("reduces_ns" => [[1000 * S, 1001 * S, 1006 * S]])
    assert_equal [1.0, 3.0, 0.0, 4.0, 2.0], Split.of(early).values_at(*Split::NAMES)
  end

  def test_raw_times_of_a_round_over_hosts_must_fit_each_other
    faults = ->(round, is_gang = false) { Bench::FarRounds.job_faults(round, HOSTS, is_gang).join("; ") }
    assert_empty faults[ROUND]
    { ROUND.except("maps_hosts") => /does not say of each map and reduce/,
      ROUND.merge("reduces_hosts" => [1, 1]) => /does not say/,
      ROUND.merge("maps_hosts" => [2, 0]) => /on more hosts than/, ROUND.merge("nodes" => 1) => /on more hosts than the 1 that/,
      ROUND.merge("maps_commands_ns" => [[1 * S, 4 * S], [1 * S, 11 * S]]) => /do not lie within it/,
      ROUND.merge("maps_commands_ns" => [[2 * S, 1 * S], [1 * S, 2 * S]]) => /do not lie within it/,
      ROUND.merge("maps_hosts" => [0, 0]) => /host 1: its tasks lie further apart/,
      ROUND.merge("maps_commands_ns" => [[1 * S, 4 * S], [1 * S, 1 * S]]) => /host 1: its tasks lie further apart/ }
      .each { |round, told| assert_match(told, faults[round]) }
    together = ROUND.merge("maps_ns" => [[1003 * S, 1005 * S], [6 * S, 7 * S]])
    assert_match(/host 2: more tasks at once than its 1 slots/, faults[together])
    assert_empty faults[together, true], "those that a stream joins"
  end

  def test_a_job_over_hosts_says_what_ran_where_and_its_figures_follow_from_that
    out, err, status = bench("run", "mr-sort", "-F", "hosts")
    assert status.success?, out + err
    assert_match(/^left out: over hosts spark is Apache Spark with the master local\[SLOTS\], in one process of this/, err)
    assert_match(/^mr-sort  tiny  rakuda, 1 node, 2 slots  valid$/, out)
    assert_equal 2, out.scan(/^ +of each host in round 1: maps 4; reduces 2$/).size, out
    files, streams = %w[rakuda rakuda-streams].map do |engine|
      JSON.parse(File.read(File.join(@folder, "bench-results/mr-sort-tiny-on-hosts-#{engine}.json")))
    end
    assert_equal 1, [files, streams].map { |one| one.dig("verification", "digest") }.uniq.size
    [files, streams].each do |result|
      assert_empty Bench::Verification.faults(result)
      round = result["rounds"].first
      assert_equal [%w[file_0000 file_0001 file_0002 file_0003], [0] * 4, %w[out/part-00000 out/part-00001], [0] * 2],
                   round.values_at("maps", "maps_hosts", "reduces", "reduces_hosts")
      refute round.key?("resident")
      assert_equal [2, 2], [result.dig("engine", "slots"), result["hosts"].sum { |host| host["slots"] }]
      what_was_changed_is_found(result)
    end
    assert_empty Dir.children(@folder) - %w[hosts bench-results]
  end

  def what_was_changed_is_found(result)
    first = ->(one) { one["rounds"].first }
    changes = {
      "slots" => ->(one) { one["engine"]["slots"] = 3 }, "no slots" => ->(one) { one["engine"].delete("slots") },
      "hosts" => ->(one) { one["hosts"] << one["hosts"].first }, "no hosts" => ->(one) { one.delete("hosts") },
      "place" => ->(one) { first[one]["maps_hosts"][0] = 1 }, "no place" => ->(one) { first[one].delete("reduces_hosts") },
      "commands" => ->(one) { first[one]["reduces_commands_ns"].each { |times| times[1] -= 1_000_000 } },
      "map" => ->(one) { first[one]["maps_ns"][0][1] += 60 * S },
      "end" => ->(one) { first[one]["end_ns"] += 10_000_000 },
      "part" => ->(one) { one["derived"]["map_s"] += 0.01 }
    }
    changes.each do |name, change|
      other = JSON.parse(JSON.generate(result)).tap(&change)
      refute_empty Bench::Verification.faults(other), name
    end
  end

  def test_engines_that_know_one_machine_are_refused_over_hosts_with_what_they_run_on
    refusal = refused("compare", "mr-sort", "--engines", "rakuda,spark,hadoop", "-F", "hosts")
    assert_match(/over hosts \(-F, --cluster\) MapReduce jobs run in rakuda and rakuda-streams alone: /, refusal)
    assert_match(/spark is Apache Spark with the master local\[SLOTS\].*; hadoop is Hadoop's local runner/, refusal)
    assert_match(/hadoop is Hadoop's local runner/, refused("run", "mr-sort", "--engines", "hadoop", "--cluster", "slurm"))
    assert_match(/--slots: over hosts/, refused("run", "mr-sort", "-F", "hosts", "-j", "3"))
    assert_match(/--cache cold: nothing looks at page caches/, refused("run", "mr-sort", "-F", "hosts", "--cache", "cold"))
    assert_match(/expected one number/, refused("run", "mr-sort", "--cluster", "slurm", "--nodes", "1,2"))
    assert_match(/is the size of an allocation/, refused("run", "mr-sort", "-F", "hosts", "--nodes", "2"))
    assert_match(/--nodes of the suite ci: expected one number/, refused("suite", "ci", "--cluster", "slurm", "--nodes", "1,2"))
    assert_equal %w[hosts], Dir.children(@folder)
  end

  def test_a_stream_over_hosts_has_a_writer_for_each_map
    job = Bench::MapReduce::Job.new(Bench::Catalogue.find("mr-sort"), "tiny")
    writers = ->(count) { Bench::MapReduce::Engines.stream(job, count)[/from: (\[.*?\])/, 1] }
    assert_equal ['["map0", "map1"]', '["map0", "map1", "map2", "map3"]'], [2, 4].map(&writers)
  end
end
