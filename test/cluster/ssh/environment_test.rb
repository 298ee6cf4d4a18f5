# frozen_string_literal: true

require "minitest/autorun"
require_relative "../hosts_case"

# Environments of tasks (`needs env:`) on hosts: commands there run inside, hosts that share a home share what is made
# once, and what cannot be had says where. With Python's own venv and Debian's environment-modules.
class ClusterEnvironmentTest < ClusterHostsCase
  RAKEFILE = <<~'RUBY'
    made = %w[host1 host2].flat_map do |host|
      needs allow: host, env: { venv: "requirements.txt" }
      file("venv.#{host}") { |t| sh %(python3 -c 'import os, sys; print(os.uname().nodename, sys.prefix)' > #{t.name}) }
      needs allow: host, env: { module: "camel/2" }
      file("module.#{host}") { |t| sh "echo $(uname -n) $CAMEL > #{t.name}" }
      ["venv.#{host}", "module.#{host}"]
    end
    task default: made
    needs allow: "host2", env: { module: "none/1" }
    task(:lacking) { sh "touch never" }
  RUBY

  def setup
    super
    write("requirements.txt", "# nothing but Python itself\n")
    FileUtils.mkdir_p(File.join(@folder, "modulefiles/camel"))
    write("modulefiles/camel/2", "#%Module\nsetenv CAMEL dromedary\n")
  end

  def test_commands_on_hosts_run_inside_what_is_made_there_once_and_what_a_host_lacks_is_named
    result = inside
    assert_equal [0, ""], [result.status, result.err]
    %w[host1 host2].each { |host| assert_equal "#{host} dromedary\n", read("module.#{host}") }
    prefixes = %w[host1 host2].map { |host| read("venv.#{host}").delete_prefix("#{host} ").chomp }
    assert_match(%r{/rakuda/env/venv-\h{16}-[\w.]+\z}, prefixes[0])
    assert_equal prefixes[0], prefixes[1]
    stamp = made_at(prefixes[0])
    File.delete(File.join(@folder, "venv.host2"))
    assert_equal 0, inside.status
    assert_equal stamp, made_at(prefixes[0]), "it is not made again"
    lacking = inside("lacking")
    assert_equal 1, lacking.status
    assert_match(%r{needs env: module none/1: module load none/1 failed, on host2}, lacking.err)
    assert_empty names("never")
  end

  private

  def inside(*words)
    paths = { "MODULEPATH" => File.join(@folder, "modulefiles") }
    rakuda(RAKEFILE, "-q", "PASS_ENV=MODULEPATH", *words, environment: paths)
  end

  def made_at(prefix) = @testbed.run!("host1", "stat", "-c", "%y", "#{prefix}/.rakuda-made")
end
