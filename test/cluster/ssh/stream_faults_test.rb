# frozen_string_literal: true

require "json"
require "minitest/autorun"
require_relative "../hosts_case"

# Streams while processes of the run are stopped, go on, or are killed, and hosts are cut off: what comes out is what
# comes out of a run in which nothing happens, or the run says what was wrong. None hangs. Agents that stop and die,
# lines that are cut for a moment, and spools are struck in ../slurm; leaders, the process for data and the hub that is
# killed in ../sites. Each has a file of this name.
class StreamFaultsTest < ClusterHostsCase
  HALF = 100_000
  # Far from all that a moment takes, and near, where it is waited for that somebody counts as gone.
  PATIENT = "HEARTBEAT=60"
  STRICT = "HEARTBEAT=20"

  # Four tasks on two of three hosts; the third one has room for what is lost.
  GANG = <<~RUBY.freeze
    stream :s, from: %w[w1 w2], to: %w[a b]
    %w[w1 w2].each do |w|
      task(w) { sh "hostname > by.\#{w}; seq -f '\#{w} %.0f' #{HALF}; echo x > begun.\#{w}; until test -e go; do sleep 0.05; done; " \\
                   "seq -f '\#{w} %.0f' #{HALF + 1} #{2 * HALF}" }
    end
    %w[a b].each { |r| file(r) { |t| sh "hostname > by.\#{r}; echo $$ > pid.\#{r}; exec cat > \#{t.name}" } }
    task default: %w[a b]
  RUBY

  def setup
    super
    write("hosts", "host1 2\nhost2 2\nhost3 2\n")
  end

  # Starts a run, and yields when both writers wait in the middle, for what lets them go on, and something of each has
  # come to each reader, and so has gone from host to host.
  # @return [Array] what it printed, and its status
  def struck(*words)
    write("Rakefile", GANG)
    IO.pipe do |reader, writer|
      pid = @testbed.start("head", RAKUDA, "-F", "hosts", *words, "-q", chdir: @folder, out: writer, err: writer)
      writer.close
      printed = Thread.new { reader.read }
      wait_for("both writers to begin") { begun?(2) }
      wait_for("all readers to read from all writers") { %w[a b].all? { |name| reads_from_all?(name) } }
      yield
      status = nil
      explained = -> { @testbed.run("head", RAKUDACTL, "explain", "a", chdir: @folder).out }
      wait_for("the run to end", explained) { (status = Process.wait2(pid, Process::WNOHANG)&.last) }
      return printed.value, status
    end
  end

  def reads_from_all?(reader)
    got = names(reader).map { |name| read(name) }.join
    %w[w1 w2].all? { |writer| got.include?("#{writer} ") }
  end

  def assert_all_came
    assert_equal read("a"), read("b")
    %w[w1 w2].each do |writer|
      assert_equal (1..2 * HALF).map { |number| "#{writer} #{number}\n" }, read("a").lines.grep(/^#{writer} /)
    end
    assert_equal 4 * HALF, read("a").lines.size
  end

  def assert_made(printed, status)
    assert_equal 0, status.exitstatus, printed
    assert_all_came
    stream = JSON.parse(ctl("report", "--json")).fetch("streams").last
    assert_equal [4 * HALF, true], stream.values_at("records", "balanced"), printed
  end

  def assert_run_again(printed)
    assert_match(/node host\d was lost/, printed)
    assert_operator events("streams_opened").size, :>, 1, printed
  end

  def test_an_agent_that_is_killed_is_lost_and_all_run_again
    printed, status = struck(PATIENT) do
      @testbed.run!(read("by.w2").strip, "pkill", "-KILL", "-x", "rakuda-agent", chdir: "/")
      write("go", "")
    end
    assert_made(printed, status)
    assert_run_again(printed)
  end

  # First without a retry: nothing that was made of a part is left.
  def test_a_reader_that_is_killed_fails_all_and_all_run_again_where_they_may
    printed, status = struck(PATIENT) { kill_reader }
    assert_equal 1, status.exitstatus, printed
    assert_match(/^a: failed after .* on host\d\n.*\n  signal 9 \(SIGKILL\)$/, printed)
    refute_match(/^w1: failed/, printed)
    %w[a b].each { |reader| refute_path_exists File.join(@folder, reader) }
    FileUtils.rm_f(names("{go,begun.*}").map { |name| File.join(@folder, name) })
    printed, status = struck(PATIENT, "RETRY=1") { kill_reader }
    assert_made(printed, status)
    assert_equal 1 + 2, events("streams_opened").size, printed
  end

  def kill_reader
    @testbed.run!(read("by.a").strip, "kill", "-KILL", read("pid.a").strip, chdir: "/")
    write("go", "")
  end

  # It is back before the run ends, and what ran there before does no harm.
  def test_a_host_that_is_cut_off_too_long_is_lost_and_all_run_again
    host = nil
    printed, status = struck(STRICT) do
      @testbed.fault("cut-link", host = read("by.w1").strip)
      wait_until_lost(host)
      @testbed.fault("mend-link", host)
      write("go", "")
    end
    assert_made(printed, status)
    assert_run_again(printed)
  ensure
    @testbed.fault("mend-link", host) if host
  end

  # Two hosts do not hear each other for longer than a heartbeat, while the hub hears both: nobody is lost, and what was
  # on its way comes when the line is there again.
  def test_a_line_between_two_hosts_that_is_cut_for_longer_than_a_heartbeat_loses_nothing
    write("hosts", "host1 2\nhost2 2\n")
    address = @testbed.run!("host1", "getent", "hosts", "host2").split.first
    printed, status = struck(STRICT) do
      @testbed.run!("host1", "ip", "route", "add", "blackhole", address)
      write("go", "")
      # Nothing tells of its end: this is the time for which they do not hear each other.
      sleep 22
      @testbed.run!("host1", "ip", "route", "del", "blackhole", address)
      address = nil
    end
    assert_made(printed, status)
    refute_includes printed, "was lost"
    assert_equal 1, events("streams_opened").size, printed
  ensure
    @testbed.run("host1", "ip", "route", "del", "blackhole", address) if address
  end

  # The agents have counted it as gone, and ended what ran.
  def test_a_hub_that_stands_still_too_long_finds_its_nodes_again
    printed, status = struck(STRICT) do
      @testbed.run!("head", "pkill", "-STOP", "-x", "rakudad", chdir: "/")
      wait_until_nothing_runs("host1", "host2", "host3")
      write("go", "")
      @testbed.run!("head", "pkill", "-CONT", "-x", "rakudad", chdir: "/")
    end
    assert_made(printed, status)
    assert_run_again(printed)
  end
end
