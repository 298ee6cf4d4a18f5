# frozen_string_literal: true

require "json"
require "minitest/autorun"
require_relative "../hosts_case"

# Tasks that have several nodes of an allocation of Slurm, rounds that begin on all of its nodes at one instant, and streams
# between its nodes.
class ClusterSlurmGangsTest < ClusterHostsCase
  def testbed_settings = { HOSTS: 3, GFARM: 0, SLURM: 1 }

  def test_a_command_of_the_task_reaches_all_of_its_nodes_through_slurm
    write("Rakefile", <<~'RUBY')
      needs nodes: 2, cores: 2
      task(:default) { sh "srun --overlap -w $RAKUDA_NODES -N2 -n2 hostname; cat $RAKUDA_HOSTFILE" }
    RUBY
    result = in_allocation(2, "-q")
    assert_equal 0, result.status, result.err
    hosts = result.lines.first(2).sort
    assert_equal hosts.map { |host| "#{host} slots=2" }, result.lines.drop(2).sort
  end

  # Its nodes are not all of the allocation.
  def test_mpirun_starts_a_rank_for_each_slot_of_the_task_by_itself
    write("hello.c", MPI_HELLO)
    write("Rakefile", <<~'RUBY')
      file("hello" => "hello.c") { |t| sh "mpicc -o hello hello.c" }
      needs nodes: 2, cores: 2
      task(default: "hello") do
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

  # Three tasks and two cores on each node: they are on both, and the nodes reach each other without the hub's host.
  def test_a_stream_goes_from_node_to_node_of_an_allocation
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
    assert_equal [true, ["direct"]], [stream["balanced"], stream["hops"].map { |hop| hop["way"] }.uniq]
  end

  # The reader is on the one node and the writer on the other.
  def test_a_node_of_an_allocation_that_is_lost_ends_its_streams_and_they_run_again_elsewhere
    rakefile = <<~'RUBY'
      stream :s, from: "w", to: "out"
      needs cores: 2
      task(:w) { sh "hostname > by.w; echo 1; until test -e go; do sleep 0.05; done; echo 2" }
      needs cores: 2
      file("out") { |t| sh "read -r one; hostname > begun.out; { echo $one; cat; } > #{t.name}" }
      task default: "out"
    RUBY
    lost = nil
    words = %w[salloc -Q -N3 -c2 -t30] + [RAKUDA, "-q", "HEARTBEAT=8"]
    printed, status = while_command_waits(*words, begun: 1, rakefile: rakefile) do
      lost = read("begun.out").strip
      refute_equal lost, read("by.w").strip
      @testbed.run!(lost, "pkill", "-KILL", "-x", "rakuda-agent", chdir: "/")
      wait_for("the reader to begin elsewhere") { read("begun.out").strip != lost }
      write("go", "")
    end
    assert_equal [0, "1\n2\n"], [status.exitstatus, read("out")], printed
    assert_includes printed, "node #{lost} was lost"
  end

  private

  def in_allocation(nodes, *words, program: RAKUDA)
    @testbed.run("head", "salloc", "-Q", "-N#{nodes}", "-c2", "-t30", program, *words, chdir: @folder)
  end
end
