# frozen_string_literal: true

require "fileutils"
require "json"
require "minitest"
require "open3"
require "tmpdir"

# Runs workflows once for all tests, and exports them.
module ExportedRuns
  ROOT = File.expand_path("../..", __dir__)
  RAKUDA = File.join(ROOT, "bin/rakuda")
  CONTROL = File.join(ROOT, "bin/rakudactl")
  PYTHON = File.join(ENV.fetch("CARGO_TARGET_DIR", File.join(ROOT, "target")), "validators/bin/python")
  # In the environment of all runs; it must be in no export.
  SECRET = "a value of the environment"
  # Only turns a hang into a failure.
  LIMIT = ENV.fetch("RAKUDA_TEST_LIMIT", "300")

  # Three copies with a space in their names, a group, what takes the group, and what fails.
  RAKEFILE = <<~'RUBY'
    SOURCES = %w[one two three].map { |name| "src/#{name}" }
    COPIES = SOURCES.map { |source| source.sub("src/", "out/") + " copy" }
    task default: "all"
    task copies: COPIES
    directory "out"
    SOURCES.zip(COPIES) { |source, copy| file(copy => [source, "out"]) { |t| sh "cp", t.source, t.name } }
    file "all" => :copies do
      sh "cat out/* > all.part"
      sh "mv", "all.part", "all"
    end
    file("ruby" => "src/one") { |t| File.write(t.name, "ruby") }
    file("wrong" => ["all", "ruby"]) { sh "kill -9 $$" }
    file("never" => "wrong") { |t| touch t.name }
    task bare: [] do
      puts "bare"
    end
    stream :lines, from: "say", to: "counted"
    task(:say) { sh "seq 5" }
    file("counted") { |t| sh "wc -l > #{t.name}" }
    needs env: { conda: "env.yml" }
    file("inside") { |t| sh "sort", "-o", t.name, "src/one" }
  RUBY
  # A stand-in that makes nothing and runs what it is given.
  MICROMAMBA = <<~'SH'
    #!/bin/sh
    case $1 in create) mkdir -p "$5" ;; run) shift 3; exec "$@" ;; esac
  SH

  class << self
    # @param targets [Array<String>] what is made
    # @return [String] the folder of a run of these
    def folder(*targets)
      @folders ||= {}
      @folders[targets] ||= run(targets)
    end

    private

    def run(targets)
      folder = Dir.mktmpdir("rakuda-exports")
      Minitest.after_run { FileUtils.rm_rf(folder) }
      FileUtils.mkdir(File.join(folder, "src"))
      %w[one two three].each { |name| File.write(File.join(folder, "src", name), name) }
      File.write(File.join(folder, "Rakefile"), RAKEFILE)
      File.write(File.join(folder, "env.yml"), "dependencies: []\n")
      File.write(File.join(folder, "micromamba"), MICROMAMBA, perm: 0o755)
      command = ["timeout", "-s", "KILL", LIMIT, RAKUDA, "-j2", *targets]
      environment = { "SECRET" => SECRET, "PATH" => "#{folder}:#{ENV.fetch("PATH")}", "XDG_CACHE_HOME" => folder }
      out, status = Open3.capture2e(environment, *command, chdir: folder)
      raise out unless status.exitstatus == (targets.include?("never") ? 1 : 0)

      folder
    end
  end

  def setup
    assert_path_exists PYTHON, "the validators are not installed: run tools/validators"
  end

  def good
    ExportedRuns.folder("all", "bare")
  end

  # All that ends well.
  def whole
    ExportedRuns.folder("all", "bare", "counted", "inside")
  end

  # A task whose command runs in an environment.
  def inside
    ExportedRuns.folder("inside")
  end

  # Two tasks that a stream joins.
  def joined
    ExportedRuns.folder("counted")
  end

  def failed
    ExportedRuns.folder("never")
  end

  # @return [String] where the export is
  def export(format, folder, *more)
    output = File.join(folder, "export.#{format}")
    FileUtils.rm_rf(output)
    out, status = Open3.capture2e(CONTROL, "export", format, "-o", output, *more, chdir: folder)
    assert status.success?, out
    output
  end

  # What a tool of test/validators prints, parsed; it fails with what the tool complains of.
  def ask(tool, *arguments)
    program = File.join(ROOT, "test/validators", tool)
    out, err, status = Open3.capture3("timeout", "-s", "KILL", LIMIT, PYTHON, program, *arguments)
    assert status.success?, err
    JSON.parse(out)
  end

  def events(folder)
    journal = Dir[File.join(folder, ".rakuda/runs/*/journal.jsonl")].fetch(0)
    File.readlines(journal).map { |line| JSON.parse(line) }
  end

  def tasks(folder)
    events(folder).select { |event| event["event"] == "task_defined" }.to_h { |event| event.values_at("task", "name") }
  end
end
