# frozen_string_literal: true

require "fileutils"
require "json"

# Workflows of `rakudactl bench` for tests over hosts, and tasks that wait until both hosts have one. It tests nothing.
module BenchWorkflows
  BUILT = File.expand_path("../../iobench/build", __dir__)

  # @param parents [Hash{String => Array<String>}] of each task, which has its name from the file that it writes
  # @return [String] in WfFormat
  def workflow(parents)
    tasks = parents.map do |name, others|
      { "id" => name, "name" => name, "parents" => others, "children" => [], "inputFiles" => others, "outputFiles" => [name] }
    end
    files = parents.keys.map { |name| { "id" => name, "sizeInBytes" => 1000 } }
    JSON.generate("name" => "hosts", "workflow" => { "specification" => { "tasks" => tasks, "files" => files } })
  end

  # Four tasks that end when two hosts have begun some of them, and one after them: no host has room for all four.
  # @return [String] see {#in_place_of_io_task}
  def write_workflow_of_both_hosts(path)
    write(path, workflow("a" => [], "b" => [], "c" => [], "d" => [], "last" => %w[a b c d]))
    in_place_of_io_task(<<~SH)
      case "$*" in
        *last:*) ;;
        *) touch "begun.$(hostname)"; until [ "$(ls begun.* | wc -l)" = 2 ]; do sleep 0.05; done ;;
      esac
    SH
  end

  # @param first [String] lines of a shell that come before the program's work
  # @return [String] a folder with the programs, seen by all hosts
  def in_place_of_io_task(first)
    folder = File.join(@folder, "iobench")
    FileUtils.mkdir_p(folder)
    (Dir.children(BUILT) - %w[io-task]).each { |name| FileUtils.ln_s(File.join(BUILT, name), File.join(folder, name)) }
    File.write(File.join(folder, "io-task"), "#!/bin/sh\n#{first}\nexec #{BUILT}/io-task \"$@\"\n")
    File.chmod(0o755, File.join(folder, "io-task"))
    folder
  end

  # @return [Hash] the only result with that name
  # @raise [Minitest::Assertion] unless it verifies
  def verified_result(pattern)
    paths = names("bench-results/#{pattern}.json")
    assert_equal 1, paths.size, names("bench-results/*").join(" ")
    result = @testbed.run("head", ClusterHostsCase::RAKUDACTL, "bench", "verify", *paths, chdir: @folder)
    assert_equal 0, result.status, result.out + result.err
    JSON.parse(read(paths.first))
  end
end
