# frozen_string_literal: true

require "json"
require "minitest/autorun"
require_relative "../hosts_case"

# Tasks that have several nodes of an allocation of Slurm, rounds that begin on all of its nodes at one instant, and
# streams between nodes that cannot reach each other. Streams that go from node to node are in stream_faults_test.rb.
class ClusterSlurmGangsTest < ClusterHostsCase
  def testbed_settings = { HOSTS: 3, GFARM: 0, SLURM: 1, LOST_AFTER: 60 }

  # Its nodes are not all of the allocation: srun is told which, and mpirun finds them and their slots by itself.
  def test_commands_of_the_task_reach_all_of_its_nodes_and_no_others
    write("hello.c", MPI_HELLO)
    write("Rakefile", <<~'RUBY')
      file("hello" => "hello.c") { |t| sh "mpicc -o hello hello.c" }
      needs nodes: 2, cores: 2
      task(default: "hello") do
        sh "srun --overlap -w $RAKUDA_NODES -N2 -n2 hostname > reached; cat $RAKUDA_HOSTFILE > slots"
        sh "mpirun --allow-run-as-root --mca btl tcp,self --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0 " \
           "$PWD/hello; echo $RAKUDA_NODES"
      end
    RUBY
    result = in_allocation(3, "-q")
    assert_equal 0, result.status, result.err
    *ranks, nodes = result.lines
    hosts = nodes.split(",")
    assert_equal 2, hosts.size
    # Each rank has heard of all: 0 + 1 + 2 + 3.
    assert_equal [0, 1, 2, 3], ranks.map { |line| Integer(line[/\A(\d+) of 4 on \S+, sum 6$/, 1]) }.sort
    assert_equal hosts.to_h { |host| [host, 2] }, ranks.map { |line| line[/ on ([^,]+),/, 1] }.tally
    assert_equal hosts.sort, read("reached").split.sort
    assert_equal hosts.map { |host| "#{host} slots=2" }, read("slots").lines(chomp: true)
  end

  def test_a_round_begins_at_one_instant_on_the_nodes_of_an_allocation
    write("conf.rb", "WORKER_COUNT = 4\nTASK_FILE = \"./command\"\nARGUMENTS = \"%w\"\n")
    write("command", "#!/bin/sh\necho \"$RAKUDA_NODE $(uname -n)\" > said.$1\n")
    FileUtils.chmod(0o755, File.join(@folder, "command"))
    result = in_allocation(2, "sync", "--rounds", "2", "--json", "conf.rb", program: RAKUDACTL)
    assert_equal 0, result.status, result.err
    rounds = JSON.parse(result.out)["rounds"]
    assert_equal 2, rounds.size
    rounds.each do |round|
      assert_equal [4, 0, nil], round.values_at("workers", "failed", "fault")
      assert_operator round["clock_bound_s"], :>, 0
    end
    hosts = (0..3).map { |worker| read("said.#{worker}").split[1] }
    assert_equal [2, 2], hosts.tally.values
  end

  # Three tasks and two cores on each node: they are on both. The hub has no data links to such nodes: both come to it.
  def test_nodes_of_an_allocation_that_cannot_reach_each_other_meet_at_the_hub
    between_nodes("add")
    write("Rakefile", <<~'RUBY')
      stream :s, from: %w[a b], to: "out"
      %w[a b].each { |name| task(name) { sh "hostname > by.#{name}; seq 1000" } }
      file("out") { |t| sh "hostname > by.out; sort -n > #{t.name}" }
      task default: "out"
    RUBY
    result = in_allocation(2, "-q")
    assert_equal 0, result.status, result.err
    assert_equal((1..1000).flat_map { |number| [number, number] }, read("out").lines.map(&:to_i))
    assert_equal 2, %w[a b out].map { |task| read("by.#{task}") }.uniq.size
    stream = JSON.parse(ctl("report", "--json")).fetch("streams").first
    assert_equal [true, ["hub"]], [stream["balanced"], stream["hops"].map { |hop| hop["way"] }.uniq]
  ensure
    between_nodes("del")
  end

  # Adds or deletes routes that lead nowhere.
  def between_nodes(what)
    nodes = %w[host1 host2 host3]
    nodes.each do |host|
      script = (nodes - [host]).map { |other| "ip route #{what} blackhole $(getent hosts #{other} | cut -d ' ' -f 1)" }
      result = @testbed.run(host, "sh", "-c", script.join("; "), chdir: "/")
      assert_predicate result, :success?, result.err if what == "add"
    end
  end

  private

  def in_allocation(nodes, *words, program: RAKUDA)
    @testbed.run("head", "salloc", "-Q", "-N#{nodes}", "-c2", "-t30", program, *words, chdir: @folder)
  end
end
