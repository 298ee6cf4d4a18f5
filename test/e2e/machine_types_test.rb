# frozen_string_literal: true

require "minitest/autorun"
require "support/near_hosts"

# Hosts of another machine type than this one get the engine that lies beside its own under the name of their type. The
# hosts are on this machine, with a `uname` that says what the test wants, and a program that notes that it was started.
class MachineTypesTest < Minitest::Test
  include NearHosts

  RAKEFILE = <<~'RUBY'
    file("made") { |t| sh "echo it > #{t.name}", verbose: false }
    task default: "made"
  RUBY

  def test_a_host_gets_the_engine_of_its_machine_type
    near_hosts do |run|
      engine = run.engine("testarch")
      script = "echo started >> \"$NEAR_HOSTS/started\"\nexec #{Engines::REAL.fetch("RAKUDA_ENGINE")} \"$@\""
      File.write("#{engine}-testarch", "#!/bin/sh\n#{script}\n")
      result = run.rakuda(RAKEFILE, environment: { "RAKUDA_ENGINE" => engine })
      assert_equal 0, result.status, result.err
      assert_equal "it\n", run.read("made")
      assert_path_exists File.join(run.base, "started")
      brought = Dir[File.join(run.base, "cache/rakuda/bin/*/rakudad")].map { |path| File.read(path) }
      assert_equal [File.read("#{engine}-testarch")], brought
    end
  end

  def test_the_version_names_the_machine_types_of_engines_beside_it
    near_hosts do |run|
      engine = run.engine("testarch")
      FileUtils.touch(["#{engine}-testarch", "#{engine}-aarch64.log"])
      out, = Open3.capture2({ "RAKUDA_ENGINE" => engine }, RAKUDA, "--version", chdir: run.base)
      assert_match(/^engine: rakudad \S+ \(commit \w+, \S+-linux-\w+; for hosts also testarch\), /, out)
    end
  end

  def test_without_one_the_message_names_the_type_and_the_missing_file
    near_hosts do |run|
      engine = run.engine("testarch")
      result = run.rakuda(RAKEFILE, environment: { "RAKUDA_ENGINE" => engine })
      assert_equal 3, result.status, result.err
      assert_match(/host1.*its machine type is testarch.*expected rakudad-testarch beside #{Regexp.escape(engine)}/, result.err)
      assert_match(/make dist MACHINE=testarch/, result.err)
    end
  end
end
