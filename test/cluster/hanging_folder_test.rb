# frozen_string_literal: true

require "minitest/autorun"
require_relative "gfarm_case"

# The file system of the hub's machine hangs for a while: what runs elsewhere goes on.
class ClusterHangingFolderTest < ClusterGfarmCase
  RAKEFILE = <<~'RUBY'
    shared = ENV.fetch("SHARED")
    %w[first second third].each do |name|
      file(name) { sh "touch #{shared}/begun.#{name}; until test -e #{shared}/go.#{name}; do sleep 0.05; done; hostname > #{name}" }
    end
    task default: %w[first second third]
  RUBY
  # Several times as long as a silence may be.
  HANGS = 5

  def test_no_node_is_lost_while_the_hub_waits_for_its_folder
    printed, status = running(RAKEFILE, "HEARTBEAT=1") do |so_far|
      wait_for("all tasks", so_far) { Dir["#{@shared}/begun.*"].size == 3 }
      hanging do
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

  private

  def hanging
    @testbed.run!("head", "pkill", "-STOP", "-x", "gfarm2fs", chdir: "/")
    yield
  ensure
    @testbed.run!("head", "pkill", "-CONT", "-x", "gfarm2fs", chdir: "/")
  end
end
