# frozen_string_literal: true

require "minitest/autorun"
require_relative "../staging_case"

# Streams over spools on hosts that share nothing: all members run on one host, which keeps the spools, and all run
# again on another one when it is lost.
class StagedSpooledStreamsTest < ClusterStagingCase
  RAKEFILE = <<~'RUBY'
    notes = ENV.fetch("NOTES")
    stream :s, from: %w[w1 w2], to: "sum", replay: :journal
    %w[w1 w2].each { |w| task(w) { sh "echo #{w} $(hostname) >> #{notes}/log; seq -f '#{w} %.0f' 100000" } }
    file "sum" do |t|
      sh "echo sum $(hostname) >> #{notes}/log; until test -e #{notes}/go; do sleep 0.05; done; cat > #{t.name}"
    end
    task default: "sum"
  RUBY
  ALL = %w[w1 w2].flat_map { |writer| (1..100_000).map { |number| "#{writer} #{number}\n" } }.join.freeze

  # The same whose reader needs a file of head besides, and passes both on.
  BROUGHT = RAKEFILE.sub('file "sum" do', 'file "sum" => "in/0" do')
                    .sub("cat > \#{t.name}", "cat - in/0 > \#{t.name}; echo sum >> \#{notes}/over").freeze
  # On its way long enough to be seen half, on a link that carries this.
  BYTES = 3_000_000
  SLOW = "1mbit"

  def test_the_host_of_all_members_keeps_what_they_have_written_until_it_is_lost
    write("hosts", "host1 1\nhost2 1\n")
    lost = nil
    printed, status = during(RAKEFILE, "HEARTBEAT=8", "NOTES=#{@notes}") do
      wait_for("the reader to run") { ran.include?("sum") }
      assert_equal 1, notes.map(&:last).uniq.size, notes.inspect
      lost = notes.last.last
      @testbed.run!(lost, "pkill", "-KILL", "-x", "rakuda-agent", chdir: "/")
      wait_for("it to run again", -> { notes.inspect }) { ran.count("sum") == 2 }
      File.write(File.join(@notes, "go"), "")
    end
    assert_made("", printed, status)
    assert_includes printed, "node #{lost} was lost"
    before, after = notes.partition { |_, host| host == lost }
    assert_equal %w[sum w1 w2], before.map(&:first).sort
    assert_equal %w[sum w1 w2], after.map(&:first).sort
  end

  # Twice the process for data dies with a file half brought: to the reader, and what it has made back to head.
  def test_a_data_process_that_is_killed_takes_no_spool_along_and_no_half_file_counts
    write("hosts", "host1 1\n")
    content = inputs(1, BYTES).fetch("in/0")
    slow_down(SLOW)
    printed, status = during(BROUGHT, "NOTES=#{@notes}") do
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

  def test_a_data_process_that_stands_still_loses_nothing
    write("hosts", "host1 1\n")
    content = inputs(1, BYTES).fetch("in/0")
    printed, status = during(BROUGHT, "NOTES=#{@notes}") do
      wait_for("the reader to run") { ran.include?("sum") }
      signal("host1", "STOP", "rakuda-files")
      File.write(File.join(@notes, "go"), "")
      wait_for("the reader to end") { notes("over").any? }
      signal("host1", "CONT", "rakuda-files")
    end
    assert_made(content, printed, status)
    assert_equal %w[sum w1 w2], ran.sort, printed
  end

  # All members are behind it, with their spools.
  def test_a_leader_that_is_killed_has_all_members_run_again_on_one_host
    write("hosts.toml", "[[group]]\nname = \"far\"\nleader = \"host1\"\nhosts = [\"host1 1\", \"host2 1\"]\n")
    content = inputs(1, 1000).fetch("in/0")
    printed, status = during(BROUGHT, "NOTES=#{@notes}", hosts: "hosts.toml") do
      wait_for("the reader to run") { ran.include?("sum") }
      signal("host1", "KILL", "rakuda-leader")
      wait_for("it to run again", -> { notes.inspect }) { ran.count("sum") == 2 }
      File.write(File.join(@notes, "go"), "")
    end
    assert_made(content, printed, status)
    assert_equal %w[sum sum w1 w1 w2 w2], ran.sort, printed
    [notes.first(3), notes.last(3)].each { |attempt| assert_equal 1, attempt.map(&:last).uniq.size, notes.inspect }
  end

  # The reader has ended when the line is there again, for less than anybody waits.
  def test_a_line_that_is_cut_for_a_moment_loses_nothing
    write("hosts", "host1 1\n")
    content = inputs(1, 1000).fetch("in/0")
    printed, status = during(BROUGHT, "HEARTBEAT=60", "NOTES=#{@notes}") do
      wait_for("the reader to run") { ran.include?("sum") }
      @testbed.fault("cut-link", "host1")
      File.write(File.join(@notes, "go"), "")
      wait_for("the reader to end") { notes("over").any? }
      @testbed.fault("mend-link", "host1")
    end
    assert_made(content, printed, status)
    assert_equal %w[sum w1 w2], ran.sort, printed
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
