# frozen_string_literal: true

require "fileutils"
require "open3"
require "tmpdir"

# For tests that run `rakudactl bench` in a folder of their own, which is gone after each of them.
module BenchFolder
  ROOT = File.expand_path("../..", __dir__)
  RAKUDACTL = File.join(ROOT, "bin/rakudactl")

  def setup
    super
    @folder = File.realpath(Dir.mktmpdir)
  end

  def teardown
    FileUtils.rm_rf(@folder)
    super
  end

  def at(name) = File.join(@folder, name)

  # @return [Array(String, String, Process::Status)] what it printed, what it said, how it ended
  def bench(*words, environment: {})
    Open3.capture3(environment, "timeout", "-s", "KILL", "900", RAKUDACTL, "bench", *words, chdir: @folder)
  end

  # @return [String] why the words were refused, in one line
  def refused(*words, environment: {})
    out, err, status = bench(*words, environment: environment)
    assert_equal [2, ""], [status.exitstatus, out], err
    assert_equal 1, err.lines.size, err
    err
  end
end
