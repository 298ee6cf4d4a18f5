# frozen_string_literal: true

require "json"
require "minitest/autorun"
require "support/near_hosts"
require "support/waiting"

# Runs on several hosts, which are all on this machine and see the run's folder: what users see of them, who gets the
# tasks, and what is said of hosts that cannot be used. What only ssh, links and kernels of their own show is in
# ../cluster.
class NearHostsTest < Minitest::Test
  include NearHosts
  include Waiting

  GROUP = "[[group]]\nname = \"far\"\nleader = \"host1\"\nhosts = [\"host[[1-2]] 2\"]\n"

  OUTPUT = <<~'RUBY'
    (1..8).each { |number| task("t#{number}") { sh "seq -f 't#{number} %g #{"x" * 200}' 1 300" } }
    task default: (1..8).map { |number| "t#{number}" } do
      sh("exit 7") { |ok, status| puts [ok, status.exitstatus].inspect }
      sh("kill -9 $$") { |ok, status| puts [ok, status.termsig].inspect }
      sh("no-such-program") { |ok, status| puts [ok, status.exitstatus].inspect }
      sh "exit 5"
    end
  RUBY

  # Directly, and through a leader.
  def test_lines_come_whole_and_statuses_signals_and_programs_that_are_not_there_are_told_as_here
    on_hosts("host1 2\nhost2 2\n") do |run|
      run.write("hosts.toml", GROUP)
      %w[hosts hosts.toml].each do |hosts|
        result = run.rakuda(OUTPUT, "-F", hosts)
        assert_equal 1, result.status, result.err
        by_task = result.out.lines(chomp: true).group_by { |line| line[/\At\d+/] }
        assert_equal ["[false, 7]", "[false, 9]", "[nil, 127]"], by_task.delete(nil)
        assert_equal 8, by_task.size
        by_task.each { |task, lines| assert_equal (1..300).map { |number| "#{task} #{number} #{"x" * 200}" }, lines }
        assert_includes result.err, "Command failed with status (5)"
        assert_match(/ on host[12]/, result.err)
      end
    end
  end

  def test_allow_and_deny_choose_hosts
    on_hosts("host1 2\nhost2 2\n") do |run|
      result = run.rakuda(<<~'RUBY')
        task default: (1..4).map { |number| "t#{number}" }
        (1..4).each { |number| desc "deny=*1"; task("t#{number}") { sh "echo $NEAR_HOST" } }
      RUBY
      assert_equal [0, ["host2\n"]], [result.status, result.out.lines.uniq], result.err
    end
  end

  # host3 is behind a leader that is nowhere, and the leader host2 finds one of its hosts nowhere.
  PARTLY = <<~TOML
    hosts = ["host1 1", "nosuch-a 1"]

    [[group]]
    name = "far"
    leader = "nosuch-b"
    hosts = ["host3 1", "nosuch-b 1"]

    [[group]]
    name = "near"
    leader = "host2"
    hosts = ["host2 1", "nosuch-c 1"]
  TOML

  def test_hosts_that_cannot_be_reached_are_named_with_the_words_of_ssh_and_others_go_on
    on_hosts("") do |run|
      run.write("hosts.toml", PARTLY)
      rakefile = "desc 'allow=host2'\ntask(:default) { sh 'until test -e go; do sleep 0.05; done; echo by $NEAR_HOST' }"
      told, status = during(run, rakefile, "-F", "hosts.toml") do |printed|
        %w[nosuch-a host3 nosuch-c].each do |host|
          wait_for(host, printed) { printed.call.include?("rakuda: node #{host} cannot be used: ") }
        end
        run.write("go", "")
      end
      assert_equal 0, status.exitstatus, told
      assert_match(/^by host2$/, told)
      nowhere = "ssh: Could not resolve hostname"
      assert_match(/^rakuda: node nosuch-a cannot be used: #{nowhere} nosuch-a: /, told)
      assert_match(/^rakuda: node host3 cannot be used: its leader nosuch-b cannot be used: #{nowhere} nosuch-b: /, told)
      hint = "the run goes on without it: mend that for the next one, or leave the node out"
      assert_match(/^rakuda: node nosuch-c cannot be used: #{nowhere} .+ \(tried from its leader host2\); #{hint}$/, told)
    end
  end

  def test_without_any_host_the_run_ends_with_status_three
    on_hosts("nosuch 2\n") do |run|
      run.write("hosts.toml", "[[group]]\nname = \"far\"\nleader = \"nosuch\"\nhosts = [\"host3 2\", \"nosuch\"]\n")
      whys = { "hosts" => "nosuch: ssh: Could not resolve hostname nosuch: ",
               "hosts.toml" => "host3: its leader nosuch cannot be used: ssh: " }
      whys.each do |hosts, why|
        result = run.rakuda("task(:default) { sh 'echo never' }", "-F", hosts)
        assert_equal [3, ""], [result.status, result.out]
        assert_includes result.err, "no node is left to run on:\n  #{why}"
        assert_includes result.err, "\n  mend that or choose other nodes, and run the same command again to go on"
      end
    end
  end

  # It kills the agent that has started it. A host that is back before another one is there may get it again.
  def test_a_task_that_takes_its_nodes_down_is_blamed_everywhere
    on_hosts("host1 1\nhost2 1\nhost3 1\n") do |run|
      result = run.rakuda("task(:default) { sh 'echo so far; kill -KILL $PPID; sleep 600' }")
      assert_equal 1, result.status, result.err
      names = result.err[/task default was lost with 3 different nodes \((.+)\) and is suspected of taking them down/, 1]
      assert_equal %w[host1 host2 host3], names.to_s.split(", ").sort, result.err
      assert_match(/^rakuda aborted!\nRakuda::TaskBlamed: task default was lost with 3 different nodes /, result.err)
      assert_match(/^default: failed after .+ on host\d\n  it was lost with 3 different nodes /, result.err)
      refute_match(/host\d was lost .+: 1 task runs again elsewhere\nrakuda: task default was lost/, result.err)
      story = run.ctl("story", "default")
      losses = story.scan(/attempt \d was lost with its node after/).size
      assert_operator losses, :>=, 3, story
      assert_equal losses - 1, story.scan(/; there will be another attempt$/).size, story
      assert_includes story, "failed: it was lost with 3 different nodes (#{names}) and is suspected of taking them down"
    end
  end

  def test_a_host_where_all_fails_is_drained
    on_hosts("host1 2\nhost2 2\n") do |run|
      result = run.rakuda(<<~'RUBY', "--retry", "3", "HOST_FAILURE=2")
        made = (1..12).map { |number| "out#{number}" }
        task default: made
        # host1 waits until host2 has begun both that it has room for; these fail when one has ended well.
        waits = "until test $(grep -c host2 begun) -ge 2; do sleep 0.05; done"
        fails = "until grep -q '\"outcome\":\"done\"' .rakuda/runs/*/journal.jsonl; do sleep 0.05; done; exit 1"
        made.each do |name|
          file(name) do
            sh "echo $NEAR_HOST >> begun; if test $NEAR_HOST = host2; then #{fails}; fi; #{waits}; echo $NEAR_HOST > #{name}"
          end
        end
      RUBY
      assert_equal 0, result.status, result.err
      drained = "rakuda: node host2 is drained: 2 actions failed there one after the other, while others did well\n"
      assert_includes result.err, drained
      assert_equal ["host1\n"], (1..12).map { |number| run.read("out#{number}") }.uniq
    end
  end

  def test_commands_run_where_work_dir_says
    on_hosts("host1 1\n") do |run|
      FileUtils.mkdir_p(%w[sub there/sub].map { |name| run.path(name) })
      there = run.path("there")
      result = run.rakuda(<<~'RUBY', "WORK_DIR=#{there}")
        task :default do
          sh "pwd"
          cd("sub", verbose: false) { sh "pwd" }
        end
      RUBY
      assert_equal [0, "", [there, "#{there}/sub"]], [result.status, result.err, result.out.lines(chomp: true)]
    end
  end

  # Each task says that it has begun, and ends when there is a file `go`.
  HELD = <<~'RUBY'
    made = (1..4).map { |number| "out#{number}" }
    task default: made
    made.each { |name| file(name) { sh "echo $NEAR_HOST > begun.#{name}; until test -e go; do sleep 0.05; done; echo $NEAR_HOST > #{name}" } }
  RUBY

  def test_a_host_file_with_groups_names_hosts_and_their_cores
    on_hosts("") do |run|
      run.write("hosts.toml", <<~'TOML')
        hosts = ["host1 2"]

        [[group]]
        name = "east"
        leader = "host2"
        cores = 1
        hosts = ["host[[2-3]]"]
      TOML
      rows = nil
      told, status = during(run, HELD, "-F", "hosts.toml") do |printed|
        wait_for("all tasks", printed) { Dir[run.path("begun.*")].count { |path| File.size?(path) } == 4 }
        rows = run.ctl("nodes")
        run.write("go", "")
      end
      assert_equal [0, ""], [status.exitstatus, told]
      assert_equal %w[host1 host1 host2 host3], (1..4).map { |number| run.read("out#{number}").chomp }.sort
      assert_match(/^  host1 +up +2 cores, 2 running/, rows)
      %w[host2 host3].each { |host| assert_match(/^  #{host} +up +1 core, 1 running/, rows) }
    end
  end

  TOO_MUCH = {
    "nodes: 3" => "task default needs 3 nodes at once (3 slots), but this run has 2",
    "cores: 3" => "Rakefile:1: needs: task default asks for 3 cores, but no node that may run it has more than 2",
    "cores: 3, nodes: 2" => "Rakefile:1: needs: task default asks for 3 cores, but no node that may run it has more than 2",
    "memory: '900T'" => "Rakefile:1: needs: task default asks for 900 TiB of memory, but no node that may run it has more than "
  }.freeze

  def test_more_nodes_cores_or_memory_than_there_are_is_an_error
    on_hosts("host1 2\nhost2 2\n") do |run|
      TOO_MUCH.each do |asked, complaint|
        result = run.rakuda("needs #{asked}\ntask(:default) { sh 'echo large' }\n")
        assert_equal [1, ""], [result.status, result.out], asked
        assert_includes result.err, complaint
      end
      result = run.rakuda("desc 'ncore=3'\ntask(:default) { sh 'echo cut' }")
      assert_equal [0, "cut\n"], [result.status, result.out], result.err
    end
  end

  # Readers and writers take turns on hosts that have room for one of them each.
  SPOOLED = <<~'RUBY'
    stream :s, from: %w[w1 w2], to: %w[a b], replay: :MODE
    %w[w1 w2].each { |w| task(w) { sh "echo $NEAR_HOST >> by; seq -f '#{w} %.0f' 50000" } }
    %w[a b].each { |r| file(r) { |t| sh "echo $NEAR_HOST >> by; cat > #{t.name}" } }
    task default: %w[a b]
  RUBY

  def test_members_over_spools_that_fit_on_no_host_are_spread_and_read_what_others_wrote_elsewhere
    on_hosts("host1 1\nhost2 1\n") do |run|
      all = %w[w1 w2].flat_map { |writer| (1..50_000).map { |number| "#{writer} #{number}\n" } }.join
      %w[journal atomic].each do |mode|
        result = run.rakuda(SPOOLED.sub("MODE", mode))
        assert_equal 0, result.status, result.err
        %w[a b].each { |reader| assert all == run.read(reader), "#{mode}: #{File.size(run.path(reader))} bytes" }
        assert_empty Dir.glob(run.path(".rakuda/spools/*"))
        assert(JSON.parse(run.ctl("report", "--json")).fetch("streams").all? { |stream| stream["balanced"] })
        %w[a b].each { |reader| File.delete(run.path(reader)) }
      end
      assert_equal %w[host1 host2], run.read("by").split.uniq.sort
    end
  end

  def test_nothing_of_a_failed_attempt_writes_on_a_node_while_the_next_one_does
    on_hosts("host1 2\nhost2 2\n") do |run|
      result = run.rakuda(<<~'RUBY', "--retry", "1")
        file "out" do
          next sh("for i in $(seq 100); do echo whole; sleep 0.001; done >> out") if File.exist?("failed")
          touch "failed"
          sh "(setsid sh -c 'while :; do echo part >> out; done' > /dev/null 2>&1 &); until test -s out; do sleep 0.001; done; exit 1"
        end
        task default: "out"
      RUBY
      assert_equal 0, result.status, result.err
      assert_equal ["whole\n"] * 100, run.read("out").lines
    end
  end

  def test_what_no_node_is_large_enough_for_waits_for_one_that_may_join
    on_hosts("") do |run|
      rakefile = "needs cores: 2\ntask(:default) { sh 'echo never' }"
      told, status = during(run, rakefile, "-j", "1", "--joinable") do |printed, pid|
        wait_for("the task to wait", printed) { printed.call.include?("no node can run task default and its like: it waits") }
        Process.kill(:TERM, pid)
      end
      refute_predicate status, :success?
      refute_match(/needs:|^never$/, told)
    end
  end

  def test_a_run_whose_first_task_waits_for_a_node_can_be_asked_and_joined
    on_hosts("") do |run|
      rakefile = "desc 'allow=fast*'\nfile('there') { sh 'echo made > there' }"
      joined = nil
      told, status = during(run, rakefile, "--joinable", "there") do |printed|
        wait_for("an invitation", printed) { invitation?(run) }
        assert_match(/^there: ready,.*\n  \S+: it can never run there/, run.ctl("explain", "there"))
        joined = join(run, "--name", "fast7")
      end
      assert_equal 0, status.exitstatus, told
      assert_equal "made\n", run.read("there")
      assert_equal 0, Process.wait2(joined).last.exitstatus
      node = run.events.find { |event| event["event"] == "attempt_started" }["node"]
      names = run.events.select { |event| event["event"] == "node_joined" }.to_h { |event| event.values_at("node", "name") }
      assert_equal "fast7", names.fetch(node)
    end
  end

  def test_a_node_that_joined_is_let_go_when_it_has_nothing_to_do
    on_hosts("") do |run|
      rakefile = "task(:default) { sh 'echo x > begun; until test -e go; do sleep 0.05; done' }"
      told, status = during(run, rakefile, "--joinable", "--max-idle", "1") do |printed|
        wait_for("the task and an invitation", printed) { File.size?(run.path("begun")) && invitation?(run) }
        assert_equal 0, Process.wait2(join(run, "--name", "idle")).last.exitstatus, File.read(run.path("joined"))
        assert_equal "", File.read(run.path("joined"))
        wait_for("it to go", printed) { run.ctl("nodes").match?(/^  idle +gone /) }
        run.write("go", "")
      end
      assert_equal [0, ""], [status.exitstatus, told]
    end
  end

  def test_a_run_with_nothing_to_do_asks_slurm_for_nothing
    on_hosts("") do |run|
      run.write("out", "")
      told, status = during(run, "file('out') { sh 'false' }", "--cluster", "slurm", "--nodes", "2", "out") { nil }
      assert_equal [0, ""], [status.exitstatus, told]
    end
  end

  def test_a_folder_outside_of_gfarm_is_refused
    on_hosts("host1 1\n") do |run|
      result = run.rakuda("task(:default) { sh 'echo never' }", "--filesystem", "gfarm")
      assert_equal [false, ""], [result.status.zero?, result.out]
      assert_includes result.err, "FILESYSTEM gfarm: #{run.path("").chomp("/")} does not lie in Gfarm; mount that with gfarm2fs"
    end
  end

  private

  # @yield [Run]
  def on_hosts(hosts)
    near_hosts(shared: true) do |run|
      run.write("hosts", hosts)
      yield run
    end
  end

  # Begins a run.
  # @yieldparam printed [Proc] gives what it has printed so far
  # @yieldparam pid [Integer] its process
  # @return [Array] what it printed, and its status
  def during(run, rakefile, *words)
    output = File.join(run.base, "printed")
    pid = run.begin_rakuda(rakefile, *words, output: output)
    printed = -> { File.read(output) }
    yield printed, pid
    status = Process.wait2(pid).last
    [printed.call, status]
  end

  # A task that begins here does not say that it is written.
  def invitation?(run) = Dir[run.path(".rakuda/join/*")].any? { |path| File.size?(path) }

  # @return [Integer] the process of a node that joins the run
  def join(run, *words)
    Process.spawn(Engines::REAL, RAKUDACTL, "join", *words, chdir: run.path(""), out: File::NULL, err: run.path("joined"))
  end
end
