# frozen_string_literal: true

require "json"
require "support/failed_run"
require "support/staged_files"
require "support/waiting"

# What tests of runs on hosts that share no file system share: the run's folder is on head alone. What tasks are to tell
# the test they write into a folder that all see. It tests nothing.
class ClusterStagingCase < Minitest::Test
  include FailedRun
  include StagedFiles
  include Waiting

  RAKUDA = File.expand_path("../../bin/rakuda", __dir__)
  RAKE = "rake"

  def setup
    @testbed = Testbed.up(HOSTS: 3, GFARM: 0, SLURM: 0)
    @folder = "/srv/#{name}"
    @notes = File.join(@testbed.folder, name)
    FileUtils.rm_rf(@notes)
    FileUtils.mkdir_p(@notes)
    all_hosts("rm -rf #{@folder} /tmp/rakuda-*/files", "head", "host1", "host2", "host3")
    @testbed.run!("head", "mkdir", "-p", "#{@folder}/in", chdir: "/srv")
    write("hosts", "host1 2\nhost2 2\n")
  end

  def all_hosts(script, *hosts)
    hosts.each { |host| @testbed.run!(host, "sh", "-c", script, chdir: "/tmp") }
  end

  # On head.
  def write(path, content)
    @testbed.run!("head", "sh", "-c", "cat > #{@folder}/#{path}", chdir: "/srv", stdin: content)
  end

  def read(path)
    @testbed.run!("head", "cat", "#{@folder}/#{path}", chdir: "/srv")
  end

  def rakuda(rakefile, *words, environment: {})
    write("Rakefile", rakefile)
    @testbed.run("head", RAKUDA, "-F", "hosts", "--filesystem", "local", "-q", *words, chdir: @folder, environment: environment)
  end

  # Slows the link of the only host of `hosts` down. The program goes there before: on such a link that takes minutes.
  def slow_down(rate)
    result = rakuda("task(:default) { sh 'true' }")
    assert_equal 0, result.status, result.err
    @testbed.fault("slow-link", "host1", rate)
  end

  # Starts a run and yields; returns what it printed and its status.
  def during(rakefile, *words, hosts: "hosts")
    write("Rakefile", rakefile)
    IO.pipe do |reader, writer|
      words = [RAKUDA, "-F", hosts, "--filesystem", "local", "-q", *words]
      pid = @testbed.start("head", *words, chdir: @folder, out: writer, err: writer)
      writer.close
      printed = read_along(reader)
      yield pid
      _, status = Process.wait2(pid)
      return printed.value, status
    end
  end

  # Waits until tasks of the run in hand have succeeded: until then a file may stand in its folder, or not.
  def wait_until_done(*tasks)
    wait_for("the end of #{tasks.join(", ")}") do
      events = journal
      done = events.select { |event| event["event"] == "attempt_ended" && event["outcome"] == "done" }
      (tasks - task_names(events).values_at(*done.map { |event| event["task"] })).empty?
    end
  end

  # The events of the last run, but for a line that is being written.
  def journal
    script = "cat $(ls -d .rakuda/runs/*/ | tail -n 1)journal.jsonl"
    lines = @testbed.run!("head", "sh", "-c", script, chdir: @folder).lines
    lines.select { |line| line.end_with?("\n") }.map { |line| JSON.parse(line) }
  end

  # The run's folder on a host, as seen there: names of files, without the agent's own.
  def files_on(host)
    find = "cd /tmp/rakuda-0/files/* 2>/dev/null && find . -type f | cut -c3- | sort"
    @testbed.run(host, "sh", "-c", find, chdir: "/tmp").lines - [".rakuda-agent"]
  end
end
