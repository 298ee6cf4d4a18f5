# frozen_string_literal: true

require "minitest/autorun"
require "support/slow_writers"
require_relative "../staging_case"

# Hosts that share no file system, and things that die: what was on a lost node is made again, and what did not come
# whole does not count.
class ClusterStagingFaultsTest < ClusterStagingCase
  # A file that is on its way long enough to be seen half, on a link that carries this.
  HALVED = 3_000_000
  SLOW = "1mbit"

  # What was broken is whole again for the next test: a host without power, an agent that hangs, a link that is slow.
  def teardown
    super
    return unless passed?

    start_again(@victim) if @victim
    @testbed.fault("slow-link", "host1", "none")
  end

  def start_again(host)
    @testbed.fault("start-host", host)
    @testbed.run(host, "pkill", "-KILL", "-x", "rakuda-agent", chdir: "/")
    wait_for("what ran on #{host} to end") { @testbed.run(host, "pgrep", "-x", "rakuda-(agent|guard)", chdir: "/").out.empty? }
  end

  def test_what_a_daemon_makes_of_a_target_while_the_run_is_stopped_is_put_away_on_its_node
    write("hosts", "host1 2\n")
    printed, status = during(SlowWriters.rakefile(SlowWriters::OF_COMMANDS.fetch(:daemon))) do |pid|
      wait_for("the target to grow") { files_on("host1").include?("out") }
      Process.kill(:TERM, pid)
    end
    assert_equal 143, status.exitstatus, printed
    assert_equal ["out._fail_"], files_on("host1").grep(/out/)
  end

  # Both run at the same time, so each host makes one.
  PARTS = <<~'RUBY'
    notes = ENV.fetch("NOTES")
    2.times do |number|
      file "part#{number}" => "in/#{number}" do |t|
        sh "echo #{t.name} $(hostname) >> #{notes}/log; until test $(wc -l < #{notes}/log) -ge 2; do sleep 0.05; done; cp #{t.source} #{t.name}"
      end
    end
  RUBY

  def test_what_was_brought_nowhere_is_made_again_after_the_loss_of_its_node
    contents = inputs(2, 1000)
    write("hosts", "host1 1\nhost2 1\n")
    rakefile = PARTS + <<~'RUBY'
      desc "steal=no"
      file("gate" => "part0") { sh "hostname > #{notes}/gate; until test -e #{notes}/go; do sleep 0.05; done; date > gate" }
      file("result" => %w[part0 part1 gate]) { sh "cat part0 part1 | sha256sum > result" }
      task default: "result"
    RUBY
    printed, status = losing_the_maker_of("part1", rakefile)
    assert status.success?, printed
    assert_equal digest(*contents.values), read("result")
    assert_equal 2, notes.count { |part,| part == "part1" }, printed
  end

  # The gate is where part0 was made; part1 is on the other host only. (That it may stand behind a task that only names
  # it is tested in crates/core/tests/apart.rs.)
  APART = PARTS + <<~'RUBY'
    desc "steal=no"
    file("gate" => %w[part0 in/0]) { sh "hostname > #{notes}/gate; until test -e #{notes}/go; do sleep 0.05; done; date > gate" }
    desc "steal=no"
    file("result" => %w[gate part0 part1]) { sh "cat part0 part1 | sha256sum > result" }
    task default: "result"
  RUBY

  # The agent hangs, and the file is gone: the transfer fails at once, and the loss is noticed after that.
  def test_a_file_that_is_not_brought_uses_up_no_retry_when_its_node_is_lost_later
    contents = inputs(2, 1000)
    write("hosts", "host1 1\nhost2 1\n")
    printed, status = during(APART, "HEARTBEAT=8", "--retry", "0", "NOTES=#{@notes}") do
      wait_for("the gate") { !notes("gate").empty? }
      wait_until_done("part1")
      @victim = notes.to_h.fetch("part1")
      @testbed.run!(@victim, "sh", "-c", "pkill -STOP -x rakuda-agent && rm /tmp/rakuda-0/files/*/part1", chdir: "/tmp")
      File.write(File.join(@notes, "go"), "")
    end
    assert status.success?, printed
    assert_equal digest(*contents.values), read("result")
    assert_equal 2, notes.count { |part,| part == "part1" }, printed
  end

  def test_secondary_files_are_lost_and_made_again_with_their_target
    inputs(2, 1000)
    write("hosts", "host1 1\nhost2 1\n")
    rakefile = <<~'RUBY'
      notes = ENV.fetch("NOTES")
      2.times do |number|
        file "part#{number}.x" => "in/#{number}" do |t|
          sh "echo #{t.name} $(hostname) >> #{notes}/log; until test $(wc -l < #{notes}/log) -ge 2; do sleep 0.05; done; " \
             "cp #{t.source} #{t.name}; rev #{t.source} > part#{number}_rev.x"
        end
      end
      desc "steal=no"
      file("gate" => "part0.x") { sh "hostname > #{notes}/gate; until test -e #{notes}/go; do sleep 0.05; done; date > gate" }
      # Ruby code has part1.x brought here, alone: that does not count as a place of it.
      file "result" => %w[part0.x part1.x gate] do
        sh "cat part0_rev.x part1_rev.x > result"
      end
      file("look" => "part1.x") { |t| File.write(t.name, File.read("part1.x")) }
      file("gate" => "look")
      task default: "result"
    RUBY
    printed, status = losing_the_maker_of("part1.x", rakefile)
    assert status.success?, printed
    assert_equal %w[0 1].map { |number| read("in/#{number}").reverse }.join, read("result")
    assert_equal 2, notes.count { |part,| part == "part1.x" }, printed
  end

  def test_a_transfer_that_breaks_off_is_begun_anew_and_never_taken_half
    contents = inputs(1, HALVED)
    write("hosts", "host1 1\n")
    slow_down(SLOW)
    broken = false
    printed, status = during("file('made' => 'in/0') { sh 'sha256sum < in/0 > made' }\ntask default: 'made'") do
      wait_for("half a file") { files_on("host1").any? { |path| path.include?(".rakuda-part") } }
      refute_includes files_on("host1"), "in/0"
      @testbed.run!("host1", "pkill", "-KILL", "-x", "rakuda-files", chdir: "/tmp")
      broken = true
      @testbed.fault("slow-link", "host1", "none")
    end
    assert broken
    assert status.success?, printed
    assert_equal digest(contents["in/0"]), read("made")
    assert_equal([["in/0", "home", "host1"]], transfers.select { |file,| file == "in/0" })
  end

  def test_after_a_killed_run_no_half_file_counts
    contents = inputs(1, HALVED)
    write("hosts", "host1 1\n")
    rakefile = "file('made' => 'in/0') { sh 'sha256sum < in/0 > made' }\ntask default: 'made'"
    slow_down(SLOW)
    during(rakefile) do
      wait_for("half a file") { files_on("host1").any? { |path| path.include?(".rakuda-part") } }
      @testbed.run!("head", "pkill", "-KILL", "-x", "rakudad", chdir: "/tmp")
    end
    refute_includes files_on("host1"), "in/0"
    @testbed.fault("slow-link", "host1", "none")
    again = rakuda(rakefile)
    assert_equal 0, again.status, again.err
    assert_equal digest(contents["in/0"]), read("made")
  end

  private

  # Runs it; while its gate waits, the host dies that has made `part`.
  def losing_the_maker_of(part, rakefile)
    during(rakefile, "HEARTBEAT=8", "NOTES=#{@notes}") do
      wait_for("the gate") { !notes("gate").empty? }
      wait_until_done(part)
      @victim = notes.to_h.fetch(part)
      @testbed.fault("kill-host", @victim)
      File.write(File.join(@notes, "go"), "")
    end
  end
end
