# frozen_string_literal: true

require "minitest/autorun"
require "support/testbed"
require "support/waiting"

# The faults do what they say, and may be repeated.
class TestbedFaultsTest < Minitest::Test
  include Waiting

  # Connects to host2, sends a line when a file says so, and then waits for the end of the connection. What it sees goes
  # to a file of lines: `connected`, `sent`, and `ended` or the error.
  TALKER = <<~'RUBY'
    require "socket"
    log = File.open(ARGV[0], "a").tap { |file| file.sync = true }
    socket = TCPSocket.new("host2", 22)
    socket.gets
    log.puts "connected"
    sleep 0.01 until File.exist?("#{ARGV[0]}.send")
    socket.puts("SSH-2.0-testbed")
    log.puts "sent"
    begin
      socket.readpartial(1)
      log.puts "answered"
      socket.read
      log.puts "ended"
    rescue SystemCallError => e
      log.puts e.class.name
    end
  RUBY

  def setup
    @testbed = Testbed.up(HOSTS: 3, LOST_AFTER: 8)
    @log = File.join(@testbed.folder, "talk.#{object_id}")
    # One that an earlier test has stopped may still be away.
    wait_for_file_servers("host1", "host2", "host3")
  end

  def test_a_host_loses_power_without_taking_leave_and_comes_back_with_its_files
    @testbed.run!("host2", "sh", "-c", "echo kept > /srv/gfarm/kept; echo kept > /srv/scratch/kept")
    running = @testbed.start("host2", "sleep", "12345")
    wait_for("it to run") { @testbed.run("host2", "pgrep", "-fx", "sleep 12345").success? }
    talk do
      2.times { @testbed.fault("kill-host", "host2") }
      Process.wait(running)
      assert_equal 9, Process.last_status.termsig
      assert_equal ["connected"], File.readlines(@log, chomp: true), "the connection ended with the host"
      assert_match(/host2 is not running: .*start-host host2/, @testbed.run("host2", "true").err)
      assert_equal "host1\n", @testbed.run!("head", "ssh", "host1", "hostname")
    end
    2.times { @testbed.fault("start-host", "host2") }
    assert_equal "host2\n", @testbed.run!("head", "ssh", "host2", "hostname")
    assert_equal "kept\nkept\n", @testbed.run!("host2", "cat", "/srv/gfarm/kept", "/srv/scratch/kept")
    assert_equal "host2\n", @testbed.run!("host1", "gfwhere", "/srv/gfarm/kept")
    assert_equal "host2\n", @testbed.run!("head", "srun", "-w", "host2", "hostname")
  end

  def test_a_cut_link_holds_packets_up_and_resets_nothing
    talk do
      2.times { @testbed.fault("cut-link", "host2") }
      File.write("#{@log}.send", "")
      Thread.pass until File.read(@log).include?("sent")
      refute reached?("host2")
      assert reached?("host3", within: 60)
      assert_equal %w[connected sent], File.readlines(@log, chomp: true)
      2.times { @testbed.fault("mend-link", "host2") }
      # TCP sends again what was lost.
      sleep 0.01 until File.readlines(@log).size > 2
      assert_equal %w[connected sent answered], File.readlines(@log, chomp: true).first(3)
    end
  end

  def test_a_stalled_host_says_nothing_until_it_is_woken
    counting = @testbed.start("host1", "bash", "-c", "for ((n = 0; ; n++)); do echo $n > #{@log}; done")
    sleep 0.01 until File.size?(@log)
    2.times { @testbed.fault("stall-host", "host1") }
    # A signal stops a process at the end of a system call, and that may be a write.
    wait_for("the counting to stand") { states("host1", "for ((n = 0;").uniq == ["T"] }
    counted = File.read(@log)
    assert reached?("host1", within: 60), "its kernel takes connections"
    assert_equal counted, File.read(@log)
    2.times { @testbed.fault("wake-host", "host1") }
    sleep 0.01 while File.read(@log) == counted
    assert_equal "host1\n", @testbed.run!("head", "ssh", "host1", "hostname")
  ensure
    Process.kill(:KILL, counting)
    Process.wait(counting)
  end

  def test_a_file_server_stops_and_starts_again
    2.times { @testbed.fault("stop-gfsd", "host3") }
    wait_for_file_servers("host1", "host2")
    assert_equal "head\n", @testbed.run!("head", "hostname")
    2.times { @testbed.fault("start-gfsd", "host3") }
    wait_for_file_servers("host1", "host2", "host3")
  end

  def test_what_is_wrong_with_a_fault_is_said_in_one_line
    {
      %w[burn-host host1] => /unknown fault burn-host; there are: kill-host/,
      %w[kill-host] => /kill-host of which host\?/,
      %w[kill-host host9] => /no host host9: there are head and host1 to host3/,
      %w[kill-host head] => /head cannot lose power/,
      %w[stop-gfsd head] => /head has no gfsd/,
      %w[slow-link host1 fast] => /slow-link host1 fast: a rate like 10mbit, or none, is expected/
    }.each do |words, message|
      result = @testbed.script("fault", *words)
      assert_equal 1, result.status, words.inspect
      assert_match message, result.err
      assert_equal 1, result.err.lines.size, result.err
    end
  end

  private

  # Waits until these are the file servers that gfmd would send writers to.
  def wait_for_file_servers(*hosts)
    wait_for("file servers: #{hosts.join(", ")}") { @testbed.run("head", "gfsched", "-w").lines.sort == hosts }
  end

  # @return [Array<String>] letters of ps for the states of the processes whose command lines have these words
  def states(host, words)
    @testbed.run(host, "ps", "-eo", "stat=,args=").lines.select { |line| line.include?(words) }.map { |line| line[0] }
  end

  # @param within [Integer] seconds
  def reached?(host, within: 1)
    @testbed.run("head", "ruby", "-rsocket", "-e", "Socket.tcp(ARGV[0], 22, connect_timeout: #{within})", host).success?
  end

  # With a connection from host1 to host2 that has been opened.
  def talk
    talker = @testbed.start("host1", "ruby", "-e", TALKER, @log)
    sleep 0.01 until File.exist?(@log) && File.read(@log).include?("connected")
    yield
  ensure
    Process.kill(:KILL, talker)
    Process.wait(talker)
  end
end
