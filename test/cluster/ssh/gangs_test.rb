# frozen_string_literal: true

require "json"
require "minitest/autorun"
require_relative "../hosts_case"

# Tasks that have several hosts at once: what only real hosts, ssh and MPI can show. All else of gangs is in
# test/gangs_test.rb and the seeds of the simulator.
class ClusterGangsTest < ClusterHostsCase
  MPIRUN = "mpirun --allow-run-as-root --mca btl tcp,self --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0 " \
           "--mca plm_rsh_agent ssh"

  def test_an_mpi_program_runs_on_all_nodes_of_its_task
    write("hello.c", MPI_HELLO)
    result = rakuda(<<~RUBY, "-q")
      file("hello" => "hello.c") { |t| sh "mpicc -o hello hello.c" }
      needs nodes: 2, cores: 2
      task(default: "hello") { sh "echo $RAKUDA_NODES; cat $RAKUDA_HOSTFILE; #{MPIRUN} --hostfile $RAKUDA_HOSTFILE $PWD/hello" }
    RUBY
    assert_equal 0, result.status, result.err
    # The node that made its input is its home.
    home, other = hosts = result.lines.first.split(",")
    assert_equal %w[host1 host2], hosts.sort
    expected = (0..3).map { |rank| "#{rank} of 4 on #{rank < 2 ? home : other}, sum 6" }
    assert_equal ["#{home} slots=2", "#{other} slots=2", *expected], result.lines[1, 2] + result.lines.drop(3).sort
    assert_equal [2], gang_sizes
    assert_cores_used_on_both(JSON.parse(ctl("report", "--json")))
  end

  # Of each time that a gang began, its nodes.
  def gang_sizes = events("gang_started").map { |event| event["nodes"].size }

  # Compiling occupies a core of the home; the rest is time in which the program has two cores of each.
  def assert_cores_used_on_both(report)
    home, other = report["nodes"].map { |node| node["core_s"] }.minmax.reverse
    assert_operator other, :>, 0
    assert_operator home, :<=, 2 * report["makespan_s"] + 0.01
    assert_in_delta home + other, report["core_s"], 0.01
  end

  # Sums up what comes to its rank 0, which has heard from all others.
  MPI_SUM = <<~'C'
    #include <mpi.h>
    #include <stdio.h>

    int main(int argc, char **argv) {
      int rank, ranks = 0, one = 1;
      long number, sum = 0;
      if (MPI_Init(&argc, &argv) != MPI_SUCCESS) return 1;
      MPI_Comm_rank(MPI_COMM_WORLD, &rank);
      MPI_Reduce(&one, &ranks, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
      while (rank == 0 && scanf("%ld", &number) == 1) sum += number;
      if (rank == 0) printf("%d ranks: %ld\n", ranks, sum);
      return MPI_Finalize() != MPI_SUCCESS;
    }
  C

  # What the stream carries (18 KB) fits into the pipe to rank 0: the mpirun of Open MPI 4.1 may crash, rarely, when its
  # stdin ends while that pipe is full (docs/guide/streams.md).
  def test_a_program_on_several_hosts_reads_one_stream_and_writes_another_by_its_first_rank
    write("hosts", "host1 2\nhost2 2\nhost3 2\n")
    write("sum.c", MPI_SUM)
    result = rakuda(<<~RUBY, "-q")
      stream :numbers, from: %w[w1 w2], to: "sums"
      stream :results, from: "sums", to: "out"
      file("sum" => "sum.c") { |t| sh "mpicc -o sum sum.c" }
      %w[w1 w2].each { |w| task(w) { sh "seq 2000" } }
      needs nodes: 2, cores: 2
      task(sums: "sum") { sh "echo $RAKUDA_NODES > nodes; #{MPIRUN} --hostfile $RAKUDA_HOSTFILE $PWD/sum" }
      file("out") { |t| sh "cat > \#{t.name}" }
      task default: "out"
    RUBY
    assert_equal 0, result.status, result.err
    assert_equal "4 ranks: 4002000\n", read("out")
    assert_equal 2, read("nodes").split(",").uniq.size
    streams = JSON.parse(ctl("report", "--json")).fetch("streams")
    accounts = streams.map { |stream| stream.values_at("name", "records", "balanced") }
    assert_equal [["numbers", 4000, true], ["results", 1, true]], accounts.sort
  end

  # (That another node may take the place of the home is tested in crates/core/tests/gangs.rs.)
  def test_a_lost_home_ends_the_task_on_all_of_its_nodes_and_it_runs_again_when_that_is_back
    rakefile = <<~'RUBY'
      needs nodes: 2
      task(:default) do
        sh "echo $(hostname) $RAKUDA_NODES $(cut -d ' ' -f 1 $RAKUDA_HOSTFILE) >> runs; " \
           "echo x > begun.$(wc -l < runs); until test -e go; do sleep 0.05; done"
      end
    RUBY
    command = [RAKUDA, "-F", "hosts", "-q", "--retry", "0"]
    # Not the host itself: how long one takes to be back depends on what other testbeds do, and it is tried for a while
    # only.
    printed, status = while_command_waits(*command, begun: 1, rakefile: rakefile) do
      @testbed.run!(read("runs").split.first, "pkill", "-KILL", "-x", "rakuda-agent", chdir: "/")
      wait_for("it to run again") { begun?(2) }
      write("go", "")
    end
    assert status.success?, printed
    assert_equal 1, events("node_lost").size
    assert_equal(%w[lost done], events("attempt_ended").map { |event| event["outcome"] })
    assert_equal [2, 2], gang_sizes
    runs = read("runs").lines.map(&:split)
    assert_equal 2, runs.size
    runs.each { |home, names, *slots| assert_equal [home, names.split(","), %w[host1 host2]], [slots.first, slots, slots.sort] }
  end
end
