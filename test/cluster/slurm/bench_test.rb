# frozen_string_literal: true

require "json"
require "minitest/autorun"
require_relative "../hosts_case"

# `rakudactl bench` in an allocation of Slurm that it asks for itself.
class ClusterSlurmBenchTest < ClusterHostsCase
  def testbed_settings = { HOSTS: 2, GFARM: 0, SLURM: 1 }

  def test_workers_of_micro_benchmarks_run_on_all_nodes_of_an_allocation
    result = @testbed.run("head", RAKUDACTL, "bench", "run", "metadata", "fio", "--cluster", "slurm", "--nodes", "2",
                          "--workers", "4", "--dir", "/tmp/rakuda-bench-files", chdir: @folder)
    assert_equal 0, result.status, result.err
    %w[metadata fio].each do |name|
      one = JSON.parse(read("bench-results/#{name}-tiny-w4-slurm-nodes2.json"))
      assert_equal [[0, 0, 1, 1]], one["steps"].values.map { |outputs| outputs.map { |worker| worker["node"] }.sort }.uniq
      assert_operator one["sync"]["clock_bound_s"], :>, 0
    end
    %w[host1 host2].each { |host| refute_equal 0, @testbed.run(host, "ls", "/tmp/rakuda-bench-files").status }
  end

  def test_tasks_of_a_workflow_run_in_an_allocation
    result = @testbed.run("head", RAKUDACTL, "bench", "run", "copyfile", "--cluster", "slurm", "--nodes", "2",
                          "--dir", File.join(@folder, "files"), chdir: @folder)
    assert_equal 0, result.status, result.err
    one = JSON.parse(read("bench-results/copyfile-tiny-slurm-nodes2-rakuda.json"))
    slots = one["hosts"].map { |host| host["slots"] }
    assert_equal [2, slots.sum], [slots.size, one.dig("engine", "slots")]
    assert_equal %w[rakuda -q --cluster slurm --nodes 2], one.dig("engine", "command")
    assert_includes one["notes"], "each round asks for an allocation of its own: makespan and start-up have the wait for it"
    verified = @testbed.run("head", RAKUDACTL, "bench", "verify", *names("bench-results/*.json"), chdir: @folder)
    assert_equal 0, verified.status, verified.out + verified.err
    assert_empty names("files*")
  end
end
