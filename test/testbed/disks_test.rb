# frozen_string_literal: true

require "minitest/autorun"
require "support/testbed"

# Disks with one budget for both directions (DISK_TOTAL). What is compared is how many bytes passed with the time that
# they took: a busy machine makes it longer, and no test fails of that.
class TestbedDisksTest < Minitest::Test
  MIB = 1 << 20
  RATE = 20 * MIB
  # What a disk that was idle may be ahead by is a tenth of a second's, 2 MiB.
  AHEAD = 4 * MIB
  EACH = 16
  MEMORY = 128 * MIB

  # Prints the nanoseconds that reading EACH MiB takes while EACH are written, past the page cache.
  BOTH = <<~SH.freeze
    set -e
    dd if=/dev/zero of=/srv/old bs=1M count=#{EACH} oflag=direct status=none
    started=$(date +%s%N)
    dd if=/srv/old of=/dev/null bs=1M iflag=direct status=none & reading=$!
    dd if=/dev/zero of=/srv/new bs=1M count=#{EACH} oflag=direct status=none
    wait $reading
    ended=$(date +%s%N)
    echo $((ended - started))
  SH

  def setup
    @testbed = Testbed.up(HOSTS: 2, GFARM: 0, SLURM: 0, DISK: "256M", DISK_TOTAL: RATE, MEMORY: MEMORY)
  end

  # Bounded each for itself, both directions would pass 32 MiB in 0.7 seconds, in which the budget is 14.
  def test_reading_and_writing_share_the_budget
    seconds = Integer(@testbed.run!("host1", "sh", "-c", BOTH)) / 1e9
    assert_operator 2 * EACH * MIB, :<=, (RATE * seconds) + AHEAD
  end

  # All of it has room in memory, and a fifth of memory may be dirty. (Linux may be late by some MiB.)
  def test_who_writes_more_than_may_be_dirty_waits_for_the_disk
    return puts("not tested: Linux bounds a device's dirty bytes from 6.2 on") unless File.exist?("/sys/class/bdi/7:0/max_bytes")

    script = "started=$(date +%s%N); dd if=/dev/zero of=/srv/new bs=1M count=80 status=none; echo $(($(date +%s%N) - started))"
    seconds = Integer(@testbed.run!("host1", "sh", "-c", script)) / 1e9
    assert_operator 80 * MIB, :<=, (RATE * seconds) + (MEMORY / 5) + (4 * AHEAD)
  end

  def test_each_host_has_a_disk_of_its_own
    devices = @testbed.hosts.map { |host| @testbed.run!(host, "stat", "-c", "%d", "/srv") }
    assert_equal devices, devices.uniq
    @testbed.run!("host1", "touch", "/srv/mine")
    refute @testbed.run("host2", "test", "-e", "/srv/mine").success?
  end

  # Nothing of it need have reached the disk when the host loses power.
  def test_what_was_written_is_there_after_a_power_cut
    path = "/srv/kept"
    @testbed.run!("host1", "sh", "-c", "head -c 8M /dev/urandom >#{path}")
    written = digest(path)
    @testbed.fault("kill-host", "host1")
    @testbed.fault("start-host", "host1")
    assert_equal written, digest(path)
    @testbed.fault("drop-cache", "host1")
    assert_equal written, digest(path)
  end

  private

  def digest(path) = @testbed.run!("host1", "sha256sum", path)[/\h{64}/]
end
