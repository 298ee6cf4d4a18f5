# frozen_string_literal: true

require "minitest/autorun"
require "support/near_hosts"

# Nodes that are lost while a run goes on: what they ran is run again, and they are used again. The "hosts" are on this
# machine; a task kills the agent that has started it.
class NodesTest < Minitest::Test
  include NearHosts

  RAKEFILE = <<~'RUBY'
    file "made" do |t|
      sh "echo begun >> $NEAR_HOSTS/begun; test -e $NEAR_HOSTS/lost || { touch $NEAR_HOSTS/lost; kill -9 $PPID; sleep 600; }; echo it > #{t.name}", verbose: false
    end
    task default: "made"
  RUBY

  def test_a_node_that_was_lost_comes_back_and_runs_its_task_again
    near_hosts do |run|
      run.write("hosts", "host1 1\n")
      result = run.rakuda(RAKEFILE)
      assert_equal 0, result.status, result.err
      assert_match(/node host1 was lost \(.*\): 1 task runs again elsewhere/, result.err)
      assert_match(/node host1 is back/, result.err)
      assert_equal "it\n", run.read("made")
      assert_equal "begun\nbegun\n", File.read(File.join(run.base, "begun"))
      of_nodes = run.events.map { |event| event["event"] }.grep(/\Anode_/)
      assert_equal %w[node_joined node_lost node_joined], of_nodes.last(3)
    end
  end
end
