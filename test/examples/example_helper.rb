# frozen_string_literal: true

require "digest"
require "fileutils"
require "minitest/autorun"
require "open3"
require "shellwords"
require "tmpdir"

# Runs an example in an empty temporary directory, with the command under test: bin/rakuda of this checkout, or
# what RAKUDA_UNDER_TEST says (for example "rake -m"). Knows nothing of what the examples compute.
class ExampleTest < Minitest::Test
  ROOT = File.expand_path("../..", __dir__)
  COMMAND = ENV["RAKUDA_UNDER_TEST"]&.shellsplit || [File.join(ROOT, "bin/rakuda")]
  # Variables of the caller's environment that an example would take for its parameters.
  PARAMETERS = %w[N n IMAGES PIX OVERLAP SEED NOISE WORK size FILES SIZE QUERIES DATABASE PARTS SENSITIVITY
                  WORKERS TILES SWEEPS SITES SCRATCH].freeze

  Outcome = Struct.new(:status, :output) do
    def lines
      output.lines(chomp: true)
    end
  end

  def setup
    @directory = Dir.mktmpdir("rakuda-example")
  end

  def teardown
    FileUtils.remove_entry(@directory)
  end

  # Runs the Rakefile of an example in the temporary directory.
  def run_example(name, *words, command: COMMAND)
    rakefile = File.join(ROOT, "examples", name, "Rakefile")
    environment = PARAMETERS.to_h { |parameter| [parameter, nil] }
    output, status = Open3.capture2e(environment, *command, "-f", rakefile, *words, chdir: @directory, stdin_data: "")
    Outcome.new(status.exitstatus, output)
  end

  # The same, when it has to end well.
  def make_example(name, *words, command: COMMAND)
    outcome = run_example(name, *words, command: command)
    assert_equal 0, outcome.status, outcome.output
    outcome
  end

  def path(*names)
    File.join(@directory, *names)
  end

  # Writes a file, or a part of it, which then is younger than all that a run has made: files are stamped by a clock
  # that ticks some hundred times a second.
  def change(file, *content, **how)
    File.write(file, *content, **how)
    File.utime(Time.now, Time.now, file)
  end

  def sha256(*names)
    Digest::SHA256.file(path(*names)).hexdigest
  end

  # Name, content and time of every file below a folder: equal before and after a run that does nothing.
  def state_of(folder)
    files = Dir.glob(path(folder, "**", "*")).select { |file| File.file?(file) }.sort
    refute_empty files
    files.map { |file| [file, File.mtime(file).to_r, Digest::SHA256.file(file).hexdigest] }
  end

  # A second run leaves every file as it is and starts no command.
  def assert_second_run_does_nothing(name, *words, commands:)
    before = state_of("work")
    outcome = make_example(name, *words)
    assert_equal before, state_of("work")
    assert_empty outcome.lines.grep(commands)
    outcome
  end

  def half_written_files
    Dir.glob(path("work", "**", "*part*")).reject { |file| File.basename(file).match?(/\Apart_\d+\.(fasta|tsv)\z/) }
  end
end
