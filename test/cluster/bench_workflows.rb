# frozen_string_literal: true

require "fileutils"
require "json"

# Workflows and MapReduce jobs of `rakudactl bench` for tests over hosts, and tasks that wait until both hosts have one.
# It tests nothing.
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

  # In the folder of a round: it goes on when two hosts have begun something.
  UNTIL_BOTH_HOSTS = 'touch "begun.$(hostname)"; until [ "$(ls begun.* | wc -l)" = 2 ]; do sleep 0.05; done'

  # Four tasks that end when two hosts have begun some of them, and one after them: no host has room for all four.
  # @return [String] see {#in_place_of}
  def write_workflow_of_both_hosts(path)
    write(path, workflow("a" => [], "b" => [], "c" => [], "d" => [], "last" => %w[a b c d]))
    in_place_of("io-task" => %{case "$*" in *last:*) ;; *) #{UNTIL_BOTH_HOSTS} ;; esac})
  end

  # Programs whose first tasks end when two hosts have begun some: of copyfile, of a homology search as a workflow and
  # as a job over files, and of a sort. A job whose maps write into a stream (-) has no such tasks, as all of it may run
  # on one host.
  # @return [String] see {#in_place_of}
  def programs_of_both_hosts
    in_place_of(
      "io-task" => %{case "$IOBENCH_TRACE" in ?*) #{UNTIL_BOTH_HOSTS} ;; esac},
      "homology-task" => %{case "$IOBENCH_TRACE$IOBENCH_PHASES $1 $5" in *" map -") ;; ?*" map "*) #{UNTIL_BOTH_HOSTS} ;; esac},
      "mapreduce-task" => %{case "$1 $4" in "split -") ;; split*) #{UNTIL_BOTH_HOSTS} ;; esac}
    )
  end

  # @param firsts [Hash{String => String}] lines of a shell that come before a program's work
  # @return [String] a folder with the programs, seen by all hosts
  def in_place_of(firsts)
    folder = File.join(@folder, "iobench")
    FileUtils.mkdir_p(folder)
    (Dir.children(BUILT) - firsts.keys).each { |name| FileUtils.ln_s(File.join(BUILT, name), File.join(folder, name)) }
    firsts.each do |name, first|
      File.write(File.join(folder, name), "#!/bin/sh\n#{first}\nexec #{BUILT}/#{name} \"$@\"\n")
      File.chmod(0o755, File.join(folder, name))
    end
    folder
  end

  # What each round of a job says of the places of its four maps and two reduces, by the result.
  def assert_maps_on_both_hosts(result)
    result["rounds"].each do |round|
      assert_equal [[0, 0, 1, 1], 2], [round["maps_hosts"].sort, round["reduces_hosts"].size]
      assert_equal round["maps"].size, round["maps"].uniq.size
    end
  end

  # The results of `suite ci` on two hosts of two slots: nothing of it ran on the machine where the command was typed.
  # @param label [String] in the names of results, for where they are of
  # @param words [Array<String>] of `rakuda`, likewise
  def assert_suite_on_both_hosts(label, words)
    assert_equal 10, names("bench-results/*.json").size, names("bench-results/*").join(" ")
    %w[argot-io les-io qcd-io].each do |kernel|
      assert_equal 2, verified_result("#{kernel}-tiny-*")["hosts"].map { |host| host["hostname_hash"] }.uniq.size
    end
    %w[metadata bandwidth fio].each do |name|
      steps = verified_result("#{name}-tiny-*")["steps"].values
      assert_equal [[0, 0, 1, 1]], steps.map { |ones| ones.map { |one| one["node"] }.sort }.uniq
    end
    %w[copyfile homology-io].each do |name|
      one = verified_result("#{name}-tiny-#{label}-rakuda")
      assert_equal [%w[rakuda -q] + words, 4, [0, 1]],
                   [one.dig("engine", "command"), one.dig("engine", "slots"), one["rounds"].first["hosts"].uniq.sort]
    end
    jobs = %w[rakuda rakuda-streams].map { |engine| verified_result("mr-homology-tiny-#{label}-#{engine}") }
    assert_equal [0, 1], jobs.first["rounds"].first["maps_hosts"].uniq.sort
    assert_equal 1, jobs.map { |job| job.dig("verification", "digest") }.uniq.size
    assert_empty names("files*")
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
