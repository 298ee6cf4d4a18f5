# frozen_string_literal: true

require "json"
require "minitest/autorun"
require_relative "../hosts_case"

# Streams while processes of the run are stopped, go on, or are killed: what comes out is what comes out of a run in
# which nothing happens, or the run says what was wrong, and the next one makes it. None hangs.
class StreamFaultsTest < ClusterHostsCase
  HALF = 20_000
  SILENCE_S = 2

  # Four tasks on two of three hosts; the third one has room for what is lost. Both halves are more than pipes hold.
  GANG = <<~RUBY.freeze
    stream :s, from: %w[w1 w2], to: %w[a b]
    %w[w1 w2].each do |w|
      task(w) { sh "hostname > by.\#{w}; seq -f '\#{w} %.0f' #{HALF}; echo x > begun.\#{w}; until test -e go; do sleep 0.05; done; " \\
                   "seq -f '\#{w} %.0f' #{HALF + 1} #{2 * HALF}" }
    end
    %w[a b].each { |r| file(r) { |t| sh "hostname > by.\#{r}; cat > \#{t.name}" } }
    task default: %w[a b]
  RUBY

  def setup
    super
    write("hosts", "host1 2\nhost2 2\nhost3 2\n")
  end

  # Starts a run, yields when both writers wait in the middle, and lets them go on; what it printed, and its status.
  def struck(*words, begun: 2, rakefile: GANG)
    write("Rakefile", rakefile)
    IO.pipe do |reader, writer|
      pid = @testbed.start("head", RAKUDA, *words, "-q", chdir: @folder, out: writer, err: writer)
      writer.close
      printed = Thread.new { reader.read }
      wait_for("#{begun} tasks to begin") { begun?(begun) }
      yield
      status = nil
      wait_for("the run to end", -> { ctl("explain", "a") }) { (status = Process.wait2(pid, Process::WNOHANG)&.last) }
      return printed.value, status
    end
  end

  def struck_over_hosts(&block) = struck("-F", "hosts", "HEARTBEAT=#{SILENCE_S}", &block)

  def signal(host, signal, name) = @testbed.run(host, "pkill", "-#{signal}", "-x", name, chdir: "/")

  # A process stands still while the other half goes through, for so long.
  def stop(host, name, seconds)
    assert signal(host, "STOP", name).success?, "no #{name} on #{host}"
    write("go", "")
    sleep seconds
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

  # The run says that it ended early; the next one makes all.
  def assert_made_by_the_next(printed, *words)
    refute_empty printed.strip
    result = @testbed.run("head", RAKUDA, *words, "-q", chdir: @folder)
    assert_equal 0, result.status, printed + result.err
  end

  def test_an_agent_that_stands_still_for_a_moment_loses_nothing
    assert_made(*struck_over_hosts { stop(read("by.w1").strip, "rakuda-agent", SILENCE_S / 2) })
  end

  def test_an_agent_that_stands_still_too_long_is_lost_and_all_run_again
    printed, status = struck_over_hosts { stop(read("by.w1").strip, "rakuda-agent", SILENCE_S * 3) }
    assert_made(printed, status)
    assert_match(/node host\d was lost/, printed)
  end

  def test_an_agent_that_is_killed_is_lost_and_all_run_again
    printed, status = struck_over_hosts { kill(read("by.w2").strip, "rakuda-agent") }
    assert_made(printed, status)
    assert_match(/node host\d was lost/, printed)
  end

  def test_a_hub_that_stands_still_for_a_moment_loses_nothing
    assert_made(*struck_over_hosts { stop("head", "rakudad", SILENCE_S / 2) })
  end

  # The agents have counted it as gone, and ended what ran.
  def test_a_hub_that_stands_still_too_long_finds_its_nodes_again
    assert_made(*struck_over_hosts { stop("head", "rakudad", SILENCE_S * 3) })
  end

  def test_a_hub_that_is_killed_ends_the_run_and_the_next_one_makes_all
    printed, status = struck_over_hosts { kill("head", "rakudad") }
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
  ensure
    @testbed.run("host1", "ip", "route", "del", "blackhole", address) if address
  end

  def test_a_data_process_that_stands_still_loses_nothing
    without_a_way { assert_made(*struck_over_hosts { stop("host1", "rakuda-files", SILENCE_S * 2) }) }
  end

  def test_a_data_process_that_is_killed_breaks_the_edge_and_all_run_again
    without_a_way do
      printed, status = struck("-F", "hosts", "HEARTBEAT=#{SILENCE_S}", "RETRY=1") { kill("host1", "rakuda-files") }
      assert_made(printed, status)
      assert_includes printed, "was lost"
    end
  end

  SPOOLED = GANG.sub("to: %w[a b]", "to: %w[a b], replay: :MODE")

  # Those over spools run on one host, after one another: the writers are in the middle when it happens.
  def strike_spooled(mode)
    rakefile = SPOOLED.sub("MODE", mode)
    refused = rakuda(rakefile, "-q")
    assert_equal 1, refused.status
    assert_includes refused.err, "replay: #{mode} needs its tasks on this machine, and the run has hosts"
    printed, status = struck("-j4", rakefile: rakefile) { stop("head", "rakudad", SILENCE_S) }
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
