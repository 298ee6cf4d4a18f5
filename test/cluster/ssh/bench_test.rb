# frozen_string_literal: true

require "json"
require "minitest/autorun"
require_relative "../bench_workflows"
require_relative "../hosts_case"

# `rakudactl bench` over hosts: ranks of kernels lie where they must, workers of a micro-benchmark have a folder of
# their host's own, and tasks of workflows note where they ran. Sweeps over numbers of hosts are in ../bench_test.rb.
class ClusterHostsBenchTest < ClusterHostsCase
  include BenchWorkflows

  def test_workers_of_a_micro_benchmark_use_their_hosts_own_folder_and_leave_nothing_there
    result = @testbed.run("head", RAKUDACTL, "bench", "run", "metadata", "fio", "-F", "hosts", "--workers", "3",
                          "--dir", "/tmp/rakuda-bench-files", chdir: @folder, limit: 900)
    assert_equal 0, result.status, result.err
    metadata, fio = %w[metadata fio].map { |name| JSON.parse(read("bench-results/#{name}-tiny-w3-on-hosts.json")) }
    [metadata, fio].each do |one|
      assert_equal [[0, 0, 1]], one["steps"].values.map { |outputs| outputs.map { |worker| worker["node"] }.sort }.uniq
      assert_equal one["steps"].size, one["sync"]["rounds"]
      assert_operator one["sync"]["clock_bound_s"], :>, 0
    end
    metadata["derived"].each { |kind| assert_in_delta kind["nodes_ops_per_s"].sum, kind["ops_per_s"], 1e-3 * kind["ops_per_s"] }
    assert_equal [2], fio["derived"].map { |step| step["nodes_bw"].size }.uniq
    %w[host1 host2].each { |host| refute_equal 0, @testbed.run(host, "ls", "/tmp/rakuda-bench-files").status }
  end

  def test_tasks_of_a_workflow_run_on_all_hosts_and_the_result_says_where
    programs = write_workflow_of_both_hosts("both.json")
    result = @testbed.run("head", RAKUDACTL, "bench", "run", "both.json", "-F", "hosts", "--rounds", "5",
                          "--dir", File.join(@folder, "files"), chdir: @folder, environment: { "IOBENCH" => programs },
                          limit: 900)
    assert_equal 0, result.status, result.out + result.err
    assert_match(/^both  own  rakuda, 2 nodes, 4 slots  valid$/, result.out)
    one = verified_result("both-own-*-on-hosts-rakuda")
    assert_equal [4, [2, 2], 2], [one.dig("engine", "slots"), one["hosts"].map { |host| host["slots"] },
                                  one["hosts"].map { |host| host["hostname_hash"] }.uniq.size]
    assert_equal [[0, 0, 1, 1]], one["rounds"].map { |round| places_of_first_tasks(round) }.uniq
    assert_empty names("files*")
  end

  def places_of_first_tasks(round) = round["tasks"].zip(round["hosts"]).to_h.except("last").values.sort

  # The rows that are sorted follow from their numbers.
  SORTED = "sha256:2a15bc2c079df4c64f34dec028d8db3db316898307b92cc81e222d015e7dc9b6"

  def test_maps_and_reduces_run_on_all_hosts_and_the_result_says_where
    result = @testbed.run("head", RAKUDACTL, "bench", "compare", "mr-sort", "--engines", "rakuda,rakuda-streams", "-F", "hosts",
                          "--dir", File.join(@folder, "files"), chdir: @folder,
                          environment: { "IOBENCH" => programs_of_both_hosts }, limit: 900)
    assert_equal 0, result.status, result.out + result.err
    assert_match(/^mr-sort  tiny  rakuda, 2 nodes, 4 slots  valid$/, result.out)
    assert_match(/^ +of each host in round 1: maps 2, 2; reduces \d, \d$/, result.out)
    files, streams = %w[rakuda rakuda-streams].map { |engine| verified_result("mr-sort-tiny-on-hosts-#{engine}") }
    assert_maps_on_both_hosts(files)
    assert_equal [4, 2], streams["rounds"].first.values_at("maps_hosts", "reduces_hosts").map(&:size)
    assert_equal([SORTED, SORTED], [files, streams].map { |one| one.dig("verification", "digest") })
    assert_empty names("files*")
  end

  # Kernels, micro-benchmarks, workflows and MapReduce jobs; engines that know one machine are left out, and that is
  # said.
  def test_a_suite_runs_on_all_hosts_and_says_where
    result = @testbed.run("head", RAKUDACTL, "bench", "suite", "ci", "-F", "hosts", "--nodes", "2", "--workers", "4",
                          "--dir", File.join(@folder, "files"), chdir: @folder,
                          environment: { "IOBENCH" => programs_of_both_hosts }, limit: 900)
    assert_equal 0, result.status, result.out + result.err
    assert_match(/^copyfile: over hosts in rakuda alone; make, xargs run on this machine only$/, result.err)
    assert_suite_on_both_hosts("on-hosts", %w[-F hosts])
  end

  def test_a_workflow_over_hosts_that_is_interrupted_leaves_nothing_there
    write("long.json", workflow("a" => [], "b" => []))
    programs = in_place_of("io-task" => "touch #{@folder}/begun.$(hostname); until test -e go; do sleep 0.05; done")
    write("hosts", "host1 1\nhost2 1\n")
    err = File.join(@folder, "told")
    pid = @testbed.start("head", RAKUDACTL, "bench", "run", "long.json", "-F", "hosts", "--dir", File.join(@folder, "files"),
                         chdir: @folder, environment: { "IOBENCH" => programs }, out: err, err: err)
    wait_for("both hosts to have a task", -> { File.read(err) }) { names("begun.*").size == 2 }
    Process.kill(:TERM, pid)
    Process.wait(pid)
    %w[host1 host2].each do |host|
      left = -> { processes(host) + @testbed.run(host, "pgrep", "-fl", "io-task").out }
      wait_for("what runs on #{host} to end", left) { left.call.empty? }
    end
    assert_empty names("files*")
  end
end
