# frozen_string_literal: true

require "open3"
require "tmpdir"
require_relative "rakefile_run"

# Runs of Rakefiles with streams, in a folder that is the current one meanwhile; run again, and asked about, there.
module StreamRun
  include RakefileRun

  ROOT = File.expand_path("../..", __dir__)

  def setup
    @engine_environment = Engines::REAL
  end

  private

  # In the folder of the run.
  def rakuda(...)
    super { |run| Dir.chdir(run.folder) { yield run } }
  end

  def in_folder(rakefile)
    Dir.mktmpdir("rakuda") do |folder|
      File.write(File.join(folder, "Rakefile"), rakefile)
      Dir.chdir(folder) { yield }
    end
  end

  def again(*arguments)
    out, err, status = Open3.capture3(@engine_environment, "timeout", "-s", "KILL", LIMIT, RAKUDA, *arguments)
    Result.new(out, err, status.exitstatus, Dir.pwd)
  end

  def control(*words)
    out, status = Open3.capture2e("#{ROOT}/bin/rakudactl", *words)
    assert status.success?, out
    out
  end
end
