# frozen_string_literal: true

require "json"
require "minitest/autorun"
require_relative "../hosts_case"

# What a run knows of its hosts: their agents tell it, tasks choose by it, and rakudactl shows it.
class ClusterInformationTest < ClusterHostsCase
  # What a task's host must have left of its own memory, and what a stranger there takes of it.
  LEFT = "limit_memory - limit_memory_used > 300M"
  STRANGER = "x = 'x' * (300 << 20); $stdout.puts 'has it'; $stdout.flush; sleep"

  # Each task says where it runs. What it does to the memory of its host is not known before the next sample, so each
  # host gets one for each.
  CHOOSING = <<~RUBY.freeze
    2000.times do |i|
      needs where: "#{LEFT}"
      task("t\#{i}") { sh "hostname >> begun" }
    end
    task(default: (0...2000).map { |i| "t\#{i}" })
  RUBY

  def testbed_settings = { HOSTS: 3, GFARM: 0, SLURM: 0, MEMORY: "512M" }

  # Tasks that have begun, by host.
  def begun
    File.exist?(File.join(@folder, "begun")) ? read("begun").lines.map(&:chomp).tally : {}
  end

  def journal
    lines = File.readlines(Dir[File.join(@folder, ".rakuda/runs/*/journal.jsonl")].max)
    lines.select { |line| line.end_with?("\n") }.map { |line| JSON.parse(line) }
  end

  def chosen
    journal.select { |event| event["event"] == "node_chosen" }
  end

  # Tasks whose attempt on a host has not ended.
  def running_on(name)
    node = journal.find { |event| event["event"] == "node_joined" && event["name"] == name }["node"]
    journal.each_with_object({}) do |event, running|
      case event["event"]
      when "attempt_started" then running[event["task"]] = event["node"]
      when "attempt_ended" then running.delete(event["task"])
      end
    end.select { |_, where| where == node }.keys
  end

  def nodes(*words)
    JSON.parse(ctl("nodes", "--json", *words)).fetch("nodes")
  end

  # Yields while a run of CHOOSING goes on.
  def while_choosing
    write("Rakefile", CHOOSING)
    IO.pipe do |reader, writer|
      pid = @testbed.start("head", RAKUDA, "-F", "hosts", "-q", chdir: @folder, out: writer, err: writer)
      writer.close
      yield
      assert_nil Process.wait(pid, Process::WNOHANG), "it goes on"
      Process.kill(:INT, pid)
      Process.wait(pid)
      refute_includes reader.read, "no node"
    end
  end

  # Yields while a process that is none of the run's has memory of a host.
  def while_a_stranger_has_memory(host)
    IO.pipe do |said, saying|
      stranger = @testbed.start(host, "ruby", "-e", STRANGER, chdir: @folder, out: saying)
      saying.close
      assert_equal "has it\n", said.gets
      yield
    ensure
      @testbed.run(host, "pkill", "-f", "has it")
      Process.wait(stranger)
    end
  end

  # What keeps hosts from running a task, by host.
  def short(task)
    answer = JSON.parse(ctl("explain", task, "--json")).fetch("answers").first
    (answer["short"] || []).to_h { |it| [it["node"], it["where"]] }
  end

  def test_tasks_run_where_the_hosts_own_values_let_them
    rakefile = <<~RUBY
      needs where: "host == 'host2' && threads >= 1 && mem_total > 1"
      task(:one) { sh "hostname" }
      needs where: "host =~ 'host*'", prefer: "host == 'host2'", locality: false
      task(:two) { sh "hostname" }
      task(default: %i[one two])
    RUBY
    result = rakuda(rakefile, "-q", "one")
    assert_equal [0, "host2\n"], [result.status, result.out], result.err
    values = chosen.first.fetch("values")
    assert_equal ["host2", %w[host mem_total threads]], [values["host"], values.keys.sort]
  end

  # No host has that name; each clause is true of some host; the host that is allowed has another name; and two nodes
  # are wanted.
  def test_what_hosts_can_never_have_or_not_together_is_told_with_its_place
    {
      "where: \"load1 >= 0 && host == 'host9'\"" => /no node can ever have host == 'host9' \(host\d: host is host\d\)/,
      "where: \"host == 'host1' && host == 'host2'\"" => /no node can ever have host == 'host1' && host == 'host2' \(host\d: /,
      "where: \"host == 'host1'\", allow: \"host2\"" => /no node can ever have host == 'host1' \(host2: host is host2\)/,
      "where: \"host == 'host1'\", nodes: 2" => /it takes 2 nodes, and no more than 1 can ever have host == 'host1'/
    }.each do |needs, why|
      result = rakuda("needs #{needs}\ntask(:default) { sh 'hostname' }", "-q")
      assert_equal [1, ""], [result.status, result.out], result.err
      assert_match(/Rakefile:1: needs: task default: where: #{why}/, result.err)
    end
    rakefile = "needs where: \"host =~ 'host?'\", nodes: 2, deny: \"host9\"\ntask(:default) { sh 'hostname' }"
    result = rakuda(rakefile, "-q")
    assert_equal [0, true], [result.status, %W[host1\n host2\n].include?(result.out)], result.err
  end

  def test_a_host_whose_memory_a_stranger_takes_gets_no_more_of_such_tasks_until_it_is_free_again
    while_choosing do
      wait_for("tasks on both hosts") { begun.keys.sort == %w[host1 host2] }
      while_a_stranger_has_memory("host1") do
        clause = nil
        wait_for("the run to know of it") { (clause = short("t0")["host1"] || {})["clause"] == LEFT }
        assert_equal(%w[limit_memory limit_memory_used], clause["values"].map { |it| it["name"] }.sort)
        assert(clause["values"].all? { |it| it["age_s"].is_a?(Numeric) })
        assert_match(/host1: .*where: #{Regexp.escape(LEFT)} is not true \(.*limit_memory_used is .+ old/, ctl("explain", "t0"))
        wait_for("the end of what was chosen before") { running_on("host1").empty? }
        before = begun
        wait_for("more on host2") { begun["host2"] > before["host2"] + 10 }
        assert_equal before["host1"], begun["host1"]
      end
      before = begun
      wait_for("tasks on host1 again") { begun["host1"] > before["host1"] + 2 }
    end
  end

  def test_hosts_are_looked_at_without_a_run_and_nothing_is_left_there
    told = nil
    # One that is late for a moment is suspected.
    wait_for("both hosts to be up", -> { told.inspect }) do
      told = nodes("-F", "hosts")
      told.map { |node| [node["node"], node["state"]] }.sort == [%w[host1 up], %w[host2 up]]
    end
    told.each do |node|
      assert_equal node["node"], node.dig("values", "host", "value")
      # What is of two samples is there as well.
      assert_operator node.dig("values", "cpu_idle", "value"), :>=, 0
    end
    wait_until_nothing_runs("host1", "host2")
    write("hosts", "host1 2\nnosuch 2\nlocalhost\n")
    result = nil
    wait_for("the others to be up", -> { result.inspect }) do
      words = %w[nodes -F hosts --cols host --sort node]
      result = @testbed.run("head", RAKUDACTL, *words, chdir: @folder)
      result.lines.drop(1).map(&:split) == [%w[head up head], %w[host1 up host1], %w[nosuch down -]]
    end
    assert_equal 1, result.status
    assert_match(/\Arakudactl: nosuch is not reached: .*nosuch/, result.err)
    wait_until_nothing_runs("host1")
  end

  # A service for hosts, with what it said when it was ready.
  def while_serving
    IO.pipe do |reader, writer|
      words = ["info", "-F", "hosts", "--token-file", "token", "--period", "100ms"]
      pid = @testbed.start("head", File.expand_path("../../../target/release/rakudad", __dir__), *words,
                           chdir: @folder, out: writer)
      writer.close
      yield reader.gets[/\Ahttp:\S+/]
      Process.kill(:TERM, pid)
      Process.wait(pid)
      assert_equal 0, $?.exitstatus # rubocop:disable Style/SpecialGlobalVars
    end
  end

  def test_a_service_tells_of_hosts_by_their_agents_and_ends_them
    while_serving do |url|
      ask = ->(*words) { nodes("--service", url, "--token-file", "token", *words) }
      wait_for("both hosts") { ask["--where", "has(cpu_idle) && state == 'up'"].size == 2 }
      fresh = ask["--max-age", "0", "--cols", "threads, cpu_model"]
      assert_equal(2, fresh.count { |node| node.dig("values", "threads", "value") >= 1 })
      assert_equal 2, ask["--where", "host == node"].size
    end
    wait_until_nothing_runs("host1", "host2")
  end

  def wait_for_both_in_the_table
    table = nil
    wait_for("both hosts in the table", -> { table }) do
      table = ctl("nodes", "--where", "threads >= 1 && state == 'up'", "--cols", "load1, age(load1)", "--sort", "node")
      table.lines.map { |line| line[/host\d/] }.compact == %w[host1 host2]
    end
  end

  def test_values_of_all_hosts_are_shown_with_their_ages_and_a_silent_host_is_suspected
    out, status = while_waiting("-q") do
      hosts = {}
      wait_for("what both hosts say", -> { hosts.inspect }) do
        hosts = nodes.to_h { |node| [node["node"], node] }.slice("host1", "host2")
        # One that is late for a moment is suspected until it is heard again.
        hosts.values.map { |node| node["state"] } == %w[up up] &&
          %w[host threads mem_available].all? { |name| hosts.count { |_, node| node.dig("values", name, "value") } == 2 }
      end
      hosts.each do |name, node|
        assert_equal name, node.dig("values", "host", "value")
        assert_operator node.dig("values", "threads", "value"), :>=, 1
        assert_operator node.dig("values", "mem_available", "age_s"), :>=, 0
      end
      wait_for_both_in_the_table
      assert_equal 2, nodes("--max-age", "0", "--where", "has(threads)").size
      @testbed.fault("stall-host", "host1")
      wait_for("host1 to be suspected") do
        nodes.find { |node| node["node"] == "host1" }["state"] == "suspected"
      end
      @testbed.fault("wake-host", "host1")
      wait_for("host1 to be up") { nodes.find { |node| node["node"] == "host1" }["state"] == "up" }
      write("go", "")
    end
    assert_equal 0, status.exitstatus, out
  end
end
