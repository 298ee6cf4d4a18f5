# frozen_string_literal: true

require "fileutils"
require "tmpdir"
require_relative "engines"
require_relative "run_processes"

# What tests share that stop or kill runs at moments which a seed picks: a place for folders of runs, and starting one.
# The class has SEED. It does not know what is done to them.
module DisturbedRuns
  RAKUDA = File.expand_path("../../bin/rakuda", __dir__)

  def setup
    @place = Dir.mktmpdir("rakuda-disturbed")
    @random = Random.new(self.class::SEED)
  end

  def teardown
    FileUtils.rm_rf(@place)
  end

  # @return [String] a new folder with this Rakefile
  def new_folder(name, rakefile)
    folder = File.join(@place, name)
    FileUtils.mkdir_p(folder)
    File.write(File.join(folder, "Rakefile"), rakefile)
    folder
  end

  # What the runs in a folder print.
  def log(folder) = "#{folder}.log"

  # @return [Integer] the process
  def start(folder, *words, **options)
    Process.spawn(Engines::REAL, RAKUDA, "-j", "2", *words, chdir: folder, %i[out err] => log(folder), **options)
  end

  def wait_until(folder)
    6000.times do
      return if yield
      sleep 0.01
    end
    flunk "waited in vain for #{folder} at #{caller(1, 1).first}; the log says:\n#{File.read(log(folder))}"
  end
end
