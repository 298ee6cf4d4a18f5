# frozen_string_literal: true

require "minitest/autorun"
require_relative "../staging_case"

# Streams over spools on hosts that share nothing: all members run on one host, which keeps the spools, and all run
# again on one when it is lost. Lines and agents that stop are struck in ../slurm/stream_faults_test.rb.
class StagedSpooledStreamsTest < ClusterStagingCase
  # The reader needs a file of head besides, and passes both on.
  RAKEFILE = <<~'RUBY'
    notes = ENV.fetch("NOTES")
    stream :s, from: %w[w1 w2], to: "sum", replay: :journal
    %w[w1 w2].each { |w| task(w) { sh "echo #{w} $(hostname) >> #{notes}/log; seq -f '#{w} %.0f' 100000" } }
    file "sum" => "in/0" do |t|
      sh "echo sum $(hostname) >> #{notes}/log; until test -e #{notes}/go; do sleep 0.05; done; cat - in/0 > #{t.name}"
    end
    task default: "sum"
  RUBY
  ALL = %w[w1 w2].flat_map { |writer| (1..100_000).map { |number| "#{writer} #{number}\n" } }.join.freeze
  # On its way long enough to be seen half, on a link that carries this.
  BYTES = 3_000_000
  SLOW = "1mbit"

  # Twice the process for data dies with a file half brought: to the reader, and what it has made back to head.
  def test_a_data_process_that_is_killed_takes_no_spool_along_and_no_half_file_counts
    write("hosts", "host1 1\n")
    content = inputs(1, BYTES).fetch("in/0")
    slow_down(SLOW)
    printed, status = during(RAKEFILE, "NOTES=#{@notes}") do
      kill_data_process { wait_for("half a file") { files_on("host1").any? { |path| path.include?(".rakuda-part") } } }
      wait_for("the reader to run") { ran.include?("sum") }
      @testbed.fault("slow-link", "host1", SLOW)
      kill_data_process do
        File.write(File.join(@notes, "go"), "")
        wait_for("half a target") { !@testbed.run("head", "find", ".", "-name", ".rakuda-part-*", chdir: @folder).out.empty? }
      end
    end
    assert_made(content, printed, status)
    assert_equal %w[sum w1 w2], ran.sort, printed
  end

  # All members are behind it, with their spools.
  def test_a_leader_that_is_killed_has_all_members_run_again_on_one_host
    write("hosts.toml", "[[group]]\nname = \"far\"\nleader = \"host1\"\nhosts = [\"host1 1\", \"host2 1\"]\n")
    content = inputs(1, 1000).fetch("in/0")
    printed, status = during(RAKEFILE, "NOTES=#{@notes}", hosts: "hosts.toml") do
      wait_for("the reader to run") { ran.include?("sum") }
      signal("host1", "KILL", "rakuda-leader")
      wait_for("it to run again", -> { notes.inspect }) { ran.count("sum") == 2 }
      File.write(File.join(@notes, "go"), "")
    end
    assert_made(content, printed, status)
    assert_equal %w[sum sum w1 w1 w2 w2], ran.sort, printed
    [notes.first(3), notes.last(3)].each { |attempt| assert_equal 1, attempt.map(&:last).uniq.size, notes.inspect }
  end

  private

  # What both writers print, one after the other, and what the reader adds.
  def assert_made(added, printed, status)
    assert_equal 0, status.exitstatus, printed
    assert_equal ALL + added, read("sum")
    nothing = { "host1" => "", "host2" => "" }
    wait_for("nothing to be left", -> { left.inspect }) { left == nothing }
  end

  # Files of spools that a process of a host has open.
  def left
    %w[host1 host2].to_h do |host|
      script = "find /proc/[0-9]*/fd -lname '/var/tmp/rakuda-*' 2> /dev/null; true"
      [host, @testbed.run!(host, "sh", "-c", script, chdir: "/")]
    end
  end

  def ran = notes.map(&:first)

  def signal(host, signal, name)
    @testbed.run!(host, "pkill", "-#{signal}", "-x", name, chdir: "/")
  end

  # When the block has ended; then the link is what it was.
  def kill_data_process
    yield
    signal("host1", "KILL", "rakuda-files")
  ensure
    @testbed.fault("slow-link", "host1", "none")
  end
end
