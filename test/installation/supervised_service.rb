# frozen_string_literal: true

require "fileutils"
require "minitest/autorun"
require "open3"
require "tmpdir"
require "support/waiting"

# The service of information as a unit of systemd: systemd itself as process 1 of namespaces of its own, with this
# machine's files, which it cannot write. It has no other unit to start, and no journal: what the service prints goes
# to a file. `make test-systemd` runs it: not every container lets systemd be process 1.
class SupervisedServiceTest < Minitest::Test
  include Waiting

  ROOT = File.expand_path("../..", __dir__)
  SYSTEMD = "/lib/systemd/systemd"
  SERVICE = "http://127.0.0.1:9300"
  # Not below /tmp: a user whom systemd makes up has one of its own.
  PREFIX = "/run/prefix"
  # For one command in there, in seconds.
  LIMIT_S = "120"

  # Units without which systemd starts nothing, and what only a test wants: no journal, and less patience.
  UNITS = {
    "sysinit.target" => "[Unit]\nDefaultDependencies=no\n", "basic.target" => "[Unit]\nDefaultDependencies=no\n",
    "shutdown.target" => "[Unit]\nDefaultDependencies=no\n", "multi-user.target" => "[Unit]\nDescription=Nothing more\n",
    "rakuda-info.service.d/test.conf" => <<~CONF
      [Service]
      StandardOutput=append:/run/said
      StandardError=append:/run/said
      RestartSec=100ms
      Environment="RAKUDA_INFO=--providers /run/providers.toml --period 100ms"
    CONF
  }.freeze

  # A control group of version 2 for systemd alone; then its own namespaces, with what it is to write in memory.
  START = <<~'SH'
    set -eu
    mount --make-rprivate /
    mount -t tmpfs none /run
    mkdir /run/groups /run/prefix
    mount --bind "$1/run/prefix" /run/prefix
    mount -t cgroup2 none /run/groups
    mkdir "/run/groups/$2"
    echo $$ > "/run/groups/$2/cgroup.procs"
    exec unshare --cgroup --pid --fork --kill-child --uts --ipc --net --mount sh -euc '
      umount /run/groups
      mount -t proc proc /proc
      mount -t sysfs sysfs /sys
      mount -t cgroup2 none /sys/fs/cgroup
      mount -o remount,bind,ro /
      cp "$1/providers.toml" /run/
      exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin container=other SYSTEMD_UNIT_PATH="$1/units" \
        "$0" --system --unit=multi-user.target --log-target=console --show-status=no
    ' "$3" "$1"
  SH

  def setup
    assert File.executable?(SYSTEMD), "there is no #{SYSTEMD}: tools/setup test/packages.apt installs it"
    @place = Dir.mktmpdir("rakuda")
    File.chmod(0o755, @place)
    install
    @log = File.join(@place, "log")
    @group = "rakuda-test-#{Process.pid}"
    @pid = Process.spawn("unshare", "--mount", "sh", "-c", START, "sh", @place, @group, SYSTEMD,
                         in: "/dev/null", out: @log, err: @log)
    wait_for("systemd", -> { File.read(@log) }) { systemctl("is-system-running").first.start_with?("running") }
  end

  def teardown
    Process.kill(:KILL, @pid)
    Process.wait(@pid)
    remove_group
  ensure
    FileUtils.rm_rf(@place)
  end

  def test_it_is_started_when_it_answers_reads_anew_comes_back_and_ends
    assert_equal ["", 0], systemctl("start", "rakuda-info")
    assert_match(%r{\A#{SERVICE} token /run/rakuda-info/token$}, inside("cat", "/run/said").first)
    # Who may ask has a copy: the file is the service's own.
    inside("sh", "-c", "cp /run/rakuda-info/token /run/token && chmod 600 /run/token")
    first = number
    wait_for("what the provider says", -> { values.inspect }) { values["licences"] == "3" }
    values.slice("fs_free('/')", "mem_available", "threads").each { |name, value| assert_match(/\A\d/, value, name) }
    refute_equal "0", inside("stat", "-c", "%u", "/run/rakuda-info/token").first.strip
    inside("sed", "-i", "s/licences 3/licences 4/", "/run/providers.toml")
    assert_equal ["", 0], systemctl("reload", "rakuda-info")
    wait_for("what it says after that", -> { values.inspect }) { values["licences"] == "4" }
    assert_equal first, number
    token = inside("cat", "/run/rakuda-info/token")
    inside("kill", "-KILL", first)
    wait_for("another process", -> { inside("cat", "/run/said").inspect }) { number != first && values["licences"] == "4" }
    assert_equal token, inside("cat", "/run/rakuda-info/token")
    assert_equal ["", 0], systemctl("stop", "rakuda-info")
    assert_equal "Result=success\nActiveState=inactive\n", systemctl("show", "-p", "Result,ActiveState", "rakuda-info").first
  end

  private

  def install
    environment = { "DESTDIR" => @place, "PREFIX" => PREFIX, "ENGINE" => "#{ROOT}/target/release/rakudad" }
    out, status = Open3.capture2e(environment, "#{ROOT}/tools/install", "install", chdir: ROOT)
    assert status.success?, out
    UNITS.each do |name, text|
      path = File.join(@place, "units", name)
      FileUtils.mkdir_p(File.dirname(path))
      File.write(path, text)
    end
    FileUtils.cp("#{@place}#{PREFIX}/share/systemd/system/rakuda-info.service", File.join(@place, "units"))
    File.write(File.join(@place, "providers.toml"),
               "[[provider]]\nname = 'own'\ncommand = ['echo', 'licences 3']\nperiod = 0.1\n")
  end

  # @return [Array] what a command there prints, and its status
  def inside(*command)
    systemd = File.read("/proc/#{@pid}/task/#{@pid}/children").split.first
    return ["", nil] unless systemd

    out, status = Open3.capture2e("timeout", "-s", "KILL", LIMIT_S, "nsenter", "-t", systemd, "-m", "-p", "-n", "-C",
                                  *command)
    [out, status.exitstatus]
  end

  def systemctl(*words) = inside("systemctl", *words)

  # @return [String] of the process that serves
  def number = systemctl("show", "-P", "MainPID", "rakuda-info").first.strip

  # @return [Hash{String => String}] of the machine, as the service tells them; empty when it does not
  def values
    out, = inside("#{PREFIX}/bin/rakudactl", "nodes", "--service", SERVICE, "--token-file", "/run/token", "--csv")
    names, cells = out.lines.map { |line| line.chomp.split(",") }
    cells && names.first == "node" ? names.zip(cells).to_h : {}
  end

  # It is empty when all of its processes have ended.
  def remove_group
    Dir.mktmpdir("rakuda") do |folder|
      script = <<~'SH'
        set -e
        mount -t cgroup2 none "$1"
        cd "$1/$2"
        echo 1 > cgroup.kill
        until ! grep -q "populated 1" cgroup.events; do sleep 0.05; done
        cd ..
        find "$2" -depth -type d -exec rmdir {} +
      SH
      assert system("unshare", "--mount", "sh", "-c", script, "sh", folder, @group), "the control group stays"
    end
  end
end
