# frozen_string_literal: true

require "json"
require "minitest/autorun"
require_relative "../bench_workflows"
require_relative "../hosts_case"

# `rakudactl bench` in an allocation of Slurm that it asks for itself.
class ClusterSlurmBenchTest < ClusterHostsCase
  include BenchWorkflows

  def testbed_settings = { HOSTS: 3, GFARM: 0, SLURM: 1, LOST_AFTER: 60 }

  # Kernels, micro-benchmarks, workflows and MapReduce jobs: nothing of it runs on the machine where the command was
  # typed.
  def test_a_suite_runs_in_allocations_and_says_where
    result = @testbed.run("head", RAKUDACTL, "bench", "suite", "ci", "--cluster", "slurm", "--nodes", "2",
                          "--workers", "4", "--dir", File.join(@folder, "files"), chdir: @folder,
                          environment: { "IOBENCH" => programs_of_both_hosts }, limit: 900)
    assert_equal 0, result.status, result.out + result.err
    assert_suite_on_both_hosts("slurm-nodes2", %w[--cluster slurm --nodes 2])
    assert_includes verified_result("copyfile-tiny-slurm-nodes2-rakuda")["notes"],
                    "each round asks for an allocation of its own: makespan and start-up have the wait for it"
  end
end
