# frozen_string_literal: true

require "json"
require "support/failed_run"
require "support/waiting"

# What tests of runs on many hosts share: a testbed of three hosts over ssh, a folder that all of them see, and tasks
# that wait until they are told to end. It tests nothing.
class ClusterHostsCase < Minitest::Test
  include FailedRun
  include Waiting

  RAKUDA = File.expand_path("../../bin/rakuda", __dir__)
  RAKUDACTL = File.expand_path("../../bin/rakudactl", __dir__)

  # host3 leads host4, which leads host2.
  NESTED = <<~TOML
    [[group]]
    name = "far"
    leader = "host3"
    hosts = ["host3 2"]

    [[group.group]]
    name = "inner"
    leader = "host4"
    hosts = ["host4 2", "host2 2"]
  TOML

  # Each task says that it has begun, and ends when there is a file `go`. It leaves a half-written target meanwhile.
  WAITING = <<~'RUBY'
    made = (1..6).map { |number| "out#{number}" }
    task default: made
    made.each do |name|
      file name do
        sh "echo half > #{name}; hostname > begun.#{name}; until test -e go; do sleep 0.05; done; echo whole > #{name}; hostname > by.#{name}"
      end
    end
  RUBY

  # Says its rank and host, and what it has heard from all others.
  MPI_HELLO = <<~'C'
    #include <mpi.h>
    #include <stdio.h>

    int main(int argc, char **argv) {
      int rank, size, length, sum = 0;
      char name[MPI_MAX_PROCESSOR_NAME];
      if (MPI_Init(&argc, &argv) != MPI_SUCCESS) return 1;
      MPI_Comm_rank(MPI_COMM_WORLD, &rank);
      MPI_Comm_size(MPI_COMM_WORLD, &size);
      MPI_Get_processor_name(name, &length);
      MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
      printf("%d of %d on %s, sum %d\n", rank, size, name, sum);
      return MPI_Finalize() != MPI_SUCCESS;
    }
  C

  def setup
    @testbed = Testbed.up(**testbed_settings)
    @folder = File.join(@testbed.folder, name)
    FileUtils.rm_rf(@folder)
    FileUtils.mkdir_p(@folder)
    write("hosts", "host1 2\nhost2 2\n")
    # A busy machine loses no node: a test that waits for silence to be noticed says after what time.
    write("rakuda.yaml", "HEARTBEAT: 60\nPROGRESS: off\n")
  end

  def testbed_settings = { HOSTS: 3, GFARM: 0, SLURM: 0 }

  def write(path, content)
    File.write(File.join(@folder, path), content)
  end

  def read(path)
    File.read(File.join(@folder, path))
  end

  def names(pattern)
    Dir.glob(pattern, base: @folder).sort
  end

  # What the journals of the runs have of a kind, as far as they are written.
  def events(kind)
    lines = Dir.glob("#{@folder}/.rakuda/runs/*/journal.jsonl").flat_map { |path| File.readlines(path) }
    lines.grep(/\n\z/).map { |line| JSON.parse(line) }.select { |event| event["event"] == kind }
  end

  def rakuda(rakefile, *words, environment: {})
    write("Rakefile", rakefile)
    @testbed.run("head", RAKUDA, "-F", "hosts", *words, chdir: @folder, environment: environment)
  end

  # What rakudactl prints on head.
  def ctl(*words)
    @testbed.run!("head", RAKUDACTL, *words, chdir: @folder)
  end

  # Starts a run of WAITING, and yields when `begun` tasks have begun; returns what it printed and its status.
  def while_waiting(*words, begun: 4, hosts: "hosts", &block)
    while_command_waits(RAKUDA, "-F", hosts, *words, begun: begun, &block)
  end

  # The same of any command on head.
  def while_command_waits(*command, begun: 4, rakefile: WAITING, environment: {})
    write("Rakefile", rakefile)
    IO.pipe do |reader, writer|
      pid = @testbed.start("head", *command, chdir: @folder, environment: environment, out: writer, err: writer)
      writer.close
      printed = read_along(reader)
      wait_for("#{begun} tasks to begin") { begun?(begun) }
      yield pid
      _, status = Process.wait2(pid)
      return printed.value, status
    end
  end

  def begun?(count) = names("begun.*").count { |file| !read(file).empty? } >= count

  def begun_on(host)
    names("begun.*").select { |path| read(path) == "#{host}\n" }
  end

  # What runs there says no more that it has begun: only the next attempts do.
  def forget_begun_on(*hosts)
    hosts.flat_map { |host| begun_on(host) }.each { |path| File.delete(File.join(@folder, path)) }
  end

  def wait_until_lost(host)
    wait_for("#{host} to be lost") do
      numbers = events("node_joined").select { |event| event["name"] == host }.map { |event| event["node"] }
      events("node_lost").any? { |event| numbers.include?(event["node"]) }
    end
  end

  # What is of Rakuda there, and its commands that wait. Agents go by their names: their command lines have other words.
  def processes(host)
    waiting = @testbed.run(host, "pgrep", "-fl", "until test -e go", chdir: "/").out
    waiting + @testbed.run(host, "pgrep", "-xl", "rakuda-(agent|guard|leader|files)", chdir: "/").out
  end

  # All of it, so that nobody is left to clean up.
  def kill_newest_run
    @testbed.run!("head", "sh", "-c", <<~'SH')
      guard=$(pgrep -n -x rakuda-guard)
      rakuda=$(ps -o ppid= -p $guard)
      kill -STOP $rakuda $guard && kill -KILL $(pgrep -P $guard -x rakudad) $(pgrep -P $guard) $guard $rakuda
    SH
  end

  def wait_until_nothing_runs(*hosts)
    hosts.each do |host|
      wait_for("the processes on #{host} to end", -> { processes(host) }) { processes(host).empty? }
    end
  end

  def assert_all_made
    assert_equal ["whole\n"], (1..6).map { |number| read("out#{number}") }.uniq
  end
end
