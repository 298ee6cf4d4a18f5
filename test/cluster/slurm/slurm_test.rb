# frozen_string_literal: true

require "minitest/autorun"
require "support/longer_ago"
require_relative "../hosts_case"

# Runs on nodes of Slurm: within an allocation, or in one that the run asks for and gives back.
class ClusterSlurmTest < ClusterHostsCase
  ASKED = /^rakuda: asked Slurm for (\d nodes?): job (\d+)$/

  def testbed_settings = { HOSTS: 3, GFARM: 0, SLURM: 1, LOST_AFTER: 60 }

  # Tests that have used this testbed may have left nodes on which their jobs still end; a job would get others then.
  def setup
    super
    wait_for("all nodes to be idle") { idle == 3 }
  end

  def teardown
    return super if @spoilt || !passed?

    @testbed.run("head", "scancel", "--user=root")
    wait_for("the queue to be empty") { queue.empty? }
  end

  def idle = @testbed.run!("head", "sinfo", "-h", "-t", "idle", "-o", "%D", chdir: "/").to_i

  # Numbers of the jobs that wait or run; one that has ended stays in the queue as long as a node of it does not answer.
  def queue
    @testbed.run!("head", "squeue", "-h", "-t", "PENDING,RUNNING", "-o", "%i", chdir: "/").split
  end

  # It looks less often from then on.
  def batch_job_sees_agents?
    %w[host1 host2 host3].any? { |host| !@testbed.run(host, "pgrep", "-x", "-f", "sleep 15").out.empty? }
  end

  def test_within_an_allocation_its_nodes_and_cores_are_used_and_nobody_reads_its_credentials
    rows = nil
    printed, status = while_command_waits("salloc", "-Q", "-N2", "-c2", "-t30", RAKUDA, "-q") do
      rows = ctl("nodes")
      assert_credentials_are_in_no_argument_and_no_environment
      write("go", "")
    end
    assert_equal [true, ""], [status.success?, printed]
    assert_all_made
    assert_match(/^  head +spare/, rows)
    assert_equal 2, rows.scan(/^  host\d +up +2 cores, 2 running, 0 done, ends in 1[78]\d\d s$/).size, rows
    assert_equal 2, names("by.*").map { |path| read(path) }.uniq.size
  end

  # They are 200 hexadecimal digits and more.
  def assert_credentials_are_in_no_argument_and_no_environment
    look = "grep -laE 'rakuda[-]join|[0-9A-Fa-f]{200}' /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | grep -v $$; true"
    found = %w[head host1 host2].map { |host| @testbed.run!(host, "sh", "-c", look) }
    agents = @testbed.run!("host1", "sh", "-c", "tr '\\0' ' ' < /proc/$(pgrep -x rakuda-agent)/cmdline")
    assert_match(/ --join - --name host1 --cores 2 $/, agents)
    assert_equal [""], found.uniq
  end

  # All that there is to run waits for room, and is in no queue.
  def test_tasks_that_begin_together_have_slurm_asked_for_nodes
    stream = <<~'RUBY'
      stream :s, from: "w", to: "made"
      task(:w) { sh "seq 3" }
      file("made") { |t| sh "cat > #{t.name}" }
      task default: "made"
    RUBY
    nodes = "needs nodes: 2\ntask(:default) { sh 'echo $RAKUDA_NODES > made' }\n"
    { stream => /\A1\n2\n3\n\z/, nodes => /\Ahost\d,host\d\n\z/ }.each do |rakefile, made|
      write("Rakefile", rakefile)
      result = @testbed.run("head", RAKUDA, "--cluster", "slurm", "--nodes", "2", chdir: @folder)
      assert_equal 0, result.status, result.err
      assert_match(ASKED, result.err)
      assert_match(made, read("made"))
      File.delete(File.join(@folder, "made"))
    end
  end

  def test_what_would_not_end_before_the_allocation_is_not_started_and_says_so
    rakefile = <<~'RUBY'
      task default: %w[held slow]
      task(:held) { sh "hostname > begun.held; until test -e go; do sleep 0.05; done" }
      task(:slow) { sh "true" }
    RUBY
    command = ["salloc", "-Q", "-N2", "-c2", "-t30", RAKUDA, "-q"]
    while_command_waits(*command, begun: 1, rakefile: rakefile) { write("go", "") }
    LongerAgo.stretch(@folder, "slow", 4 * 3600)
    %w[go begun.held].each { |path| File.delete(File.join(@folder, path)) }
    told = nil
    printed, status = while_command_waits(*command, begun: 1, rakefile: rakefile) do
      wait_for("both nodes") { ctl("nodes").scan(/^  host\d +up /).size == 2 }
      told = ctl("explain", "slow")
      write("go", "")
    end
    assert_equal 3, status.exitstatus, printed
    assert_equal 2, told.scan(/^  host\d: it may take .+ h by earlier runs, and .+ of the allocation are left$/).size, told
    assert_match(/^rakuda: task slow and its like may take .+ by earlier runs, and .+ of the allocation are left: not/, printed)
    assert_includes printed, "the allocation ends too soon: slow and what depends on them were not started"
  end

  def test_a_batch_script_runs_it_on_a_node_of_the_allocation
    command = ["sbatch", "--wait", "-N2", "-c1", "-o", "out.log", "--wrap", "#{RAKUDA} -q"]
    # One on each node: neither can take the tasks of the other before that.
    printed, status = while_command_waits(*command, begun: 2) { write("go", "") }
    assert status.success?, printed
    assert_equal "", read("out.log")
    assert_all_made
    assert_equal %w[host1 host2], names("by.*").map { |path| read(path).chomp }.uniq.sort
  end

  def test_an_allocation_is_asked_for_and_given_back
    printed, status = while_command_waits(RAKUDA, "-q", "--cluster", "slurm", "--nodes", "2", "-j", "2", "--", "-J", "mine") do
      assert_equal "mine 2 2", @testbed.run!("head", "squeue", "-h", "-t", "PENDING,RUNNING", "-o", "%j %D %c", chdir: "/").strip
      write("go", "")
    end
    assert_equal 0, status.exitstatus, printed
    assert_match ASKED, printed
    assert_all_made
    assert_empty queue
  end

  def test_where_it_stands_in_the_queue_is_told_and_ctrl_c_cancels_it
    @testbed.run!("head", "salloc", "-Q", "--no-shell", "-N3", "--exclusive")
    write("Rakefile", WAITING)
    IO.pipe do |reader, writer|
      pid = @testbed.start("head", RAKUDA, "-q", "--cluster", "slurm", "--nodes", "2", chdir: @folder, err: writer)
      writer.close
      printed = +""
      printed << reader.readpartial(4096) until printed.include?("pending (Resources), 1st of 1 in all")
      assert_match ASKED, printed
      assert_equal 2, queue.size
      Process.kill("INT", pid)
      _, status = Process.wait2(pid)
      assert_equal 130, status.exitstatus
      assert_equal 1, queue.size
    end
  end

  def test_what_sbatch_refuses_is_told_in_its_words
    result = on_slurm(WAITING, "--batch-option", "-p nowhere", nodes: 2)
    assert_equal 3, result.status
    expected = /^Rakuda::NodesGone: no node is left to run on:\n  no allocation: sbatch: error: .*[Ii]nvalid partition/
    assert_match expected, result.err
  end

  def test_an_agent_that_dies_is_started_again
    printed, status = while_command_waits("salloc", "-Q", "-N2", "-c2", RAKUDA, "-q") do
      forget_begun_on("host2")
      @testbed.run!("host2", "pkill", "-KILL", "-x", "rakuda-agent")
      wait_for("a task to begin on host2") { begun_on("host2").any? }
      write("go", "")
    end
    assert status.success?, printed
    lost = /rakuda: node host2 was lost \(.*srun: error: host2: task 1: Exited with exit code 1\): 2 tasks run again elsewhere/
    assert_match lost, printed
    assert_includes printed, "rakuda: node host2 is back\n"
    assert_all_made
  end

  def test_a_node_of_the_allocation_that_dies_is_lost
    @spoilt = true
    command = [RAKUDA, "-q", "--cluster", "slurm", "--nodes", "3", "-j", "2", "HEARTBEAT=16"]
    printed, status = while_command_waits(*command, begun: 6) do
      @testbed.fault("kill-host", "host3")
      wait_for("the loss to be noticed") { names("*._fail_").size == 2 }
      write("go", "")
    end
    assert status.success?, printed
    assert_match(/rakuda: node host3 was lost \(.+\): 2 tasks run again elsewhere/, printed)
    assert_all_made
    assert_empty queue
  end

  def test_the_allocation_ends_when_all_on_this_side_is_killed
    _, status = while_command_waits(RAKUDA, "-q", "--cluster", "slurm", "--nodes", "2", "-j", "2") do
      assert_equal 1, queue.size
      # Killed before its job has looked, they would be waited for there for two minutes.
      wait_for("the batch job to see the agents") { batch_job_sees_agents? }
      @testbed.run("head", "pkill", "-KILL", "-x", "rakudad|rakuda-guard")
      @testbed.run("head", "pkill", "-KILL", "-f", RAKUDA)
    end
    refute status.success?
    wait_until_nothing_runs("host1", "host2", "host3")
    wait_for("the allocation to end") { queue.empty? }
  end

  # As at the end of its time: all processes are told to end.
  def test_what_runs_when_the_allocation_is_taken_away_has_not_failed
    printed, status = while_command_waits(RAKUDA, "-q", "--cluster", "slurm", "--nodes", "2", "-j", "2") do
      @testbed.run!("head", "scancel", *queue)
    end
    assert_equal 3, status.exitstatus, printed
    assert_includes printed, "Rakuda::NodesGone: no node is left to run on:\n"
    assert_match(/rakuda: node host1 was lost \(.+\): 2 tasks run again elsewhere/, printed)
    refute_match(/failed: Command failed/, printed)
    write("go", "")
    result = on_slurm(WAITING, nodes: 2)
    assert_equal 0, result.status, result.err
    assert_all_made
  end

  def test_nodes_that_have_nothing_to_do_are_let_go
    rakefile = <<~'RUBY'
      task default: "last"
      made = (1..3).map { |number| "out#{number}" }
      made.each { |name| file(name) { sh "hostname > #{name}" } }
      file "last" => made do
        sh "hostname > begun.last; until test -e go; do sleep 0.05; done; hostname > last"
      end
    RUBY
    command = [RAKUDA, "-q", "--cluster", "slurm", "--nodes", "3", "--max-idle", "1"]
    printed, status = while_command_waits(*command, begun: 1, rakefile: rakefile) do
      wait_for("two nodes to go") { ctl("nodes").scan(/ gone .*: it ran nothing for 1 s$/).size == 2 }
      write("go", "")
    end
    assert status.success?, printed
    refute_match(/lost|warning/, printed)
    assert_equal read("begun.last"), read("last")
    journal = File.read(Dir[File.join(@folder, ".rakuda/runs/*/journal.jsonl")].first)
    assert_equal 2, journal.scan('"event":"node_gone"').size
    refute_includes journal, "node_lost"
    assert_empty queue
  end

  def test_the_program_is_brought_where_it_is_not
    engine = "/tmp/rakudad-of-#{name}"
    @testbed.run!("head", "cp", File.expand_path("../../../target/release/rakudad", __dir__), engine)
    home = File.join(@folder, "cache")
    environment = { "RAKUDA_ENGINE" => engine, "XDG_CACHE_HOME" => home }
    command = ["salloc", "-Q", "-N2", "-c2", RAKUDA, "-q"]
    2.times do
      printed, status = while_command_waits(*command, environment: environment) { write("go", "") }
      assert_equal [true, ""], [status.success?, printed]
      assert_all_made
      assert_equal 1, Dir.glob("#{home}/rakuda/bin/*/rakudad").size
      (names("{out,begun,by}*") + ["go"]).each { |path| File.delete(File.join(@folder, path)) }
    end
    left = Dir.glob("#{home}/rakuda/bin/*").flat_map { |folder| Dir.children(folder) }
    assert_equal ["rakudad"], left
  end

  def on_slurm(rakefile, *words, nodes:)
    write("Rakefile", rakefile)
    @testbed.run("head", RAKUDA, "-q", "--cluster", "slurm", "--nodes", nodes.to_s, *words, chdir: @folder)
  end
end
