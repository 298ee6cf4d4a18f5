# frozen_string_literal: true

# A Rakefile under Bundler, whose bundle does not have what rakuda itself needs.

require "minitest/autorun"
require "open3"
require "tmpdir"

# `require "bundler/setup"` in a Rakefile, and Bundler from the outside.
class BundlerTest < Minitest::Test
  RAKUDA = File.expand_path("../../bin/rakuda", __dir__)

  def setup
    @directory = Dir.mktmpdir("rakuda-bundler")
    File.write(File.join(@directory, "Gemfile"), "")
  end

  def teardown
    FileUtils.rm_rf(@directory)
  end

  def test_rakefile_may_call_bundler
    assert_runs "require \"bundler/setup\"\ntask(:default) { sh \"echo hi\", verbose: false }\n"
  end

  def test_project_may_have_a_file_named_as_a_library_of_rakuda
    Dir.mkdir(File.join(@directory, "lib"))
    File.write(File.join(@directory, "lib/msgpack.rb"), "raise \"the project's own\"\n")
    assert_runs "$LOAD_PATH.unshift \"lib\"\ntask(:default) { sh \"echo hi\", verbose: false }\n"
  end

  private

  def assert_runs(rakefile)
    File.write(File.join(@directory, "Rakefile"), rakefile)
    out, err, status = Open3.capture3(RAKUDA, "-j", "2", chdir: @directory)
    assert_equal ["hi\n", 0], [out, status.exitstatus], err
  end
end
