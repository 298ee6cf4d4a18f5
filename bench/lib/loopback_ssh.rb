# frozen_string_literal: true

require "fileutils"
require "socket"

# A server of ssh for one benchmark: on the loopback, with keys of its own, under names that only its own configuration
# knows. It needs no rights but those of the user (as root the folder /run/sshd, which it makes).
class LoopbackSsh
  SSHD = "/usr/sbin/sshd"

  # @return [Boolean] whether there can be one
  def self.there? = File.executable?(SSHD) && system("command -v ssh > /dev/null && command -v ssh-keygen > /dev/null")

  # @return [String] the file for `ssh -F`
  attr_reader :config

  # @param folder [String] where its keys are kept
  # @param names [Array<String>] of hosts; all are this machine
  def initialize(folder, names)
    @folder = File.expand_path(folder)
    FileUtils.mkdir_p(@folder)
    FileUtils.mkdir_p("/run/sshd") if Process.uid.zero?
    %w[host user].each { |key| run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path(key)) }
    @port = TCPServer.open("127.0.0.1", 0) { |server| server.addr[1] }
    File.write(path("sshd.conf"), server_text)
    File.write(@config = path("ssh.conf"), client_text(names))
    @pid = Process.spawn(SSHD, "-D", "-e", "-f", path("sshd.conf"), in: :close, %i[out err] => path("sshd.log"))
    await
  end

  # Ends it.
  def close
    Process.kill(:TERM, @pid)
    Process.wait(@pid)
  end

  private

  def path(name) = File.join(@folder, name)

  def run(*words)
    system(*words) or raise "#{words.first} failed"
  end

  def server_text
    <<~TEXT
      Port #{@port}
      ListenAddress 127.0.0.1
      HostKey #{path("host")}
      AuthorizedKeysFile #{path("user.pub")}
      StrictModes no
      UsePAM no
      PidFile none
      PermitRootLogin prohibit-password
    TEXT
  end

  def client_text(names)
    <<~TEXT
      Host #{names.join(" ")}
        HostName 127.0.0.1
        Port #{@port}
        IdentityFile #{path("user")}
        IdentitiesOnly yes
        UserKnownHostsFile #{path("known")}
        StrictHostKeyChecking no
        LogLevel ERROR
    TEXT
  end

  def await
    100.times do
      return TCPSocket.open("127.0.0.1", @port).close
    rescue Errno::ECONNREFUSED
      raise "sshd: #{File.read(path("sshd.log"))}" if Process.wait(@pid, Process::WNOHANG)

      sleep 0.05
    end
    raise "sshd does not listen: #{File.read(path("sshd.log"))}"
  end
end
