# frozen_string_literal: true

require "fileutils"
require "minitest/autorun"
require "open3"
require "tmpdir"
require_relative "../../bench/lib/workflow"

# A test that runs a workflow of examples/ in a folder of its own for each engine. A subclass says which, as WORKFLOW,
# and how much data is made, as SIZES.
class WorkflowCase < Minitest::Test
  def setup
    workflow = self.class::WORKFLOW
    assert_empty workflow.missing_tools, "tools/setup examples/#{workflow.name}/packages.apt installs them"
    @directory = Dir.mktmpdir("rakuda-#{workflow.name}")
    workflow.simulate(File.join(@directory, "simulated"), *self.class::SIZES)
  end

  def teardown
    FileUtils.remove_entry(@directory) if @directory
  end

  private

  def read(*names) = File.read(File.join(@directory, *names))

  # @return [String] the report that the engine makes
  def report_of(engine, fresh: true)
    printed, status = run_with(engine, fresh: fresh)
    assert_predicate status, :success?, "#{engine}: #{printed}"
    read(engine, self.class::WORKFLOW.report)
  end

  def run_with(engine, *words, fresh: true)
    place = File.join(@directory, engine)
    self.class::WORKFLOW.lay_out(place, engine, File.join(@directory, "simulated")) if fresh
    yield place if block_given?
    command = Workflow.commands[engine] || flunk("#{engine} is not there: make bench-engines installs it")
    Open3.capture2e(Workflow.environment(place), *command, *words, chdir: place, stdin_data: "")
  end
end
