# frozen_string_literal: true

require "json"
require "minitest/autorun"
require_relative "../hosts_case"

# Kernels of `rakudactl bench` over hosts: ranks lie where they must, and the sweep is put together.
class ClusterBenchKernelsTest < ClusterHostsCase
  def test_a_kernel_is_swept_over_hosts_and_every_byte_is_right
    result = @testbed.run("head", RAKUDACTL, "bench", "run", "argot-io", "-F", "hosts", "--nodes", "1,2", "--per-node", "1",
                          "--dir", File.join(@folder, "files"), "--", "--mesh", "8x8x8", chdir: @folder)
    assert_equal 0, result.status, result.err
    results = names("bench-results/*.json").map { |file| JSON.parse(read(file)) }
    assert_equal [[1, 1], [2, 2]], (results.map { |one| [one["hosts"].size, one.dig("instance", "ranks")] })
    assert_equal 2, results.last["hosts"].map { |host| host["hostname_hash"] }.uniq.size
    assert_equal [0, 0], (results.map { |one| one.dig("verification", "errors") })
    assert_match(/^argot-io write over nodes: nodes, ranks, bandwidth/, result.out)
    assert_empty names("files*")
  end
end
