# frozen_string_literal: true

require "minitest/autorun"
require_relative "../hosts_case"

# The service of information in jobs of Slurm: one that lives in a job and tells of its hosts, and one on each node that
# registers with a service outside. Both as in docs/guide/batch-systems.md.
class ClusterSlurmInformationTest < ClusterHostsCase
  # A core of each is left for others.
  ON_TWO = %w[-N2 -w host1,host2 -c1].freeze
  RAKUDAD = File.expand_path("../../../target/release/rakudad", __dir__)

  def testbed_settings = { HOSTS: 3, GFARM: 0, SLURM: 1, LOST_AFTER: 60 }

  def teardown
    return super unless passed?

    @testbed.run("head", "scancel", "--user=root")
    wait_for("the queue to be empty") { squeue("-t", "PENDING,RUNNING", "-o", "%i").empty? }
    wait_for("all nodes to be idle") { @testbed.run!("head", "sinfo", "-h", "-t", "idle", "-o", "%D", chdir: "/").to_i == 3 }
  end

  def test_a_service_that_lives_in_a_job_tells_of_its_hosts_and_a_run_chooses_by_it
    write("service.sh", <<~SH)
      #!/bin/sh
      scontrol show hostnames > nodes
      exec #{RAKUDAD} info -F nodes --listen 0.0.0.0:9300 --token-file token
    SH
    submit = ["sbatch", *ON_TWO, "--parsable", "-o", "said", "service.sh"]
    job = @testbed.run!("head", *submit, chdir: @folder).strip
    wait_for("its first line") { names("said").any? && read("said").include?("\n") }
    assert_equal "http://0.0.0.0:9300 token token\n", read("said")
    service = "http://#{squeue("-j", job, "-o", "%B")}:9300"
    wait_for("both hosts", -> { hosts_up(service, "token").inspect }) { hosts_up(service, "token") == %w[host1 host2] }
    ctl("set-attr", "host2", "licences=3", "--service", service, "--token-file", "token")
    write("Rakefile", <<~'RUBY')
      needs where: "licences == 3 && mem_available > 1MiB"
      task(:default) { sh "hostname > by" }
    RUBY
    words = [RAKUDA, "-q", "--info", service, "--info-token", "token"]
    run = @testbed.run("head", "salloc", "-Q", *ON_TWO, *words, chdir: @folder)
    assert_equal [0, "host2\n"], [run.status, run.status == 0 && read("by")], run.err
    chosen = events("node_chosen")
    assert_equal(["3"], chosen.map { |event| event["values"]["licences"] })
    # What a service has started elsewhere ends with it.
    @testbed.run!("head", "scancel", job)
    wait_for("the service to end") { processes_of_service.empty? }
    wait_until_nothing_runs("host1", "host2")
  end

  def test_services_on_the_nodes_of_a_job_register_with_one_outside_and_go_with_the_job
    front = start_front
    service = "http://head:9300"
    words = ["srun", *ON_TWO, "--ntasks-per-node=1", RAKUDAD, "info", "--register", service, "--register-token-file", "token"]
    step = @testbed.start("head", *words, chdir: @folder, out: log("srun"), err: log("srun"))
    wait_for("both nodes", -> { read("srun") }) { hosts_up(service, "token") == %w[host1 host2] }
    @testbed.run!("head", "scancel", squeue("-t", "PENDING,RUNNING", "-o", "%i"))
    Process.wait(step)
    # Each has said that it goes: nobody waits for its silence.
    wait_for("them to be down", -> { nodes(service, "token").inspect }) do
      nodes(service, "token").to_h { |node| [node["node"], node["state"]] } == { "host1" => "down", "host2" => "down" }
    end
  ensure
    @testbed.run("head", "pkill", "-TERM", "-x", "rakuda-info")
    Process.wait(front) if front
  end

  private

  def log(path) = File.join(@folder, path)

  # @return [Integer] the process of a service on head of no node, that others register with
  def start_front
    words = ["info", "-F", "none", "--listen", "0.0.0.0:9300", "--token-file", "token"]
    pid = @testbed.start("head", RAKUDAD, *words, chdir: @folder, out: log("front"), err: log("front"))
    wait_for("the service on head", -> { read("front") }) { read("front").include?("\n") }
    pid
  end

  def squeue(*words) = @testbed.run!("head", "squeue", "-h", *words, chdir: "/").strip

  def nodes(service, token)
    asked = @testbed.run("head", RAKUDACTL, "nodes", "--service", service, "--token-file", token, "--json", chdir: @folder)
    asked.success? ? JSON.parse(asked.out).fetch("nodes") : []
  end

  def hosts_up(service, token)
    nodes(service, token).filter_map { |node| node["node"] if node["state"] == "up" }
  end

  def processes_of_service
    %w[host1 host2 host3].map { |host| @testbed.run(host, "pgrep", "-x", "rakuda-info", chdir: "/").out }.join
  end
end
