# frozen_string_literal: true

# `rakudactl sync` over hosts that share no folder of the run: the program is brought to them, and where it is missing
# on one of them the run says on which; more workers than all hosts have slots are refused.

require "json"
require "minitest/autorun"
require "support/near_hosts"

class SyncStagingTest < Minitest::Test
  include NearHosts

  # Absolute, and below the folder of whoever executes it: so it can be on one of two hosts on this machine.
  ELSEWHERE = "/proc/self/cwd/only"

  def test_the_program_is_brought_to_all_hosts_and_one_that_lacks_it_is_named
    near_hosts do |run|
      run.write("command", "#!/bin/sh\necho \"$1 $PWD\" > \"$NEAR_HOSTS/said.$1\"\n")
      run.make_executable("command")
      run.write("conf.rb", "WORKER_COUNT = 2\nTASK_FILE = \"command\"\nARGUMENTS = \"%w\"\n")
      staged = run.rakudactl("sync", "--no-overhead", "--json", "conf.rb")
      assert_equal 0, staged.status, staged.err
      assert_equal [0, nil], JSON.parse(staged.out)["rounds"].first.values_at("failed", "fault")
      folders = %w[host1 host2].map { |host| run.folder(host) }
      assert_equal ["0 #{folders[0]}\n", "1 #{folders[1]}\n"], run.said

      FileUtils.cp(File.join(folders[0], "command"), File.join(folders[0], "only"))
      run.forget
      run.write("conf.rb", "WORKER_COUNT = 2\nTASK_FILE = \"#{ELSEWHERE}\"\nARGUMENTS = \"%w\"\n")
      lacking = run.rakudactl("sync", "--no-overhead", "conf.rb")
      assert_equal 1, lacking.status, lacking.out
      why = "round 0 did not begin: the command of worker 1 on node host2 was over before all workers were ready: " \
            "start \"#{ELSEWHERE}\": No such file or directory"
      assert_includes lacking.err, why
      assert_empty run.said, "the worker that had its program has not begun"

      run.write("conf.rb", "WORKER_COUNT = 3\nTASK_FILE = \"true\"\n")
      many = run.rakudactl("sync", "conf.rb")
      assert_equal 1, many.status, many.out
      assert_match(/^conf\.rb:1: WORKER_COUNT: 3 workers[^\n]* and need 3 slots, and the nodes of this run have 2: /, many.err)
    end
  end
end
