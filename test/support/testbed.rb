# frozen_string_literal: true

require "fileutils"
require "minitest"
require "open3"
require "shellwords"

# A testbed for tests: brought up at the first wish for its settings, used by all tests of the process that wish for the
# same, and taken down when another is wished for or the process ends. Its name has the process's number, so that
# several test runs do not meet, and what a killed run has left is found and removed.
#
#     testbed = Testbed.up(HOSTS: 3, GFARM: 0, SLURM: 0)
#     testbed.run("head", "ssh", "host1", "hostname").out
#     testbed.fault("kill-host", "host2")
#
# It knows the scripts in testbed/, and nothing of what is tested on it.
class Testbed
  SCRIPTS = File.expand_path("../../testbed", __dir__)
  # Only turns a hang into a failure.
  LIMIT = ENV.fetch("RAKUDA_TEST_LIMIT", "120")
  # The same of the scripts, which also wait for each other: up, down and fault of all testbeds go one after the other.
  SCRIPT_LIMIT = Integer(LIMIT) * 3
  STATES = "/run/rakuda-testbed"
  HINT = "WITHOUT=testbed,cluster make test leaves these tests out"

  # What a command on a host has left; status is nil when a signal ended it.
  Result = Struct.new(:out, :err, :status) do
    def lines = out.lines.map(&:chomp)

    def success? = status == 0
  end

  class << self
    # @param settings [Hash] those of testbed/settings, without NAME
    # @return [Testbed]
    # @raise [Minitest::Assertion] in one line, when there can be none here
    def up(**settings)
      raise Minitest::Assertion, @refusal if @refusal
      return @testbed if @testbed&.settings == settings

      down
      remove_orphans
      down_at_exit
      @testbed = new(name_of(Process.pid), settings).tap(&:up)
    rescue Refused => e
      raise Minitest::Assertion, @refusal = "no testbed here: #{e.message} (#{HINT})"
    end

    # Takes the present one down; does nothing when there is none.
    def down
      @testbed&.down
    ensure
      @testbed = nil
    end

    # The present one is not what it was: the next `up` makes a new one.
    alias spoilt down

    # A name that says which process's it is. People's own names begin with a letter.
    # @param kind [String] a letter, for those that need several
    def name_of(pid, kind = "t") = "0#{kind}#{pid.to_s(36)}"

    private

    # A forked child inherits what is to be done at exit, and the testbed is not its own.
    def down_at_exit
      return if @owner

      @owner = Process.pid
      at_exit { down if Process.pid == @owner }
    end

    def remove_orphans
      names = Dir.glob("#{STATES}/0*").map { |path| File.basename(path) }
      names.reject { |name| File.exist?("/proc/#{name[2..].to_i(36)}") }.each { |name| new(name, {}).down }
    end
  end

  # The scripts' own line about why there is no testbed.
  class Refused < StandardError; end

  attr_reader :name, :settings

  def initialize(name, settings)
    @name = name
    @settings = settings
  end

  # Folder with the testbed's state: keys, logs, the host file.
  def state = "#{STATES}/#{name}"

  # A host file in Pwrake's format: `host1 2`.
  def hosts_file = "#{state}/hosts"

  # For `ssh -F`, from this machine.
  def ssh_config = "#{state}/ssh/config"

  # A folder that this machine and all hosts see, as they would see one on NFS.
  def folder = "/var/lib/rakuda-testbed/#{name}/shared"

  def hosts = (1..settings.fetch(:HOSTS, 4)).map { |number| "host#{number}" }

  def up
    words = settings.map { |key, value| "#{key}=#{value}" }
    result = script("up", *words)
    raise "testbed/up did not end within #{SCRIPT_LIMIT} s: #{result.err}" unless result.status
    raise Refused, result.err.strip.lines.last.to_s.chomp unless result.success?
  end

  def down
    result = script("down")
    raise "testbed/down: #{result.err}" unless result.success?
  end

  # Runs a command on a host.
  # @param chdir [String] a folder that is there; `folder` by default
  # @return [Result]
  def run(host, *command, chdir: folder, environment: {}, stdin: "", limit: LIMIT)
    bounded = ["timeout", "-s", "KILL", limit.to_s, *on(host, *command, chdir: chdir)]
    out, err, status = Open3.capture3(environment, *bounded, stdin_data: stdin)
    Result.new(out, err, status.exitstatus)
  end

  # As `run`, but fails the test unless the command succeeds; returns what it printed.
  def run!(host, *command, **options)
    result = run(host, *command, **options)
    return result.out if result.success?

    raise Minitest::Assertion, "on #{host}, #{command.shelljoin}: exit status #{result.status}\n#{result.out}#{result.err}"
  end

  # Starts a command on a host, and does not wait for its end. A signal to the process reaches the command.
  # @return [Integer] the process's number
  def start(host, *command, chdir: folder, environment: {}, **redirections)
    Process.spawn(environment, *on(host, *command, chdir: chdir), in: "/dev/null", **redirections)
  end

  # The words of a command line that runs a command on a host.
  def on(host, *command, chdir: folder)
    ["#{SCRIPTS}/exec", "NAME=#{name}", "-C", chdir, host, "--", *command]
  end

  # Breaks or mends something; what there is stands in testbed/fault.
  def fault(what, host, *rest)
    result = script("fault", what, host, *rest)
    raise Minitest::Assertion, result.err.strip unless result.success?
  end

  # Runs the block; whoever comes over ssh meanwhile is in a time namespace of its host.
  # @param ahead [Hash] host => how far its monotonic clock is ahead of this machine's, seconds
  def in_time_namespaces(ahead)
    script = write("elsewhen", <<~SH)
      #!/bin/sh
      case $(uname -n) in
      #{ahead.map { |host, seconds| "#{host}) ahead=#{seconds} ;;" }.join("\n")}
      esac
      exec unshare --time --monotonic "$ahead" --fork --kill-child sh -c "$SSH_ORIGINAL_COMMAND"
    SH
    FileUtils.chmod(0o755, script)
    keys = File.join(state, "ssh/authorized_keys")
    before = File.read(keys)
    File.write(keys, before.gsub(/^(?=ssh-)/) { "command=\"#{script}\" " })
    yield
  ensure
    File.write(keys, before) if before
  end

  # Writes a file into `folder`; returns its path.
  def write(path, content)
    File.join(folder, path).tap do |whole|
      FileUtils.mkdir_p(File.dirname(whole))
      File.write(whole, content)
    end
  end

  # Runs one of the testbed's scripts.
  # @return [Result]
  def script(which, *words)
    out, err, status = Open3.capture3("timeout", "-s", "KILL", SCRIPT_LIMIT.to_s, "#{SCRIPTS}/#{which}", "NAME=#{name}", *words)
    Result.new(out, err, status.exitstatus)
  end
end
