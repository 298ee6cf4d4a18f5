# frozen_string_literal: true

require "minitest/autorun"
require "openssl"
require "socket"
require_relative "../hosts_case"

# Nodes that come by themselves: with rakudactl join, or through a launch template.
class ClusterJoinTest < ClusterHostsCase
  ALLOWED = <<~'RUBY'
    task default: %w[here there]
    file("here") { sh "hostname > here; hostname > begun.here" }
    desc "allow=fast*"
    file("there") { sh "hostname > there" }
  RUBY

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

  def test_what_no_node_is_large_enough_for_waits_for_one_that_may_join
    write("Rakefile", "needs cores: 2\ntask(:default) { sh 'hostname' }")
    out, err = %w[out err].map { |name| File.join(@folder, name) }
    pid = @testbed.start("head", RAKUDA, "-q", "-j", "1", "--joinable", chdir: @folder, out: out, err: err)
    wait_for("the task to wait") { read("err").include?("no node can run task default and its like: it waits") }
    refute_includes read("err"), "needs:"
    Process.kill(:TERM, pid)
    _, status = Process.wait2(pid)
    refute_predicate status, :success?
    assert_equal "", read("out")
  end

  def test_nodes_join_a_run_by_its_folder_and_by_its_invitation
    joined = nil
    printed, status = while_command_waits(RAKUDA, "-q", "-j", "1", "--joinable", begun: 1) do
      assert_equal 0o600, File.stat(written_invitation).mode & 0o777
      joined = [join("host1"), join("host2", "-", "--name", "fast", stdin: ctl("join", "--print"))]
      wait_for("two nodes to join") { up.size == 3 }
      joined << join("host1")
      wait_for("one more node to join") { up.size == 4 }
      assert_equal %w[fast head host1 host1-2], up.sort
      wait_for("tasks to begin there") { begun?(4) }
      write("go", "")
    end
    assert_equal [0, ""], [status.exitstatus, printed]
    ends = joined.map { |thread| [thread.value.status, thread.value.err] }
    assert_equal [[0, ""]] * 3, ends
    assert_all_made
    assert_equal %w[head host1 host2], names("by.*").map { |path| read(path).chomp }.uniq.sort
    assert_nil invitation
    journal = File.read(Dir[File.join(@folder, ".rakuda/runs/*/journal.jsonl")].first)
    assert_equal %w[head host1 fast host1-2].sort, journal.scan(/"node_joined".*?"name":"(.+?)"/).flatten.uniq.sort
  end

  def test_patterns_of_names_hold_for_nodes_that_come_later
    joined = nil
    _, status = while_command_waits(RAKUDA, "-q", "--joinable", begun: 1, rakefile: ALLOWED) do
      joined = join("host2", "--name", "fast7")
    end
    assert status.success?
    assert_equal %W[head\n host2\n], [read("here"), read("there")]
    assert_equal 0, joined.value.status
  end

  def test_a_run_whose_first_task_waits_for_a_node_can_be_asked_and_joined
    joined = nil
    _, status = while_command_waits(RAKUDA, "-q", "--joinable", "there", begun: 0, rakefile: ALLOWED) do
      wait_for("an invitation") { invitation }
      assert_match(/^there: ready,.*\n  head: it can never run there/, ctl("explain", "there"))
      joined = join("host2", "--name", "fast7")
    end
    assert status.success?
    assert_equal "host2\n", read("there")
    assert_equal 0, joined.value.status
  end

  def test_hosts_of_a_file_and_nodes_that_join_go_together
    write("hosts", "host1 2\n")
    printed, status = while_waiting("-q", "--joinable", begun: 2) do
      join("host3", "--cores", "1")
      wait_for("a node to join") { ctl("nodes").match?(/^  host3 +up +1 core,/) }
      wait_for("tasks to begin there") { begun?(3) }
      write("go", "")
    end
    assert_equal [0, ""], [status.exitstatus, printed]
    assert_all_made
  end

  def test_a_node_that_joined_is_let_go_when_it_has_nothing_to_do
    joined = nil
    printed, status = while_command_waits(RAKUDA, "-q", "--joinable", "--max-idle", "1", begun: 1, rakefile: <<~'RUBY') do
      task(:default) { sh "hostname > begun.it; until test -e go; do sleep 0.05; done" }
    RUBY
      joined = join("host1").value
      wait_for("it to go") { ctl("nodes").match?(/^  host1 +gone /) }
      write("go", "")
    end
    assert_equal [0, "", 0], [joined.status, joined.err, status.exitstatus], printed
    refute_includes printed, "lost"
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

  # In clear text, over TLS without a certificate, and with one of another authority.
  def test_a_connection_without_credentials_learns_nothing
    heard = nil
    while_command_waits(RAKUDA, "-q", "-j", "1", "--joinable", begun: 1) do
      address = File.read(written_invitation).split[2]
      heard = @testbed.run!("host1", "ruby", "-ropenssl", "-rsocket", "-e", <<~'RUBY', address)
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
      write("go", "")
    end
    size, *refused = heard.lines.map(&:chomp)
    assert_operator size.to_i, :<=, 7, "no more than a TLS alert"
    assert_equal 2, refused.size
    refused.each { |how| assert_match(/\A(OpenSSL::SSL::SSLError|Errno::ECONNRESET)\z/, how) }
    assert_all_made
  end
end
