# frozen_string_literal: true

require "json"
require "minitest/autorun"
require_relative "../hosts_case"

# `rakudactl bench` over hosts: ranks of kernels lie where they must, the sweep is put together, workers of a
# micro-benchmark have a folder of their host's own, and tasks of workflows note where they ran.
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

  def test_workers_of_a_micro_benchmark_use_their_hosts_own_folder_and_leave_nothing_there
    result = @testbed.run("head", RAKUDACTL, "bench", "run", "metadata", "fio", "-F", "hosts", "--workers", "3",
                          "--dir", "/tmp/rakuda-bench-files", chdir: @folder)
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

  # Two tasks each of which ends when the other one has begun, which only another host has room for.
  def test_tasks_of_a_workflow_run_on_all_hosts_and_the_result_says_where
    write("both.json", JSON.generate(workflow("a" => [], "b" => [], "c" => %w[a b])))
    programs = in_place_of_io_task(<<~SH)
      case "$*" in
        *c:*) ;;
        *) touch "begun.$(hostname)"; until [ "$(ls begun.* | wc -l)" = 2 ]; do sleep 0.05; done ;;
      esac
    SH
    write("hosts", "host1 1\nhost2 1\n")
    result = @testbed.run("head", RAKUDACTL, "bench", "run", "both.json", "-F", "hosts", "--rounds", "5",
                          "--dir", File.join(@folder, "files"), chdir: @folder, environment: { "IOBENCH" => programs })
    assert_equal 0, result.status, result.out + result.err
    one = JSON.parse(read(names("bench-results/both-own-*-on-hosts-rakuda.json").first))
    assert_equal [2, [1, 1], 2], [one.dig("engine", "slots"), one["hosts"].map { |host| host["slots"] },
                                  one["hosts"].map { |host| host["hostname_hash"] }.uniq.size]
    one["rounds"].each do |round|
      assert_equal [0, 1], round["tasks"].zip(round["hosts"]).reject { |task, _| task == "c" }.map(&:last).sort
    end
    assert_match(/^both  own  rakuda, 2 nodes, 2 slots  valid$/, result.out)
    verified = @testbed.run("head", RAKUDACTL, "bench", "verify", *names("bench-results/*.json"), chdir: @folder)
    assert_equal 0, verified.status, verified.out + verified.err
    assert_empty names("files*")
  end

  def test_a_workflow_over_hosts_that_is_interrupted_leaves_nothing_there
    write("long.json", JSON.generate(workflow("a" => [], "b" => [])))
    programs = in_place_of_io_task("touch #{@folder}/begun.$(hostname); until test -e go; do sleep 0.05; done")
    write("hosts", "host1 1\nhost2 1\n")
    err = File.join(@folder, "told")
    pid = @testbed.start("head", RAKUDACTL, "bench", "run", "long.json", "-F", "hosts", "--dir", File.join(@folder, "files"),
                         chdir: @folder, environment: { "IOBENCH" => programs }, out: err, err: err)
    wait_for("both hosts to have a task", -> { File.read(err) }) { names("begun.*").size == 2 }
    Process.kill(:TERM, pid)
    Process.wait(pid)
    %w[host1 host2].each do |host|
      left = -> { @testbed.run(host, "pgrep", "-fl", "io-task|rakuda-agent").out }
      wait_for("what runs on #{host} to end", left) { left.call.empty? }
    end
    assert_empty names("files*")
  end

  private

  # @param parents [Hash{String => Array<String>}] of each task, which has its name from the file that it writes
  def workflow(parents)
    tasks = parents.map do |name, others|
      { "id" => name, "name" => name, "parents" => others, "children" => [], "inputFiles" => others, "outputFiles" => [name] }
    end
    files = parents.keys.map { |name| { "id" => name, "sizeInBytes" => 1000 } }
    { "name" => "hosts", "workflow" => { "specification" => { "tasks" => tasks, "files" => files } } }
  end

  # @param first [String] lines of a shell that come before the program's work
  # @return [String] a folder with the programs, seen by all hosts
  def in_place_of_io_task(first)
    built = File.expand_path("../../../iobench/build", __dir__)
    folder = File.join(@folder, "iobench")
    FileUtils.mkdir_p(folder)
    (Dir.children(built) - %w[io-task]).each { |name| FileUtils.ln_s(File.join(built, name), File.join(folder, name)) }
    File.write(File.join(folder, "io-task"), "#!/bin/sh\n#{first}\nexec #{built}/io-task \"$@\"\n")
    File.chmod(0o755, File.join(folder, "io-task"))
    folder
  end
end
