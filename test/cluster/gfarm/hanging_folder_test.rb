# frozen_string_literal: true

require "minitest/autorun"
require_relative "../gfarm_case"

# The file system hangs for a while, on the hub's machine or on a node: what runs elsewhere goes on, and nothing is
# lost.
class ClusterHangingFolderTest < ClusterGfarmCase
  RAKEFILE = <<~'RUBY'
    shared = ENV.fetch("SHARED")
    %w[first second third].each do |name|
      file(name) { sh "touch #{shared}/begun.#{name}; until test -e #{shared}/go.#{name}; do sleep 0.05; done; hostname > #{name}" }
    end
    task default: %w[first second third]
  RUBY
  # Longer than a silence may be, and than it takes to be seen after that; less than files are waited for
  # (VISIBLE_WITHIN).
  HANGS = 20
  PATIENCE = %w[HEARTBEAT=14 VISIBLE_WITHIN=120].freeze

  def test_no_node_is_lost_while_the_hub_waits_for_its_folder
    printed, status = running(RAKEFILE, *PATIENCE) do |so_far|
      wait_for("all tasks", so_far) { Dir["#{@shared}/begun.*"].size == 3 }
      hanging("head") do
        # The hub notes its end, in the folder that hangs.
        FileUtils.touch("#{@shared}/go.first")
        sleep HANGS
      end
      %w[second third].each { |name| FileUtils.touch("#{@shared}/go.#{name}") }
    end
    assert status.success?, printed
    refute_includes printed, "was lost"
    assert_equal %W[host1\n host2\n host3\n], %w[first second third].map { |name| read(name) }.sort
  end

  ONE_AFTER_THE_OTHER = <<~'RUBY'
    shared = ENV.fetch("SHARED")
    desc "allow=host2"
    task(:first) { sh "touch #{shared}/begun; until test -e #{shared}/go; do sleep 0.05; done" }
    desc "allow=host1"
    file("second" => "first") { sh "hostname", out: "second" }
    task default: "second"
  RUBY

  def test_a_node_whose_folder_hangs_when_it_opens_the_output_of_a_command_is_not_lost
    printed, status = running(ONE_AFTER_THE_OTHER, *PATIENCE) do |so_far|
      wait_for("the first task", so_far) { File.exist?("#{@shared}/begun") }
      hanging("host1") do
        go
        sleep HANGS
      end
    end
    assert status.success?, printed
    refute_includes printed, "was lost"
    assert_equal "host1\n", read("second")
  end

  def test_a_run_on_a_node_that_hangs_can_be_stopped
    printed, status = hanging_for(ONE_AFTER_THE_OTHER) do |so_far, hang|
      wait_for("the first task", so_far) { File.exist?("#{@shared}/begun") }
      hang.call
      go
      wait_for("its agent to wait for the folder", so_far) { waits_for_the_folder?("host1") }
      @testbed.run!("head", "pkill", "-INT", "-x", "ruby", chdir: "/")
    end
    assert_equal 130, status.exitstatus, printed
    wait_for("the end of what ran there") { @testbed.run("host1", "pgrep", "-x", "rakuda-(agent|guard)").out.empty? }
  end

  private

  # A thread of its agent is in the kernel's part of FUSE, which waits for an answer of the folder's file server.
  def waits_for_the_folder?(host)
    waits = @testbed.run(host, "sh", "-c", "cat /proc/$(pgrep -x rakuda-agent)/task/*/wchan", chdir: "/").out
    waits.match?(/request_wait_answer|fuse/)
  end

  # The folder hangs until the run is over.
  def hanging_for(rakefile)
    stopped = false
    hang = lambda do
      stopped = true
      @testbed.run!("host1", "pkill", "-STOP", "-x", "gfarm2fs", chdir: "/")
    end
    running(rakefile, "HEARTBEAT=8") { |so_far| yield so_far, hang }
  ensure
    @testbed.run!("host1", "pkill", "-CONT", "-x", "gfarm2fs", chdir: "/") if stopped
  end

  def hanging(host)
    @testbed.run!(host, "pkill", "-STOP", "-x", "gfarm2fs", chdir: "/")
    yield
  ensure
    @testbed.run!(host, "pkill", "-CONT", "-x", "gfarm2fs", chdir: "/")
  end
end
