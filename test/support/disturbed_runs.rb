# frozen_string_literal: true

require "fiddle"
require "fileutils"
require "tmpdir"
require_relative "engines"
require_relative "run_processes"

# What tests share that stop or kill runs at moments which a seed picks: a place for folders of runs, and starting one.
# The class has SEED. It does not know what is done to them.
module DisturbedRuns
  RAKUDA = File.expand_path("../../bin/rakuda", __dir__)

  PR_SET_CHILD_SUBREAPER = 36

  # What a run leaves comes to this process, which is in its session. So its process groups are never orphaned, and the
  # kernel resumes nothing in them that was stopped: as in a container whose first process has started the tests.
  def setup
    take_orphans(1)
    @place = Dir.mktmpdir("rakuda-disturbed")
    @random = Random.new(self.class::SEED)
  end

  def teardown
    FileUtils.rm_rf(@place)
    take_orphans(0)
    nil while Process.wait(-1, Process::WNOHANG)
  rescue Errno::ECHILD
    nil
  end

  def take_orphans(flag)
    types = [Fiddle::TYPE_INT, *[Fiddle::TYPE_LONG] * 4]
    prctl = Fiddle::Function.new(Fiddle.dlopen(nil)["prctl"], types, Fiddle::TYPE_INT)
    assert_equal 0, prctl.call(PR_SET_CHILD_SUBREAPER, flag, 0, 0, 0)
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
