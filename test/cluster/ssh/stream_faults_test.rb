# frozen_string_literal: true

require "json"
require "minitest/autorun"
require_relative "../hosts_case"

# Streams while processes of the run are stopped, go on, or are killed: what comes out is what comes out of a run in
# which nothing happens, or the run says what was wrong, and the next one makes it. None hangs.
class StreamFaultsTest < ClusterHostsCase
  HALF = 100_000
  # Far from all that a moment takes, and near, where it is waited for that somebody counts as gone.
  PATIENT = "HEARTBEAT=20"
  STRICT = "HEARTBEAT=8"

  # Four tasks on two of three hosts; the third one has room for what is lost.
  GANG = <<~RUBY.freeze
    stream :s, from: %w[w1 w2], to: %w[a b]
    %w[w1 w2].each do |w|
      task(w) { sh "hostname > by.\#{w}; echo $$ > pid.\#{w}; seq -f '\#{w} %.0f' #{HALF}; echo x > begun.\#{w}; until test -e go; do sleep 0.05; done; " \\
                   "seq -f '\#{w} %.0f' #{HALF + 1} #{2 * HALF}" }
    end
    %w[a b].each { |r| file(r) { |t| sh "hostname > by.\#{r}; echo $$ > pid.\#{r}; exec cat > \#{t.name}" } }
    task default: %w[a b]
  RUBY

  def setup
    super
    write("hosts", "host1 2\nhost2 2\nhost3 2\n")
  end

  # Starts a run, and yields when both writers wait in the middle, for what lets them go on.
  # @return [Array] what it printed, and its status
  def struck(*words, begun: 2, rakefile: GANG)
    write("Rakefile", rakefile)
    IO.pipe do |reader, writer|
      pid = @testbed.start("head", RAKUDA, *words, "-q", chdir: @folder, out: writer, err: writer)
      writer.close
      printed = Thread.new { reader.read }
      wait_for("#{begun} tasks to begin") { begun?(begun) }
      yield
      status = nil
      explained = -> { @testbed.run("head", RAKUDACTL, "explain", "a", chdir: @folder).out }
      wait_for("the run to end", explained) { (status = Process.wait2(pid, Process::WNOHANG)&.last) }
      return printed.value, status
    end
  end

  # The same where something of each writer has come to each reader, and so has gone from host to host.
  def struck_over_hosts(*words)
    struck("-F", "hosts", *words) do
      wait_for("all readers to read from all writers") { %w[a b].all? { |reader| reads_from_all?(reader) } }
      yield
    end
  end

  def reads_from_all?(reader)
    got = names(reader).map { |name| read(name) }.join
    %w[w1 w2].all? { |writer| got.include?("#{writer} ") }
  end

  def signal(host, signal, name) = @testbed.run(host, "pkill", "-#{signal}", "-x", name, chdir: "/")

  # A process stands still while the other half goes through.
  def stop_for_a_moment(host, name)
    assert signal(host, "STOP", name).success?, "no #{name} on #{host}"
    write("go", "")
    sleep 1
    signal(host, "CONT", name)
  end

  # A process stands still in the middle, until what is waited for has come of it.
  def stop_until(host, name)
    assert signal(host, "STOP", name).success?, "no #{name} on #{host}"
    yield
    write("go", "")
    signal(host, "CONT", name)
  end

  def kill(host, name)
    assert signal(host, "KILL", name).success?, "no #{name} on #{host}"
    write("go", "")
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

  # A program of a member, on its host.
  def kill_member(task)
    @testbed.run!(read("by.#{task}").strip, "kill", "-KILL", read("pid.#{task}").strip, chdir: "/")
    write("go", "")
  end

  # The run says that it ended early; the next one makes all.
  def assert_made_by_the_next(printed, *words)
    refute_empty printed.strip
    result = @testbed.run("head", RAKUDA, *words, "-q", chdir: @folder)
    assert_equal 0, result.status, printed + result.err
  end

  # All went on in the first attempt.
  def assert_nothing_lost(printed)
    refute_includes printed, "was lost"
    assert_equal 1, events("streams_opened").size, printed
  end

  def assert_run_again(printed)
    assert_match(/node host\d was lost/, printed)
    assert_operator events("streams_opened").size, :>, 1, printed
  end

  def test_an_agent_that_stands_still_for_a_moment_loses_nothing
    printed, status = struck_over_hosts(PATIENT) { stop_for_a_moment(read("by.w1").strip, "rakuda-agent") }
    assert_made(printed, status)
    assert_nothing_lost(printed)
  end

  def test_an_agent_that_stands_still_too_long_is_lost_and_all_run_again
    printed, status = struck_over_hosts(STRICT) do
      stop_until(read("by.w1").strip, "rakuda-agent") { wait_for("a node to be lost") { events("node_lost").any? } }
    end
    assert_made(printed, status)
    assert_run_again(printed)
  end

  def test_an_agent_that_is_killed_is_lost_and_all_run_again
    printed, status = struck_over_hosts(PATIENT) { kill(read("by.w2").strip, "rakuda-agent") }
    assert_made(printed, status)
    assert_run_again(printed)
  end

  # First without a retry: no reader takes the half for the whole, and nothing that was made is left.
  def strike_member(task, other)
    printed, status = struck_over_hosts(PATIENT) { kill_member(task) }
    assert_equal 1, status.exitstatus, printed
    assert_match(/^#{task}: failed after .* on host\d\n.*\n  signal 9 \(SIGKILL\)$/, printed)
    refute_match(/^#{other}: failed/, printed)
    %w[a b].each { |reader| refute_path_exists File.join(@folder, reader) }
    FileUtils.rm_f(names("{go,begun.*}").map { |name| File.join(@folder, name) })
    printed, status = struck_over_hosts(PATIENT, "RETRY=1") { kill_member(task) }
    assert_made(printed, status)
    assert_equal 1 + 2, events("streams_opened").size, printed
  end

  def test_a_reader_that_is_killed_fails_all_and_all_run_again_where_they_may = strike_member("a", "w1")

  def test_a_writer_that_is_killed_fails_all_and_all_run_again_where_they_may = strike_member("w2", "b")

  # No packet comes to a host or from it while the other half goes through, for less than anybody waits.
  def test_a_host_that_is_cut_off_for_a_moment_loses_nothing
    host = nil
    # testbed/fault may have to wait for other testbeds.
    printed, status = struck_over_hosts("HEARTBEAT=60") do
      @testbed.fault("cut-link", host = read("by.w1").strip)
      write("go", "")
      sleep 1
      @testbed.fault("mend-link", host)
    end
    assert_made(printed, status)
    assert_nothing_lost(printed)
  ensure
    @testbed.fault("mend-link", host) if host
  end

  # It is back before the run ends, and what ran there before does no harm.
  def test_a_host_that_is_cut_off_too_long_is_lost_and_all_run_again
    host = nil
    printed, status = struck_over_hosts(STRICT) do
      @testbed.fault("cut-link", host = read("by.w1").strip)
      wait_for("a node to be lost") { events("node_lost").any? }
      @testbed.fault("mend-link", host)
      write("go", "")
    end
    assert_made(printed, status)
    assert_run_again(printed)
  ensure
    @testbed.fault("mend-link", host) if host
  end

  # Two hosts do not hear each other for longer than a heartbeat, while the hub hears both: nobody is lost, and what was on
  # its way comes when the line is there again.
  def test_a_line_between_two_hosts_that_is_cut_for_longer_than_a_heartbeat_loses_nothing
    write("hosts", "host1 2\nhost2 2\n")
    address = @testbed.run!("host1", "getent", "hosts", "host2").split.first
    printed, status = struck_over_hosts(STRICT) do
      @testbed.run!("host1", "ip", "route", "add", "blackhole", address)
      write("go", "")
      # Nothing tells of its end: this is the time for which they do not hear each other.
      sleep 9
      @testbed.run!("host1", "ip", "route", "del", "blackhole", address)
      address = nil
    end
    assert_made(printed, status)
    assert_nothing_lost(printed)
  ensure
    @testbed.run("host1", "ip", "route", "del", "blackhole", address) if address
  end

  def test_a_hub_that_stands_still_for_a_moment_loses_nothing
    printed, status = struck_over_hosts(PATIENT) { stop_for_a_moment("head", "rakudad") }
    assert_made(printed, status)
    assert_nothing_lost(printed)
  end

  # The agents have counted it as gone, and ended what ran.
  def test_a_hub_that_stands_still_too_long_finds_its_nodes_again
    printed, status = struck_over_hosts(STRICT) do
      stop_until("head", "rakudad") { wait_until_nothing_runs("host1", "host2", "host3") }
    end
    assert_made(printed, status)
    assert_run_again(printed)
  end

  def test_a_hub_that_is_killed_ends_the_run_and_the_next_one_makes_all
    printed, status = struck_over_hosts(PATIENT) { kill("head", "rakudad") }
    refute_predicate status, :success?
    wait_until_nothing_runs("host1", "host2", "host3")
    assert_made_by_the_next(printed, "-F", "hosts")
    assert_all_came
  end

  # Two hosts that cannot reach each other are joined over the hub's, by a process for data on each.
  def without_a_way
    write("hosts", "host1 2\nhost2 2\n")
    address = @testbed.run!("host1", "getent", "hosts", "host2").split.first
    @testbed.run!("host1", "ip", "route", "add", "blackhole", address)
    yield
    ends = events("streams_ended").last.fetch("streams").flat_map { |stream| stream.fetch("hops") }
    assert_equal(["hub"], ends.map { |hop| hop["way"] }.uniq)
  ensure
    @testbed.run("host1", "ip", "route", "del", "blackhole", address) if address
  end

  def test_a_data_process_that_stands_still_loses_nothing
    without_a_way do
      printed, status = struck_over_hosts(PATIENT) { stop_for_a_moment("host1", "rakuda-files") }
      assert_made(printed, status)
      assert_nothing_lost(printed)
    end
  end

  def test_a_data_process_that_is_killed_breaks_the_edge_and_all_run_again
    without_a_way do
      printed, status = struck_over_hosts(STRICT, "RETRY=1") { kill("host1", "rakuda-files") }
      assert_made(printed, status)
      assert_match(/the connection to host\d was lost/, printed)
    end
  end

  SPOOLED = GANG.sub("to: %w[a b]", "to: %w[a b], replay: :MODE")

  # On one machine, over spools: the writers are in the middle when it happens.
  def strike_spooled(mode)
    rakefile = SPOOLED.sub("MODE", mode)
    printed, status = struck("-j4", rakefile: rakefile) { stop_for_a_moment("head", "rakudad") }
    assert_equal 0, status.exitstatus, printed
    assert_all_came
    FileUtils.rm_f(%w[a b go begun.w1 begun.w2].map { |name| File.join(@folder, name) })
    printed, status = struck("-j4", rakefile: rakefile) { kill("head", "rakudad") }
    refute_predicate status, :success?
    assert_made_by_the_next(printed, "-j4")
    assert_all_came
    assert_empty Dir.glob("#{@folder}/.rakuda/spools/*")
  end

  def test_a_journal_survives_what_happens_to_the_engine = strike_spooled("journal")

  def test_what_enters_when_its_writers_have_ended_survives_what_happens_to_the_engine = strike_spooled("atomic")
end
