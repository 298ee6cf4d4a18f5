# frozen_string_literal: true

require "json"
require "minitest/autorun"
require_relative "../gfarm_case"

# Synchronised rounds of a program that lies in Gfarm, as the paper of 2016 has it (4.4): named by a relative path,
# started on all hosts.
class ClusterGfarmSyncTest < ClusterGfarmCase
  CONFIGURATION = <<~'RUBY'
    WORKER_COUNT = 3
    TASK_FILE = "./command"
    PARAMETER_ARRAY = ["4k", "8k"]
    ARGUMENTS = "-i %w"
  RUBY

  def test_a_program_in_gfarm_runs_on_all_hosts_at_once
    write("command", "#!/bin/sh\necho \"$(hostname) $*\" > said.$RAKUDA_ROUND.$RAKUDA_WORKER\n")
    write("conf.rb", CONFIGURATION)
    @testbed.run!("head", "chmod", "+x", "command", chdir: @folder)
    result = @testbed.run("head", RAKUDACTL, "sync", "--json", "conf.rb", "--", "-F", "#{@shared}/hosts", chdir: @folder)
    assert_equal 0, result.status, result.err
    rounds = JSON.parse(result.out)["rounds"]
    expected = %w[4k 8k].map { |size| [size, "script", 3, nil] }
    assert_equal expected, (rounds.map { |it| it.values_at("parameter", "gate", "workers", "fault") })
    rounds.each { |round| assert_operator round["clock_bound_s"], :>, 0 }
    said = [0, 1].product([0, 1, 2]).map { |round, worker| read("said.#{round}.#{worker}").chomp }
    assert_equal %w[4k 8k].flat_map { |size| 3.times.map { |worker| "host#{worker + 1} -i #{worker} #{size}" } }, said
  end
end
