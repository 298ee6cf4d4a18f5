# frozen_string_literal: true

require "minitest/autorun"
require_relative "staging_case"

# Hosts that share no file system, and things that die: what was on a lost node is made again, and what did not come whole
# does not count.
class ClusterStagingFaultsTest < ClusterStagingCase
  # Both run at the same time, so each host makes one.
  PARTS = <<~'RUBY'
    notes = ENV.fetch("NOTES")
    2.times do |number|
      file "part#{number}" => "in/#{number}" do |t|
        sh "echo #{t.name} $(hostname) >> #{notes}/log; until test $(wc -l < #{notes}/log) -ge 2; do sleep 0.05; done; cp #{t.source} #{t.name}"
      end
    end
  RUBY

  def test_what_only_a_lost_node_had_is_made_again
    contents = inputs(2, 1000)
    write("hosts", "host1 1\nhost2 1\n")
    rakefile = PARTS + <<~'RUBY'
      file("gate" => %w[part0 part1]) { sh "hostname > #{notes}/gate; until test -e #{notes}/go; do sleep 0.05; done; date > gate" }
      file("result" => %w[part0 part1 gate]) { sh "cat part0 part1 | sha256sum > result" }
      task default: "result"
    RUBY
    printed, status = during(rakefile, "HEARTBEAT=2", "NOTES=#{@notes}") do
      wait_for("the gate") { !notes("gate").empty? }
      victim = (%w[host1 host2] - notes("gate").flatten).first
      @testbed.fault("kill-host", victim)
      File.write(File.join(@notes, "go"), "")
    end
    assert status.success?, printed
    assert_equal digest(*contents.values), read("result")
    assert_equal 2, notes.size, "a copy is as good as what was made: nothing had to be made again"
  ensure
    Testbed.spoilt
  end

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
  ensure
    Testbed.spoilt
  end

  # The gate is where part0 was made; part1 is on the other host only. VIA stands for it among the prerequisites of the result.
  APART = PARTS + <<~'RUBY'
    task parts: "part1"
    desc "steal=no"
    file("gate" => %w[part0 in/0]) { sh "hostname > #{notes}/gate; until test -e #{notes}/go; do sleep 0.05; done; date > gate" }
    desc "steal=no"
    file("result" => %w[gate part0 VIA]) { sh "cat part0 part1 | sha256sum > result" }
    task default: "result"
  RUBY

  def test_a_file_that_is_not_brought_uses_up_no_retry_when_its_node_is_lost_later
    assert_made_again_after_a_late_loss(APART.sub("VIA", "part1"))
  end

  def test_the_same_of_a_file_behind_a_task_that_only_names_it
    assert_made_again_after_a_late_loss(APART.sub("VIA", "parts"))
  end

  def test_companions_are_lost_and_made_again_with_their_target
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
  ensure
    Testbed.spoilt
  end

  def test_a_transfer_that_breaks_off_is_begun_anew_and_never_taken_half
    contents = inputs(1, 8_000_000)
    write("hosts", "host1 1\n")
    @testbed.fault("slow-link", "host1", "20mbit")
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
  ensure
    Testbed.spoilt
  end

  def test_after_a_killed_run_no_half_file_counts
    contents = inputs(1, 8_000_000)
    write("hosts", "host1 1\n")
    rakefile = "file('made' => 'in/0') { sh 'sha256sum < in/0 > made' }\ntask default: 'made'"
    @testbed.fault("slow-link", "host1", "20mbit")
    during(rakefile) do
      wait_for("half a file") { files_on("host1").any? { |path| path.include?(".rakuda-part") } }
      @testbed.run!("head", "pkill", "-KILL", "-x", "rakudad", chdir: "/tmp")
    end
    refute_includes files_on("host1"), "in/0"
    @testbed.fault("slow-link", "host1", "none")
    again = rakuda(rakefile)
    assert_equal 0, again.status, again.err
    assert_equal digest(contents["in/0"]), read("made")
  ensure
    Testbed.spoilt
  end

  def test_what_someone_else_has_removed_from_a_node_is_named
    write("hosts", "host1 1\nhost2 1\n")
    result = rakuda(<<~'RUBY')
      require "rake"
      task default: "second"
      desc "allow=host1"
      file("first") { sh "echo 1 > first" }
      desc "allow=host1"
      file("gone" => "first") { sh "rm first; echo 2 > gone" }
      desc "allow=host2"
      file("second" => %w[first gone]) { sh "cat first gone > second" }
    RUBY
    assert_equal 1, result.status
    assert_match(/cannot bring first from node host1 to node host2: failed to open .+first: No such file/, result.err)
  end

  private

  # Runs it; while its gate waits, the host dies that has made `part`.
  def losing_the_maker_of(part, rakefile)
    during(rakefile, "HEARTBEAT=2", "NOTES=#{@notes}") do
      wait_for("the gate") { !notes("gate").empty? }
      @testbed.fault("kill-host", notes.to_h.fetch(part))
      File.write(File.join(@notes, "go"), "")
    end
  end

  # The agent hangs, and the file is gone: the transfer fails at once, and the loss is noticed after that.
  def assert_made_again_after_a_late_loss(rakefile)
    contents = inputs(2, 1000)
    write("hosts", "host1 1\nhost2 1\n")
    printed, status = during(rakefile, "HEARTBEAT=5", "--retry", "0", "NOTES=#{@notes}") do
      wait_for("the gate") { !notes("gate").empty? }
      victim = notes.to_h.fetch("part1")
      @testbed.run!(victim, "sh", "-c", "pkill -STOP -x rakuda-agent && rm /tmp/rakuda-0/files/*/part1", chdir: "/tmp")
      File.write(File.join(@notes, "go"), "")
    end
    assert status.success?, printed
    assert_equal digest(*contents.values), read("result")
    assert_equal 2, notes.count { |part,| part == "part1" }, printed
  ensure
    Testbed.spoilt
  end
end
