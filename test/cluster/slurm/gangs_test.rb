# frozen_string_literal: true

require "minitest/autorun"
require_relative "../hosts_case"

# A task that has several nodes of an allocation of Slurm.
class ClusterSlurmGangsTest < ClusterHostsCase
  def testbed_settings = { HOSTS: 3, GFARM: 0, SLURM: 1 }

  def test_a_command_of_the_task_reaches_all_of_its_nodes_through_slurm
    write("Rakefile", <<~'RUBY')
      needs nodes: 2, cores: 2
      task(:default) { sh "srun --overlap -w $RAKUDA_NODES -N2 -n2 hostname; cat $RAKUDA_HOSTFILE" }
    RUBY
    result = @testbed.run("head", "salloc", "-Q", "-N2", "-c2", "-t30", RAKUDA, "-q", chdir: @folder)
    assert_equal 0, result.status, result.err
    hosts = result.lines.first(2).sort
    assert_equal hosts.map { |host| "#{host} slots=2" }, result.lines.drop(2).sort
  end
end
