# frozen_string_literal: true

require "fileutils"
require "open3"
require "tmpdir"
require_relative "engines"

# Runs rakuda on a Rakefile in a folder of its own. It knows nothing of what is expected.
module RakefileRun
  RAKUDA = File.expand_path("../../bin/rakuda", __dir__)
  # Only turns a hang into a failure.
  LIMIT = ENV.fetch("RAKUDA_TEST_LIMIT", "120")
  # For a run whose output is read while it goes on.
  READ_LIVE = { "RAKEOPT" => "--output line --progress off" }.freeze

  # What a run has left.
  Result = Struct.new(:out, :err, :status, :folder) do
    def lines
      out.lines.map(&:chomp)
    end
  end

  # @param rakefile [String]
  # @param arguments [Array<String>]
  # @yield [Result] while the folder is there
  def rakuda(rakefile, *arguments, environment: {}, files: {})
    Dir.mktmpdir("rakuda") do |folder|
      File.write(File.join(folder, "Rakefile"), rakefile)
      files.each { |name, content| File.write(File.join(folder, name), content) }
      out, err, status = Open3.capture3(@engine_environment.merge(environment), "timeout", "-s", "KILL", LIMIT, RAKUDA,
                                        *arguments, chdir: folder)
      yield Result.new(out, err, status.exitstatus, folder)
    end
  end

  # Starts a run without waiting for its end.
  # @yield [pid, folder, out] out: what it prints
  def start_rakuda(rakefile, *arguments, environment: {}, files: {})
    Dir.mktmpdir("rakuda") do |folder|
      { "Rakefile" => rakefile, **files }.each { |name, text| File.write(File.join(folder, name), text) }
      IO.pipe do |reader, writer|
        environment = @engine_environment.merge(READ_LIVE, environment)
        pid = Process.spawn(environment, RAKUDA, *arguments, chdir: folder, out: writer, err: writer)
        writer.close
        yield pid, folder, reader
      end
    end
  end
end
