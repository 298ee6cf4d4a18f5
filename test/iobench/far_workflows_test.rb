# frozen_string_literal: true

require "fileutils"
require "json"
require "minitest/autorun"
require "minitest/mock"
require "rakuda/bench/facets"
require "rakuda/bench/far_rounds"
require "rakuda/bench/hosts"
require "rakuda/bench/instance"
require "rakuda/bench/options"
require "rakuda/bench/results"
require "rakuda/bench/run_record"
require "rakuda/bench/suites"
require "rakuda/bench/verification"
require "support/bench_folder"

# Workflows over hosts: what the record of a run says of a round, times that are of different clocks, what is refused.
# Runs on several machines are in test/cluster.
class BenchFarWorkflowsTest < Minitest::Test
  include BenchFolder

  S = 1_000_000_000

  def setup
    super
    File.write(at("hosts"), "localhost 2\n")
  end

  JOURNAL = <<~TEXT.lines
    {"event":"node_joined","node":0,"name":"head","cores":0,"time_ns":1}
    {"event":"node_joined","node":2,"name":"host2","cores":3,"time_ns":2}
    {"event":"node_joined","node":1,"name":"host1","cores":2,"time_ns":3}
    {"event":"task_defined","task":7,"name":"b"}
    {"event":"task_defined","task":4,"name":"a"}
    {"event":"attempt_started","task":7,"node":2,"time_ns":10}
    {"event":"command_started","command":0,"task":7,"time_ns":12}
    {"event":"attempt_started","task":4,"node":1,"time_ns":13}
    {"event":"command_started","command":1,"task":4,"time_ns":14}
    {"event":"command_ended","command":1,"time_ns":20}
    {"event":"command_ended","command":0,"time_ns":31}
  TEXT

  def test_a_record_tells_nodes_places_of_tasks_and_the_times_of_commands
    record = Rakuda::Bench::RunRecord.new([*JOURNAL, '{"event":"command_ended","comm'])
    assert_equal [["host1", 2], ["host2", 3]], record.nodes.map(&:to_a)
    assert_equal({ "a" => "host1", "b" => "host2" }, record.places.transform_values(&:name))
    assert_equal [12, 31], [record.first_ns, record.last_ns]
    assert_empty record.lost
    lost = Rakuda::Bench::RunRecord.new([*JOURNAL, %({"event":"node_lost","node":2,"time_ns":15,"reason":"it is silent"}\n)])
    assert_equal %w[host2], lost.lost
  end

  def test_a_folder_without_a_run_has_no_record_and_two_runs_are_none_of_one_round
    assert_nil Rakuda::Bench::RunRecord.of(@folder)
    %w[one two].each do |run|
      FileUtils.mkdir_p(File.join(@folder, ".rakuda/runs", run))
      File.write(File.join(@folder, ".rakuda/runs", run, "journal.jsonl"), JOURNAL.first)
      break if run == "two"

      assert_nil Rakuda::Bench::RunRecord.of(@folder), "the hub's machine alone runs no task"
    end
    assert_match(/2 runs/, assert_raises(Rakuda::Bench::Failure) { Rakuda::Bench::RunRecord.of(@folder) }.message)
  end

  # The clock shows 100 s more than the monotonic one; the engine runs from 5 to 9 s.
  # Something else ran between the first two readings.
  def test_both_clocks_are_those_of_the_readings_that_were_next_to_each_other
    times = [0, 9_000_000, 10_000_000, 10_000_050, 20_000_000, 20_000_040, 30_000_000, 30_000_060, 40_000_000, 40_000_070]
    Rakuda::Bench::Launch.stub(:now_ns, -> { times.shift }) { assert_equal 20_000_000, Rakuda::Bench::Hosts.now.first }
    assert_empty times
  end

  def span(set_by: 0) = Rakuda::Bench::Hosts::Span.new(5 * S, 9 * S, 105 * S, (109 * S) + set_by)

  def commands(first, last, span)
    record = Struct.new(:first_ns, :last_ns).new(first, last)
    Rakuda::Bench::Hosts.commands_ns(record, span)
  end

  def test_times_of_the_record_are_told_from_the_start_of_the_engine
    assert_equal [1 * S, 3 * S], commands(106 * S, 108 * S, span)
    assert_equal [1 * S, 3 * S], commands(106 * S, 108 * S, span(set_by: 3_000_000)), "a clock that is adjusted"
    { [106 * S, 108 * S, span(set_by: S)] => /was set meanwhile/, [104 * S, 108 * S, span] => /do not lie within the round/,
      [106 * S, 110 * S, span] => /do not lie within/, [nil, nil, span] => /has no command/ }.each do |values, told|
      assert_match(told, assert_raises(Rakuda::Bench::Failure) { commands(*values) }.message)
    end
  end

  # Two tasks on each of two hosts, whose clocks are far apart: the second's begins at 1000 s.
  ROUND = { "round" => 0, "makespan_s" => 4.0, "startup_s" => 1.0, "tail_s" => 0.5, "busy_s" => 3.0, "nodes" => 2,
            "hosts" => [0, 0, 1, 1], "commands_ns" => [1 * S, 3_500_000_000],
            "tasks_ns" => [[7 * S, 8 * S], [8 * S, 9 * S], [1000 * S, 1000 * S + 500_000_000],
                           [1000 * S + 100_000_000, 1000 * S + 600_000_000]] }.freeze
  HOSTS = [{ "slots" => 1 }, { "slots" => 2 }].freeze

  def test_times_of_hosts_whose_clocks_are_apart_are_not_compared
    assert_empty Rakuda::Bench::FarRounds.faults(ROUND, HOSTS)
    { ROUND.merge("hosts" => [0, 0, 1]) => /on which host/, ROUND.merge("hosts" => [0, 0, 1, 2]) => /on which host/,
      ROUND.except("commands_ns") => /when the first command began/, ROUND.merge("startup_s" => 0.9) => /startup_s is 0.9/,
      ROUND.merge("tail_s" => 0.6) => /tail_s is 0.6/, ROUND.merge("hosts" => [0, 0, 0, 1]) => /host 1: its tasks lie further/,
      ROUND.merge("nodes" => 1) => /on more hosts than the 1 that came/,
      ROUND.merge("commands_ns" => [1 * S, 2 * S], "tail_s" => 2.0) => /host 1: its tasks lie further apart/,
      ROUND.merge("commands_ns" => [1 * S, 5 * S], "tail_s" => -1.0) => /do not lie within it/ }.each do |round, told|
      assert_match(told, Rakuda::Bench::FarRounds.faults(round, HOSTS).join("; "))
    end
    late = [ROUND, ROUND.merge("nodes" => 1, "round" => 1)]
    assert_equal ["round 2: 1 of 2 hosts were there before its end"], Rakuda::Bench::FarRounds.against(late, HOSTS)
    fewer = [{ "slots" => 1 }, { "slots" => 1 }]
    assert_match(/host 2: more tasks at once than its 1 slots/, Rakuda::Bench::FarRounds.faults(ROUND, fewer).join)
  end

  def test_each_host_notes_its_tasks_in_a_file_of_its_own
    task = Rakuda::Bench::Programs.own("io-task")
    words = [%w[--write out:10], %w[--read out:10]]
    words.each do |some|
      output, status = Open3.capture2e({ "IOBENCH_TRACE" => @folder }, task, *some, chdir: @folder)
      assert status.success?, output
    end
    host = Open3.capture2("uname", "-n").first.chomp
    lines = File.readlines(File.join(@folder, "on-#{host}")).map(&:split)
    digests = words.map { |some| format("%016x", Rakuda::Bench::Instance.fnv(some.map { |word| "#{word}\0" }.join)) }
    assert_equal digests, lines.map(&:last)
    lines.each { |from, to, _| assert_operator from.to_i, :<=, to.to_i }
  end

  def test_a_workflow_over_hosts_says_what_ran_where_and_its_figures_follow_from_that
    out, err, status = bench("run", "copyfile", "-F", "hosts")
    assert status.success?, out + err
    assert_match(/^copyfile  tiny  rakuda, 1 node, 2 slots  valid$/, out)
    assert_match(/by the record to the first command .*, after the last /, out)
    result = JSON.parse(File.read(File.join(@folder, "bench-results/copyfile-tiny-on-hosts-rakuda.json")))
    assert_equal [2, %w[rakuda -q -F hosts]], result["engine"].values_at("slots", "command")
    # This machine has its own name in the record.
    name = format("fnv1a64:%016x", Rakuda::Bench::Instance.fnv(Open3.capture2("uname", "-n").first.chomp))
    assert_equal [{ "hostname_hash" => name, "slots" => 2 }], result["hosts"]
    round = result["rounds"].first
    assert_equal [[0], 16, 16], [round["hosts"].uniq, round["hosts"].size, round["tasks"].uniq.size]
    refute round.key?("resident")
    assert_in_delta (round["makespan_s"] * 2) - round["busy_s"], result["derived"]["overhead_s"], 1e-9
    assert_empty Rakuda::Bench::Verification.faults(result)
    assert_empty Dir.children(@folder) - %w[hosts bench-results]
    what_was_changed_is_found(result)
    other_hosts_are_not_compared(result)
  end

  def what_was_changed_is_found(result)
    changes = {
      "slots" => ->(one) { one["engine"]["slots"] = 3 }, "no slots" => ->(one) { one["engine"].delete("slots") },
      "hosts" => ->(one) { one["hosts"] << one["hosts"].first }, "no hosts" => ->(one) { one.delete("hosts") },
      "place" => ->(one) { one["rounds"].first["hosts"][0] = 1 },
      "startup" => ->(one) { one["rounds"].first["startup_s"] += 0.01 },
      "tail" => ->(one) { one["rounds"].first["tail_s"] += 0.01 },
      "commands" => ->(one) { one["rounds"].first["commands_ns"][1] -= 10_000_000 },
      "overhead" => ->(one) { one["derived"]["overhead_s"] *= 2 }
    }
    changes.each do |name, change|
      other = JSON.parse(JSON.generate(result)).tap(&change)
      refute_empty Rakuda::Bench::Verification.faults(other), name
    end
  end

  def other_hosts_are_not_compared(result)
    other = JSON.parse(JSON.generate(result))
    other["hosts"].first["hostname_hash"] = "fnv1a64:0123456789abcdef"
    here = JSON.parse(JSON.generate(result)).tap { |one| one.delete("hosts") }
    here["rounds"].first.then { |round| %w[hosts commands_ns].each { |name| round.delete(name) } }
    refute_equal(*[result, other].map { |one| Rakuda::Bench::Facets.place(one) })
    { "one" => result, "other" => other, "here" => here }.each do |name, one|
      File.write(File.join(@folder, "#{name}.json"), JSON.generate(one))
    end
    assert_match(/measured under other conditions: hosts \h{8} and \h{8}; --force/, refused("diff", "one.json", "other.json"))
    assert_match(/measured under other conditions: nodes 1 and -, hosts/, refused("diff", "one.json", "here.json"))
    out, err, status = bench("report", "one.json", "other.json")
    assert status.success?, err
    refute_match(/as a multiple of/, out)
  end

  def test_a_host_that_cannot_be_reached_is_said_before_anything_is_measured
    File.write(File.join(@folder, "hosts"), "localhost 2\nnowhere.invalid 2\n")
    [%w[run copyfile], %w[suite ci]].each do |words|
      out, err, status = bench(*words, "-F", "hosts")
      assert_equal [1, ""], [status.exitstatus, out], err
      assert_match(/^rakudactl bench: \S+hosts: nowhere.invalid is not reached: /, err)
    end
    assert_equal %w[hosts], Dir.children(@folder)
  end

  def test_what_cannot_be_measured_over_hosts_is_refused
    engines = %w[--engines rakuda,make]
    assert_match(/make: over hosts .* only rakuda is run/, refused("compare", "copyfile", *engines, "-F", "hosts"))
    assert_match(/--cache cold: nothing looks at page caches/, refused("run", "copyfile", "-F", "hosts", "--cache", "cold"))
    assert_match(/--slots: over hosts/, refused("run", "copyfile", "-F", "hosts", "-j", "3"))
    assert_match(/--slots: over hosts/, refused("suite", "ci", "-F", "hosts", "-j", "3"))
    assert_match(/is the size of an allocation/, refused("run", "copyfile", "-F", "hosts", "--nodes", "2"))
    assert_match(/expected one number/, refused("run", "copyfile", "--cluster", "slurm", "--nodes", "1,2"))
    assert_match(/expected one of them/, refused("run", "copyfile", "--cluster", "slurm", "-F", "hosts"))
    assert_equal %w[hosts], Dir.children(@folder)
  end

  # Nothing of a suite is left out without a word.
  def test_a_suite_over_hosts_says_which_engines_it_leaves_out
    said = []
    options = Rakuda::Bench::Options.new(["-F", File.join(@folder, "hosts")])
    workflows = { "homology-io" => %w[rakuda], "copyfile" => %w[rakuda make xargs] }
    engines = Rakuda::Bench::Suites.engines_of(workflows, options, said.method(:<<))
    assert_equal({ "homology-io" => %w[rakuda], "copyfile" => %w[rakuda] }, engines.transform_values { |ones| ones.map(&:name) })
    assert_equal ["copyfile: over hosts in rakuda alone; make, xargs run on this machine only"], said
    near = Rakuda::Bench::Suites.engines_of(workflows, Rakuda::Bench::Options.new([]), said.method(:<<))
    assert_equal [1, 3, 1], [*near.values.map(&:size), said.size]
  end

  def test_names_of_results_have_the_hosts
    { ["-F", "/some/where/hosts"] => "-on-hosts", %w[--cluster slurm --nodes 3] => "-slurm-nodes3",
      %w[-F hosts --nodes 1,2] => "-on-hosts" }.each do |words, label|
      assert_equal label, Rakuda::Bench::Results.label(Rakuda::Bench::Options.new(words))
    end
  end

  def test_what_the_user_passes_to_hosts_is_passed_on
    hosts = Rakuda::Bench::Hosts.new(Rakuda::Bench::Options.new(%w[--cluster slurm --nodes 2]))
    assert_equal %w[--cluster slurm --nodes 2], hosts.words
    before = ENV.fetch("PASS_ENV", nil)
    ENV["PASS_ENV"] = "PATH, LANG"
    assert_equal({ "A" => "b", "PASS_ENV" => "PATH LANG A" }, hosts.environment("A" => "b"))
  ensure
    ENV["PASS_ENV"] = before
  end
end
