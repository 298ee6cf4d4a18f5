# frozen_string_literal: true

require "etc"
require "minitest/autorun"
require "support/testbed"

# A testbed comes and goes, also when `up` is killed on the way, and leaves nothing.
class TestbedLifeTest < Minitest::Test
  NAME = Testbed.name_of(Process.pid, "l")

  # What `up` has just made when it is killed: a file of the state, early to late.
  MOMENTS = ["enter", "pid/switch", "host/host1/ready", "pid/host1", "log/disk.host2", "log/gfmd", "munge/key",
             "log/slurmd.host2"].freeze

  def setup
    Testbed.down
    @testbed = Testbed.new(NAME, { HOSTS: 2 })
    @other = Testbed.new(Testbed.name_of(Process.pid, "m"), { HOSTS: 1, GFARM: 0, SLURM: 0, CPU_TIME: 0.25 })
    up_or_say(@other) if Process.uid != 0
  end

  def teardown
    [@testbed, @other].each(&:down) if Process.uid.zero?
  end

  def test_up_that_was_killed_is_made_anew_by_the_next
    loop do
      up_killed_at(MOMENTS[3])
      break unless File.exist?(File.join(@testbed.state, "up"))

      # It was complete before it was killed.
      @testbed.down
    end
    assert_match(/testbed #{NAME} is not complete: .*testbed\/down NAME=#{NAME}/, @testbed.run("head", "true", chdir: "/").err)
    result = @testbed.script("up", "HOSTS=2", "GFARM=0", "SLURM=0")
    assert_equal 0, result.status, result.err
    assert_match(/removing what is left/, result.err)
    assert_equal "host2\n", @testbed.run!("host1", "ssh", "host2", "hostname")
  end

  def test_hosts_have_processors_of_their_own_in_turn
    @testbed.down
    @testbed = Testbed.new(NAME, { HOSTS: 3, CPUS: 1, OWN_CPUS: 1, GFARM: 0, SLURM: 0 })
    @testbed.up
    all = Etc.nprocessors
    (1..3).each do |number|
      own = "Cpus_allowed_list:\t#{(number - 1) % all}\n"
      look = ["grep", "Cpus_allowed_list", "/proc/self/status"]
      assert_equal own, @testbed.run!("host#{number}", *look)
      assert_equal own, @testbed.run!("head", "ssh", "host#{number}", *look)
    end
  end

  def test_down_after_up_was_killed_leaves_nothing
    MOMENTS.each do |moment|
      up_killed_at(moment)
      2.times { assert_equal 0, @testbed.script("down").status }
      assert_empty remains, "after up was killed at #{moment}"
    end
  end

  def test_a_complete_one_leaves_nothing_also_with_faults_in_it
    up_or_say(@testbed)
    refute_empty remains
    @testbed.fault("cut-link", "host1")
    @testbed.fault("kill-host", "host2")
    assert_equal 0, @testbed.script("down").status
    assert_empty remains
    result = @testbed.script("down")
    assert_equal 0, result.status
    assert_match(/testbed #{NAME} is not up/, result.err)
  end

  def test_up_twice_is_up_once_and_other_settings_are_refused
    up_or_say(@other)
    processes = remains(@other.name)
    up_or_say(@other)
    assert_equal processes, remains(@other.name)
    result = @other.script("up", "HOSTS=2", "GFARM=0", "SLURM=0")
    assert_equal 1, result.status
    assert_match(/is up with other settings \(HOSTS=1 CPU_TIME=0.25\): run testbed\/down/, result.err)
  end

  def test_two_testbeds_do_not_meet_and_each_has_its_own_bounds
    up_or_say(@other)
    first = Testbed.new(NAME, { HOSTS: 1, GFARM: 0, SLURM: 0 }).tap { |testbed| up_or_say(testbed) }
    addresses = [first, @other].map { |testbed| testbed.run!("head", "getent", "hosts", "host1")[/\S+/] }
    assert_equal 2, addresses.uniq.size
    assert reached?(@other, addresses.last, within: 60)
    refute reached?(first, addresses.last)
    assert_operator 2 * share_of_a_core(@other), :<, 1
    first.down
    assert_equal "host1\n", @other.run!("head", "ssh", "host1", "hostname")
  end

  private

  def up_or_say(testbed)
    testbed.up
  rescue Testbed::Refused => e
    flunk "no testbed here: #{e.message} (#{Testbed::HINT})"
  end

  # Starts `up` and kills it, and only it, when it has made the file.
  def up_killed_at(moment)
    pid = Process.spawn("#{Testbed::SCRIPTS}/up", "NAME=#{NAME}", "HOSTS=2", "DISK=256M", "DISK_TOTAL=50000000",
                        out: File::NULL, err: File::NULL)
    made = File.join(@testbed.state, moment)
    until File.exist?(made)
      # It may make the file and end between the two looks.
      next sleep(0.001) unless Process.wait(pid, Process::WNOHANG)

      return assert_path_exists(made, "up has ended without making #{moment}")
    end
    Process.kill(:KILL, pid)
    Process.wait(pid)
  end

  # @param within [Integer] seconds
  def reached?(testbed, address, within: 1)
    testbed.run("host1", "ruby", "-rsocket", "-e", "Socket.tcp(ARGV[0], 22, connect_timeout: #{within})", address).success?
  end

  # CPU time over elapsed time of a busy program on host1.
  def share_of_a_core(testbed)
    busy = "200_000.times { |n| n.to_s }; c = Process; puts c.clock_gettime(c::CLOCK_PROCESS_CPUTIME_ID) / " \
           "(c.clock_gettime(c::CLOCK_MONOTONIC) - ARGV[0].to_f)"
    started = "puts Process.clock_gettime(Process::CLOCK_MONOTONIC)"
    testbed.run!("host1", "sh", "-c", "ruby -e '#{busy}' $(ruby -e '#{started}')").to_f
  end

  # All that carries the testbed's name: processes by their cgroup, cgroups, mounts, loop devices, links, folders.
  def remains(name = NAME)
    group = "rakuda-testbed/#{name}"
    processes = Dir.glob("/proc/[0-9]*/cgroup").filter_map do |path|
      File.dirname(path) if File.read(path).include?("#{group}/")
    rescue SystemCallError
      nil
    end
    mounts = File.readlines("/proc/self/mountinfo").grep(/#{group}\b/)
    loops = `losetup --list --noheadings --output BACK-FILE`.lines.grep(/#{group}\b/)
    links = Dir.glob("/sys/class/net/rakuda-#{name}")
    folders = ["/run/#{group}", "/var/lib/#{group}"].select { |path| File.exist?(path) }
    processes + mounts + loops + links + folders + Dir.glob("/sys/fs/cgroup/{,*/}#{group}")
  end
end
