# frozen_string_literal: true

require "fileutils"
require "tmpdir"

# For tests that run rakuda in a folder of their own, which is gone after each of them.
module ScratchFolder
  RAKUDA = File.expand_path("../../bin/rakuda", __dir__)

  def setup
    super
    @folder = Dir.mktmpdir("rakuda-#{self.class.name}-")
  end

  def teardown
    FileUtils.rm_rf(@folder)
    super
  end

  def path(name) = File.join(@folder, name)
end
