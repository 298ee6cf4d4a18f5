# frozen_string_literal: true

require "minitest/autorun"
require "support/testbed"

# The bounds of a testbed's hosts bite. What is compared are counts of pages, and durations with a bound to those
# without in the same test: no absolute time. The factors are far below what the bounds would give on a machine that
# does nothing else.
# Runs alone: it compares durations.
class TestbedLimitsTest < Minitest::Test
  MEMORY = 96 << 20
  MIB = 1 << 20
  # Of a file of 20 MiB; the kernel may take some pages back at any time.
  MOST = 15 * MIB

  # Prints the nanoseconds that the command takes, or the shortest of ten times.
  TIMED = <<~'SH'
    timed() { started=$(date +%s%N); "$@" >/dev/null; ended=$(date +%s%N); echo $((ended - started)); }
    shortest() { for round in $(seq 10); do timed "$@"; done | sort -n | head -n 1; }
  SH

  # Serves one connection after the other: reads as many bytes as the first line says, then answers.
  SERVER = <<~'RUBY'
    require "socket"
    server = TCPServer.new("0.0.0.0", 5999)
    File.write(ARGV[0], "")
    loop do
      client = server.accept
      client.read(client.gets.to_i)
      client.write("got")
      client.close
    end
  RUBY

  # Prints the nanoseconds until HOST has answered that it got BYTES, the shortest of ROUNDS.
  CLIENT = <<~'RUBY'
    require "socket"
    host, bytes, rounds = ARGV[0], ARGV[1].to_i, ARGV[2].to_i
    took = Array.new(rounds) do
      started = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
      TCPSocket.open(host, 5999) do |socket|
        socket.puts(bytes)
        socket.write("." * bytes)
        socket.read
      end
      Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond) - started
    end
    puts took.min
  RUBY

  # Answers each datagram with the time at which it came.
  ECHO = <<~'RUBY'
    require "socket"
    socket = UDPSocket.new
    socket.bind("0.0.0.0", 5999)
    File.write(ARGV[0], "")
    loop do
      _, from = socket.recvfrom(1)
      socket.send([Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)].pack("q"), 0, from[3], from[1])
    end
  RUBY

  # Prints the nanoseconds that a datagram takes to HOST and back from it, the shortest of ROUNDS of each.
  WAYS = <<~'RUBY'
    require "socket"
    now = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond) }
    socket = UDPSocket.new
    socket.connect(ARGV[0], 5999)
    ways = Array.new(ARGV[1].to_i) do
      started = now.call
      socket.send(".", 0)
      there = socket.recv(8).unpack1("q")
      [there - started, now.call - there]
    end
    puts ways.transpose.map(&:min)
  RUBY

  WAN_MS = 5
  WAN_BACK_MS = 40

  def setup
    @testbed = Testbed.up(HOSTS: 3, GFARM: 0, SLURM: 0, MEMORY: MEMORY, DISK_READ: 16 * MIB, DISK_WRITE: 16 * MIB,
                          RATE: "80mbit", WAN_MS: WAN_MS, WAN_BACK_MS: WAN_BACK_MS)
  end

  def test_the_page_cache_of_a_host_is_bounded
    @testbed.run!("host1", "sh", "-c", "head -c 150M /dev/zero > /tmp/large; head -c 20M /dev/zero > /tmp/small")
    assert_operator resident("host1", "/tmp/large"), :<, MEMORY
    assert_operator resident("host1", "/tmp/small"), :>, MOST
    @testbed.run!("host1", "rm", "/tmp/large", "/tmp/small")
  end

  def test_dropping_the_cache_of_a_host_drops_no_other
    %w[host1 host2].each { |host| @testbed.run!(host, "sh", "-c", "head -c 20M /dev/zero > /tmp/file") }
    2.times { @testbed.fault("drop-cache", "host1") }
    assert_operator resident("host1", "/tmp/file"), :<, MIB
    assert_operator resident("host2", "/tmp/file"), :>, MOST
  end

  def test_the_disk_is_bounded_in_reading_and_writing
    write = "dd if=/dev/zero bs=1M count=24 conv=fsync status=none"
    script = "#{TIMED} timed #{write} of=/srv/file; shortest #{write} of=/tmp/file"
    limited, free = @testbed.run!("host1", "bash", "-c", script).lines.map(&:to_i)
    assert_operator limited, :>, 2 * free
    @testbed.fault("drop-cache", "host1")
    script = "#{TIMED} timed cat /srv/file; shortest cat /srv/file"
    from_disk, from_memory = @testbed.run!("host1", "bash", "-c", script).lines.map(&:to_i)
    assert_operator from_disk, :>, 10 * from_memory
  end

  def test_the_link_is_bounded_and_can_be_slowed
    serve("host2") do
      bounded = transfer("host2", 4 * MIB, rounds: 10)
      @testbed.fault("slow-link", "host2", "20mbit")
      slowed = transfer("host2", 4 * MIB)
      %w[host1 host2].each { |host| @testbed.fault("slow-link", host, "none") }
      free = transfer("host2", 4 * MIB, rounds: 10)
      assert_operator slowed, :>, 2 * bounded
      assert_operator bounded, :>, 3 * free
    ensure
      %w[host1 host2].each { |host| @testbed.fault("slow-link", host, "80mbit") }
    end
  end

  def test_the_other_site_is_farther_away
    serve("host2") do
      serve("host3") do
        assert_operator transfer("host3", 1, rounds: 10), :>, 3 * transfer("host2", 1, rounds: 10)
      end
    end
  end

  # All hosts have one kernel, so one clock.
  def test_the_way_back_from_the_other_site_may_take_longer
    serve("host3", ECHO) do
      there, back = @testbed.run!("host1", "ruby", "-e", WAYS, "host3", "10").lines.map(&:to_i)
      assert_operator there, :>=, WAN_MS * 1_000_000
      assert_operator back, :>=, WAN_BACK_MS * 1_000_000
      assert_operator there, :<, back
    end
  end

  private

  # Bytes of a file that are in the page cache.
  def resident(host, path) = @testbed.run!(host, "fincore", "--bytes", "--noheadings", "--output", "RES", path).to_i

  def transfer(host, bytes, rounds: 1) = @testbed.run!("host1", "ruby", "-e", CLIENT, host, bytes.to_s, rounds.to_s).to_i

  def serve(host, server = SERVER)
    listening = File.join(@testbed.folder, "listening.#{host}.#{object_id}")
    pid = @testbed.start(host, "ruby", "-e", server, listening)
    Thread.pass until File.exist?(listening)
    yield
  ensure
    Process.kill(:KILL, pid)
    Process.wait(pid)
  end
end
