# frozen_string_literal: true

require "minitest/autorun"
require_relative "../../support/cachestat"
require_relative "../sync_case"

# Rounds that begin at one instant on several hosts: what only real hosts, links and clocks can show. The machine of
# rounds and the filter of clocks are tested in crates/core, gates and everything on one machine in
# test/e2e/sync_test.rb, hosts behind a leader in ../sites/sync_test.rb, who dies in sync_faults_test.rb. No test asks
# how large a lag is.
class ClusterSyncTest < ClusterSyncCase
  include Cachestat

  CONF = <<~'RUBY'
    WORKER_COUNT = 4
    TASK_FILE = "./command"
    PARAMETER_ARRAY = %w[4k 8k]
    ARGUMENTS = "%w"
  RUBY

  def test_workers_of_all_hosts_begin_at_one_instant_whatever_their_clocks_show
    in_time_namespaces do
      write("conf.rb", CONF)
      write_program("command", "#!/bin/sh\necho \"$1 $2 $RAKUDA_NODE $RAKUDA_LOCAL_RANK $(uname -n)\" >> said.$1\n")
      result = sync("--rounds", "3", "--json", "conf.rb")
      assert_equal 0, result.status, result.err
      answer = JSON.parse(result.out)
      assert_equal 6, answer["rounds"].size
      answer["rounds"].each do |round|
        assert_operator round["clock_bound_s"], :>, 0
        assert_equal [0, "script", nil], round.values_at("failed", "gate", "fault")
      end
      said = (0..3).flat_map { |worker| read("said.#{worker}").lines(chomp: true) }
      places = said.map { |line| line.split.values_at(0, 2, 3, 4) }
      assert_equal [%w[0 0 0 host1], %w[1 0 1 host1], %w[2 1 0 host2], %w[3 1 1 host2]], places.uniq.sort
    end
    rounds.each { |round| assert_clocks_true round }
    by_place = rounds.map { |round| round.values_at("nodes", "processors") }
    assert_equal 1, by_place.uniq.size, "worker i is on the same node and core in every round"
  end

  # Each worker says when it begins. The last one dies of SIGTERM, the others end by themselves at it.
  STOPPED = <<~'SH'
    #!/bin/sh
    trap 'echo "$(uname -n)" > stopped.$1; exit 0' TERM
    echo x > begun.$1
    test "$1" != 3 || exec sleep 600
    sleep 600 & wait
  SH
  STOP_NS = 12_000_000_000

  # The hub hangs meanwhile, and clocks differ by hours: so each agent has stopped its workers by the clock of its node.
  def test_a_common_stop_comes_to_the_workers_of_all_hosts_by_the_clocks_of_these_and_is_a_good_end
    write("conf.rb", CONF.sub(/^PARAMETER_ARRAY.*\n/, ""))
    write_program("command", STOPPED)
    out, status = in_time_namespaces do
      words = %w[--no-overhead --stop-after 12 conf.rb -- -F hosts HEARTBEAT=600]
      while_command_waits(RAKUDACTL, "sync", *words, begun: 4, rakefile: "") do
        @testbed.run!("head", "pkill", "-STOP", "-x", "rakudad")
        wait_for("the workers to be stopped") { (0..2).all? { |worker| filled?("stopped.#{worker}") } }
      ensure
        @testbed.run!("head", "pkill", "-CONT", "-x", "rakudad")
      end
    end
    assert status.success?, out
    assert_equal(%w[host1 host1 host2], (0..2).map { |worker| read("stopped.#{worker}").chomp })
    assert_equal([[4, 0, nil]], rounds.map { |round| round.values_at("workers", "failed", "fault") })
    begun_after_ns, bound_ns, ends_ns = rounds[0].values_at("begun_after_ns", "clock_bound_ns", "ends_ns")
    ends_ns.each { |ns| assert_operator begun_after_ns + ns + bound_ns, :>=, STOP_NS }
  end

  # Bytes of each worker's file. It is on the disk of the worker's own host, and another host has none of that name.
  BYTES = [100_000, 50_001, 70_000, 4096].freeze
  # What the kernel has in memory of its file, then reads it in round 0 and leaves it in memory.
  LOOKS = <<~'SH'
    #!/bin/sh
    echo $(uname -n) $(fincore -b -n -o RES "$2") >> said.$1
    test "$RAKUDA_ROUND" != 0 || cat "$2" > /dev/null
  SH

  def test_files_are_out_of_the_page_cache_or_in_it_on_the_host_of_each_worker
    folder = "/srv/#{File.basename(@folder)}"
    BYTES.each_with_index do |bytes, worker|
      make = "mkdir -p #{folder} && head -c #{bytes} /dev/urandom > #{folder}/data.#{worker}"
      @testbed.run!(worker < 2 ? "host1" : "host2", "sh", "-c", make)
    end
    write_program("command", LOOKS)
    conf = "WORKER_COUNT = 4\nTASK_FILE = './command'\nARGUMENTS = '%w #{folder}/data.%w'\n"
    { "cold" => ["0"], "warm" => BYTES.map { |bytes| ((bytes + 4095) / 4096 * 4096).to_s } }.each do |state, resident|
      FileUtils.rm_f(names("said.*").map { |name| File.join(@folder, name) })
      words = ["--no-overhead", "--rounds", "2", "--cache", state, "--files", "#{folder}/data.%w"]
      result = sync(*words, "--json", "conf.rb", conf: conf)
      assert_equal 0, result.status, result.err
      told = JSON.parse(result.out)["rounds"].map { |round| round.values_at("cache", "cache_bytes", "cache_resident_bytes") }
      in_memory = { "cold" => 0, "warm" => BYTES.sum }.fetch(state) if cachestat?
      assert_equal [[state, BYTES.sum, in_memory]] * 2, told
      expected = (0..3).flat_map { |worker| ["host#{worker / 2 + 1} #{resident[worker % resident.size]}\n"] * 2 }
      assert_equal(expected, (0..3).flat_map { |worker| read("said.#{worker}").lines })
    end
    expected = %w[cold warm].flat_map { |state| [{ "state" => state, "workers" => 4, "bytes" => BYTES.sum }] * 2 }
    assert_equal(expected, rounds.map { |round| round["cache"].except("resident_bytes") })
  end

  private

  def write_program(name, text)
    write(name, text)
    FileUtils.chmod(0o755, File.join(@folder, name))
  end

  def filled?(name) = File.size?(File.join(@folder, name))
end
