# frozen_string_literal: true

require "json"
require "minitest/autorun"
require_relative "../bench_workflows"
require_relative "../hosts_case"

# `rakudactl bench` in an allocation of Slurm that it asks for itself.
class ClusterSlurmBenchTest < ClusterHostsCase
  include BenchWorkflows

  def testbed_settings = { HOSTS: 3, GFARM: 0, SLURM: 1 }

  def test_workers_of_micro_benchmarks_run_on_all_nodes_of_an_allocation
    result = @testbed.run("head", RAKUDACTL, "bench", "run", "metadata", "fio", "--cluster", "slurm", "--nodes", "2",
                          "--workers", "4", "--dir", "/tmp/rakuda-bench-files", chdir: @folder)
    assert_equal 0, result.status, result.err
    %w[metadata fio].each do |name|
      one = JSON.parse(read("bench-results/#{name}-tiny-w4-slurm-nodes2.json"))
      assert_equal [[0, 0, 1, 1]], one["steps"].values.map { |outputs| outputs.map { |worker| worker["node"] }.sort }.uniq
      assert_operator one["sync"]["clock_bound_s"], :>, 0
    end
    @testbed.hosts.each { |host| refute_equal 0, @testbed.run(host, "ls", "/tmp/rakuda-bench-files").status }
  end

  def test_tasks_of_a_workflow_run_on_all_nodes_of_an_allocation
    programs = write_workflow_of_both_hosts("both.json")
    result = @testbed.run("head", RAKUDACTL, "bench", "run", "both.json", "--cluster", "slurm", "--nodes", "2", "--rounds", "5",
                          "--dir", File.join(@folder, "files"), chdir: @folder, environment: { "IOBENCH" => programs })
    assert_equal 0, result.status, result.out + result.err
    one = verified_result("both-own-*-slurm-nodes2-rakuda")
    assert_equal [4, [2, 2]], [one.dig("engine", "slots"), one["hosts"].map { |host| host["slots"] }]
    assert_equal %w[rakuda -q --cluster slurm --nodes 2], one.dig("engine", "command")
    assert_includes one["notes"], "each round asks for an allocation of its own: makespan and start-up have the wait for it"
    assert_empty names("files*")
  end

  # Kernels, micro-benchmarks, workflows and MapReduce jobs: nothing of it runs on the machine where the command was typed.
  def test_a_suite_runs_in_allocations_and_says_where
    result = @testbed.run("head", RAKUDACTL, "bench", "suite", "ci", "--cluster", "slurm", "--nodes", "2",
                          "--workers", "4", "--dir", File.join(@folder, "files"), chdir: @folder,
                          environment: { "IOBENCH" => programs_of_both_hosts })
    assert_equal 0, result.status, result.out + result.err
    assert_suite_on_both_hosts("slurm-nodes2", %w[--cluster slurm --nodes 2])
  end
end
