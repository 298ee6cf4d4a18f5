# frozen_string_literal: true

require "fileutils"
require "minitest/autorun"
require "open3"
require "tmpdir"

# What tools/setup does around the installation of packages. apt-get, dpkg-query and sudo are stand-ins, so nothing is
# installed here.
class SetupTest < Minitest::Test
  ROOT = File.expand_path("../..", __dir__)

  def setup
    @place = Dir.mktmpdir("rakuda setup")
    @policy = File.join(@place, "policy-rc.d")
    @asked = File.join(@place, "asked")
    File.write(File.join(@place, "list.apt"), "a-server  # for a test\n")
    stand_in("sudo", 'exec "$@"')
    stand_in("dpkg-query", "exit 1")
    # As a package does: it starts its server unless it is told not to.
    stand_in("apt-get", <<~SH)
      case $* in *update) exit 0 ;; esac
      "$POLICY_RC_D"
      echo $? > '#{@asked}'
      exit "$(cat '#{@place}/status' 2>/dev/null || echo 0)"
    SH
  end

  def teardown
    FileUtils.remove_entry(@place)
  end

  def test_servers_are_not_started_while_packages_are_installed_and_may_be_afterwards
    output, status = run_setup
    assert status.success?, output
    assert_equal "101\n", File.read(@asked), output
    refute_path_exists @policy
  end

  def test_nothing_forbids_servers_after_an_installation_that_failed
    File.write(File.join(@place, "status"), "100")
    output, status = run_setup
    refute status.success?, output
    assert_includes output, "apt-get could not install: a-server"
    assert_equal "101\n", File.read(@asked)
    refute_path_exists @policy
  end

  def test_a_policy_that_was_there_decides_and_stays
    stand_in("policy-rc.d", "exit 104")
    before = File.read(@policy)
    output, status = run_setup
    assert status.success?, output
    assert_equal "104\n", File.read(@asked), output
    assert_equal before, File.read(@policy)
  end

  # As on Debian 13, whose compiler is new enough.
  def test_rust_of_debian_comes_with_formatter_and_linter_only_for_tests
    installed = File.join(@place, "installed")
    stand_in("dpkg-query", "for name; do echo \"installed $name\"; done")
    stand_in("apt-cache", "echo '  Candidate: 1.99.0+dfsg1-2'")
    stand_in("apt-get", <<~SH)
      echo "$@" | grep -o 'rust.*' >> '#{installed}'
      printf '#!/bin/sh\necho rustc 1.99.0\n' > '#{@place}/rustc'
      cp '#{@place}/rustc' '#{@place}/cargo'
      chmod +x '#{@place}/rustc' '#{@place}/cargo'
    SH
    %w[sh dirname sed sort head cut grep tail id env tee chmod rm cp].each do |tool|
      File.symlink("/usr/bin/#{tool}", File.join(@place, tool)) unless File.exist?(File.join(@place, tool))
    end
    environment = { "PATH" => @place, "POLICY_RC_D" => @policy, "DEBIAN_CARGO" => File.join(@place, "cargo"), "HOME" => @place }
    asked = [%w[], %w[], %w[packages.apt test/packages.apt]].map do |lists|
      FileUtils.rm_f(installed)
      output, status = Open3.capture2e(environment, File.join(ROOT, "tools/setup"), *lists, unsetenv_others: true)
      assert_predicate status, :success?, output
      File.exist?(installed) ? File.read(installed) : ""
    end
    assert_equal ["rustc cargo\n", "", "rustfmt rust-clippy\n"], asked
  end

  private

  def stand_in(name, lines)
    path = File.join(@place, name)
    File.write(path, "#!/bin/sh\n#{lines}\n")
    File.chmod(0o755, path)
  end

  def run_setup
    environment = { "PATH" => "#{@place}:#{ENV.fetch("PATH")}", "POLICY_RC_D" => @policy }
    Open3.capture2e(environment, File.join(ROOT, "tools/setup"), File.join(@place, "list.apt"))
  end
end
