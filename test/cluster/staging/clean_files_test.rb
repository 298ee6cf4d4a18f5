# frozen_string_literal: true

require "minitest/autorun"
require_relative "../staging_case"

# The work folders that runs without a shared file system leave on hosts.
class ClusterCleanFilesTest < ClusterStagingCase
  RAKUDACTL = File.expand_path("../../../bin/rakudactl", __dir__)
  RAKEFILE = <<~'RUBY'
    task default: "sum"
    file("half" => "in/0") { sh "until test -e #{ENV.fetch('NOTES')}/go; do sleep 0.05; done; cat in/0 > half; echo half >> #{ENV.fetch('NOTES')}/log" }
    file("sum" => "half") { sh "sha256sum < half > sum" }
  RUBY

  def folder_on?(host) = @testbed.run(host, "sh", "-c", "ls -d /tmp/rakuda-0/files/*", chdir: "/tmp").success?

  def clean(*words) = @testbed.run!("head", RAKUDACTL, "clean", "-F", "hosts", *words, chdir: @folder)

  def test_work_folders_of_runs_that_are_over_are_removed_on_request
    contents = inputs(1, 1000)
    printed, status = during(RAKEFILE, "NOTES=#{@notes}") do
      wait_for("the input to be there") { %w[host1 host2].any? { |host| files_on(host).grep(%r{^in/0}).any? } }
      wait_for("both hosts to have a folder") { %w[host1 host2].all? { |host| folder_on?(host) } }
      assert_equal "", clean("--files"), "an agent works there"
      File.write(File.join(@notes, "go"), "")
    end
    assert_equal [0, ""], [status.exitstatus, printed]
    assert_equal "", clean
    dry = clean("--files", "--dry-run").lines
    assert_equal 2, dry.size
    assert_kept_where_something_is_mounted(dry)
    dry.zip(%w[host1 host2]) { |line, host| assert_match(%r{\A#{host}: would remove /tmp/rakuda-0/files/\h{16}\n\z}, line) }
    assert_equal dry.take(1).map { |line| line.sub("would remove", "removed") }, clean("--files").lines
    %w[host1 host2].each { |host| assert_equal "", @testbed.run!(host, "ls", "-A", "/tmp/rakuda-0/files", chdir: "/tmp") }
    @testbed.run!("head", "rm", "sum", chdir: @folder)
    again = rakuda(RAKEFILE, "NOTES=#{@notes}")
    assert_equal [0, ""], [again.status, again.err]
    assert_equal [2, digest(contents["in/0"])], [notes.size, read("sum")]
  end

  # Leaves what is on host1, and removes what is on the other host.
  def assert_kept_where_something_is_mounted(dry)
    path = dry.first[%r{/tmp/\S+}]
    all_hosts("mkdir /tmp/precious #{path}/there && touch /tmp/precious/file; mount --bind /tmp/precious #{path}/there", "host1")
    why = "#{path}: #{path}/there is mounted there: unmount it first\n"
    assert_equal ["host1: would fail to remove #{why}", dry.last], clean("--files", "--dry-run").lines
    assert_equal ["host1: failed to remove #{why}", dry.last.sub("would remove", "removed")], clean("--files").lines
    assert_equal "file\n", @testbed.run!("host1", "ls", "/tmp/precious", chdir: "/tmp")
  ensure
    @testbed.run("host1", "sh", "-c", "umount #{path}/there; rm -r /tmp/precious #{path}/there", chdir: "/tmp")
  end
end
