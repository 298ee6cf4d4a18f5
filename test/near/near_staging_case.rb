# frozen_string_literal: true

require "minitest"
require "support/near_hosts"
require "support/staged_files"

# What tests of runs on hosts that share no folder have in common, where all hosts are on this machine. It tests
# nothing.
class NearStagingCase < Minitest::Test
  include NearHosts
  include StagedFiles

  def setup
    @base = Dir.mktmpdir("near")
    @run = Run.new(@base)
    @notes = File.join(@base, "notes")
    FileUtils.mkdir_p([@notes, @run.path("in")])
    write("hosts", "host1 2\nhost2 2\n")
  end

  def teardown
    FileUtils.rm_rf(@base)
  end

  def write(name, content) = @run.write(name, content)

  def read(name) = @run.read(name)

  def remove(*names) = FileUtils.rm_rf(names.map { |name| @run.path(name) })

  # Files of the run's folder here that match, in the order of their names.
  def at_home(*patterns) = Dir.glob(patterns, base: @run.path(""))

  def files_on(host) = @run.files(host)

  # Removes files that match from the folders of the run on all hosts.
  def remove_on_hosts(pattern)
    FileUtils.rm_r(Dir.glob(File.join(@base, "host*/rakuda-*/files/*", pattern)))
  end

  def rakuda(rakefile, *words) = @run.rakuda(rakefile, *words)

  # The events of the last run.
  def journal = @run.events
end
