# frozen_string_literal: true

require "minitest/autorun"
require_relative "../hosts_case"

# Nodes that come by themselves: with rakudactl join, or through a launch template.
class ClusterJoinTest < ClusterHostsCase
  def join(host, *words, stdin: "")
    Thread.new { @testbed.run(host, RAKUDACTL, "join", *words, chdir: @folder, stdin: stdin) }
  end

  def up
    ctl("nodes").scan(/^  (\S+) +up /).flatten
  end

  def invitation
    Dir[File.join(@folder, ".rakuda/join/*")].first
  end

  # Tasks that begin here do not say that it is written.
  def written_invitation
    wait_for("an invitation") { invitation && !File.empty?(invitation) }
    invitation
  end

  def test_nodes_join_a_run_by_its_folder_and_by_its_invitation_and_strangers_do_not
    write("hosts", "localhost 1\nhost3 1\n")
    joined = nil
    printed, status = while_command_waits(RAKUDA, "-F", "hosts", "-q", "--joinable", begun: 2) do
      assert_equal 0o600, File.stat(written_invitation).mode & 0o777
      assert_strangers_learn_nothing
      words = %w[- --name fast --cores 1]
      joined = [join("host1"), join("host2", *words, stdin: ctl("join", "--print"))]
      wait_for("two nodes to join") { up.size == 4 }
      joined << join("host1")
      wait_for("one more node to join") { up.size == 5 }
      assert_equal %w[fast head host1 host1-2 host3], up.sort
      assert_match(/^  fast +up +1 core,/, ctl("nodes"))
      wait_for("tasks to begin there") { begun?(6) }
      write("go", "")
    end
    assert_equal [0, ""], [status.exitstatus, printed]
    ends = joined.map { |thread| [thread.value.status, thread.value.err] }
    assert_equal [[0, ""]] * 3, ends
    assert_all_made
    assert_equal %w[head host1 host2 host3], names("by.*").map { |path| read(path).chomp }.uniq.sort
    assert_nil invitation
    journal = File.read(Dir[File.join(@folder, ".rakuda/runs/*/journal.jsonl")].first)
    assert_equal %w[fast head host1 host1-2 host3], journal.scan(/"node_joined".*?"name":"(.+?)"/).flatten.uniq.sort
  end

  # In clear text, over TLS without a certificate, and with one of another authority.
  STRANGER = <<~'RUBY'
    host, port = ARGV[0].split(":")
    plain = TCPSocket.new(host, port)
    plain.write("GET / HTTP/1.0\r\n\r\n")
    puts plain.read.bytesize
    key = OpenSSL::PKey::EC.generate("prime256v1")
    own = OpenSSL::X509::Certificate.new
    own.public_key = key
    own.subject = own.issuer = OpenSSL::X509::Name.parse("/CN=agent")
    own.not_before, own.not_after = Time.now - 1, Time.now + 999
    own.sign(key, "SHA256")
    [nil, own].each do |certificate|
      context = OpenSSL::SSL::SSLContext.new
      context.cert, context.key = certificate, key if certificate
      begin
        stream = OpenSSL::SSL::SSLSocket.new(TCPSocket.new(host, port), context).connect
        puts stream.read.inspect
      rescue OpenSSL::SSL::SSLError, Errno::ECONNRESET => e
        puts e.class
      end
    end
  RUBY

  def assert_strangers_learn_nothing
    address = File.read(written_invitation).split[2]
    heard = @testbed.run!("host1", "ruby", "-ropenssl", "-rsocket", "-e", STRANGER, address)
    size, *refused = heard.lines.map(&:chomp)
    assert_operator size.to_i, :<=, 7, "no more than a TLS alert"
    assert_equal 2, refused.size
    refused.each { |how| assert_match(/\A(OpenSSL::SSL::SSLError|Errno::ECONNRESET)\z/, how) }
  end

  def invitations
    Dir[File.join(@folder, ".rakuda/join/*")].sort
  end

  def test_a_run_that_was_killed_is_not_joined_though_it_is_the_newest
    printed, status = while_command_waits(RAKUDA, "-q", "-j", "1", "--joinable", begun: 1) do
      living = written_invitation
      newer = @testbed.start("head", RAKUDA, "-q", "-j", "1", "--joinable", chdir: @folder, out: File::NULL, err: File::NULL)
      wait_for("the second run") { invitations.count { |path| !File.empty?(path) } == 2 }
      kill_newest_run
      Process.wait(newer)
      assert_equal 2, invitations.size, "what a killed run leaves"
      assert_equal File.read(living), @testbed.run!("host1", RAKUDACTL, "join", "--print", chdir: @folder)
      write("go", "")
    end
    assert_equal [0, ""], [status.exitstatus, printed]
    left = invitations.map { |path| File.basename(path) }
    assert_equal 1, left.size
    ["last", left.first].each do |run|
      result = @testbed.run("host1", RAKUDACTL, "join", "--run", run, chdir: @folder)
      assert_equal [3, "rakudactl: no run that can be joined goes on in . (the newest, #{left.first}, was killed): " \
                       "start one with --joinable\n"], [result.status, result.err]
    end
  end

  def test_a_launch_template_starts_agents_anywhere
    line = "for host in host1 host2; do ssh $host {agent} & done; wait"
    printed, status = while_command_waits(RAKUDA, "-q", "-j", "2", "--launch", line) do
      assert_equal %w[host1 host2], up.sort
      write("go", "")
    end
    assert_equal [0, ""], [status.exitstatus, printed]
    assert_all_made
    assert_empty Dir[File.join(@folder, ".rakuda/join/*")]
    wait_until_nothing_runs("host1", "host2")
  end
end
