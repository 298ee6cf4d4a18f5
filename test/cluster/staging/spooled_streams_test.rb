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

  # Files of spools that a process of a host has open.
  def left
    %w[host1 host2].to_h do |host|
      script = "find /proc/[0-9]*/fd -lname '/var/tmp/rakuda-*' 2> /dev/null; true"
      [host, @testbed.run!(host, "sh", "-c", script, chdir: "/")]
    end
  end

  def test_the_host_of_all_members_keeps_what_they_have_written_until_it_is_lost
    write("hosts", "host1 1\nhost2 1\n")
    lost = nil
    printed, status = during(RAKEFILE, "HEARTBEAT=8", "NOTES=#{@notes}") do
      wait_for("the reader to run") { notes.map(&:first).include?("sum") }
      assert_equal 1, notes.map(&:last).uniq.size, notes.inspect
      lost = notes.last.last
      @testbed.run!(lost, "pkill", "-KILL", "-x", "rakuda-agent", chdir: "/")
      wait_for("it to run again", -> { notes.inspect }) { notes.map(&:first).count("sum") == 2 }
      File.write(File.join(@notes, "go"), "")
    end
    assert_equal 0, status.exitstatus, printed
    assert_includes printed, "node #{lost} was lost"
    assert_equal ALL, read("sum")
    before, after = notes.partition { |_, host| host == lost }
    assert_equal %w[sum w1 w2], before.map(&:first).sort
    assert_equal %w[sum w1 w2], after.map(&:first).sort
    nothing = { "host1" => "", "host2" => "" }
    wait_for("nothing to be left", -> { left.inspect }) { left == nothing }
  end
end
