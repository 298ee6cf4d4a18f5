# frozen_string_literal: true

require "minitest/autorun"
require "support/near_hosts"
require "support/waiting"

# Nodes that are lost while a run goes on: what they ran is run again, and they are used again. The "hosts" are on this
# machine; a task kills the agent that has started it. And what a node is called that is this machine once more.
class NodesTest < Minitest::Test
  include NearHosts
  include Waiting

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

  def test_a_node_that_joins_from_the_machine_of_the_run_has_a_name_of_its_own
    Dir.mktmpdir("rakuda") do |folder|
      File.write("#{folder}/Rakefile", %(task(:default) { sh "until test -e go; do sleep 0.05; done" }\n))
      options = { chdir: folder, in: File::NULL, out: File::NULL, err: %W[#{folder}/said a] }
      run = Process.spawn(Engines::REAL, RAKUDA, "-q", "--joinable", options)
      wait_for("the invitation", -> { File.read("#{folder}/said") }) { Dir["#{folder}/.rakuda/join/*"].any? }
      join = Process.spawn(Engines::REAL, RAKUDACTL, "join", options)
      wait_for("a node to join", -> { File.read("#{folder}/said") }) { joined(folder).size == 2 }
      FileUtils.touch("#{folder}/go")
      assert_equal [0, 0], [run, join].map { |pid| Process.wait2(pid).last.exitstatus }, File.read("#{folder}/said")
      own, other = joined(folder)
      assert_equal "#{own}-2", other
    end
  end

  private

  # Names of nodes, as the journal has them so far.
  def joined(folder)
    File.read(Dir["#{folder}/.rakuda/runs/*/journal.jsonl"].first).scan(/"event":"node_joined".*?"name":"(.+?)"/).flatten
  end
end
