# frozen_string_literal: true

require "fileutils"
require "json"
require "minitest/autorun"
require "open3"
require "tmpdir"
require "rakuda/bench/comparison"
require "rakuda/bench/emitters"
require "rakuda/bench/engines"
require "rakuda/bench/idiomatic"
require "rakuda/bench/instance"
require "rakuda/bench/measured"
require "rakuda/bench/options"
require "rakuda/bench/report"
require "rakuda/bench/verification"
require "support/bench_folder"
require "support/bench_tables"
require "support/exported_runs"
require "support/waiting"

# `rakudactl bench`: the suite that CI runs, results that were changed, workflows for other engines, bad input.
class BenchRunnerTest < Minitest::Test
  include BenchFolder
  include BenchTables
  include Waiting

  # The results of `suite ci`, by file.
  def self.suite
    @suite ||= begin
      folder = Dir.mktmpdir
      Minitest.after_run { FileUtils.rm_rf(folder) }
      output, status = Open3.capture2e("timeout", "-s", "KILL", "900", RAKUDACTL, "bench", "suite", "ci", chdir: folder)
      raise output unless status.success?

      Dir[File.join(folder, "bench-results/*.json")].to_h { |path| [path, JSON.parse(File.read(path))] }.freeze
    end
  end

  def refused(*words, with: 2)
    out, err, status = bench(*words)
    assert_equal with, status.exitstatus, out + err
    err
  end

  def test_the_suite_of_ci_is_valid_and_leaves_results_alone
    assert_equal 12, self.class.suite.size
    assert_equal([], self.class.suite.values.reject { |result| result["valid"] })
    folder = File.dirname(self.class.suite.keys.first, 2)
    assert_equal %w[bench-results], Dir.children(folder)
    engines = self.class.suite.values.filter_map { |result| result["engine"] if result["benchmark"] == "copyfile" }
    assert_equal %w[make rakuda xargs], engines.map { |engine| engine["name"] }.sort
    digests = self.class.suite.values.select { |result| result["benchmark"] == "copyfile" }
    assert_equal 1, digests.map { |result| result.dig("verification", "digest") }.uniq.size
  end

  # The record tells of each task that a result names.
  def test_results_say_which_run_and_which_programs_they_are_of
    folder = File.dirname(self.class.suite.keys.first)
    measured = self.class.suite.values.select { |result| result.key?("run") }
    assert_equal %w[argot-io bandwidth fio les-io metadata qcd-io], measured.map { |result| result["benchmark"] }.sort
    assert_equal 1, measured.map { |result| result.dig("run", "id") }.uniq.size
    measured.each do |result|
      id, tasks = result["run"].values_at("id", "tasks")
      tasks.each do |task|
        out, status = Open3.capture2e(RAKUDACTL, "story", task, "--run", id, "--json", chdir: folder)
        assert status.success?, out
        assert_equal [id, task], JSON.parse(out).values_at("run", "task")
      end
      assert_match(/\A\d+\.\d+/, result.dig("programs", "rakuda"))
    end
    of = ->(name) { measured.find { |result| result["benchmark"] == name }["programs"] }
    assert_equal %w[rakuda fio], of.call("fio").keys
    assert_match(/\A\d+\.\d/, of.call("fio")["fio"])
    assert_equal of.call("argot-io")["mpirun"], of.call("les-io")["mpirun"]
  end

  def test_programs_tell_their_versions_or_debian_does
    bin = File.join(@folder, "bin")
    FileUtils.mkdir_p(bin)
    { "one" => "echo 'one version 1.2-beta, of 2020'", "java" => "test $1 = -version && echo 'openjdk version \"17.0.9\" x' >&2",
      "mpirun" => "echo 'mpirun (Open MPI) 4.1.4'", "fio" => "echo fio-3.33", "mute" => "exit 1" }.each do |name, line|
      File.write(File.join(bin, name), "#!/bin/sh\n#{line}\n")
      File.chmod(0o755, File.join(bin, name))
    end
    program = "require 'rakuda/bench/versions'; require 'json'; puts JSON.generate(Rakuda::Bench::Versions.of(ARGV))"
    names = %w[one java mpirun fio mute gone]
    path = { "PATH" => "#{bin}:#{ENV.fetch("PATH")}" }
    out, status = Open3.capture2e(path, RbConfig.ruby, "-I#{ROOT}/lib", "-e", program, *names)
    assert status.success?, out
    expected = { "one" => "1.2-beta", "java" => "17.0.9", "mpirun" => "4.1.4", "fio" => "3.33", "mute" => "unknown" }
    assert_equal expected, JSON.parse(out)
  end

  # A rank of each kernel hangs within a write, as at a file server that does not answer: SIGKILL alone ends it.
  def test_a_step_that_hangs_is_named_by_a_result_that_is_not_valid
    built, made = Open3.capture2e("make", "-s", "-C", "#{ROOT}/iobench", "build/faults.so")
    assert made.success?, built
    steps = { "argot-io" => ["1:2", "write of write 0", %w[--writer block --block 4096]],
              "qcd-io" => ["0:1", "write of write 0", %w[--layout rank0]],
              "les-io" => ["1:9", /[\w ]+ of instant_write 0/, %w[--outputs instant]] }
    steps.map { |kernel, fault| Thread.new { [kernel, fault, hung(kernel, *fault.values_at(0, 2))] } }.map(&:value)
         .each do |kernel, (fault, step, _), (out, err, status)|
      assert_equal 1, status.exitstatus, out + err
      result = JSON.parse(File.read(Dir[File.join(@folder, kernel, "bench-results/#{kernel}-tiny-*.json")].first))
      assert_equal ["rakuda-bench-failure/1", kernel, false], result.values_at("schema", "benchmark", "valid")
      told = /\Ait gave no result: (?:.*, )?time was over: .*rank #{fault[0]} is within step #{step}(;|\z)/
      assert_match(told, result["reasons"].join)
      assert_includes out, "not valid: #{result["reasons"].first}"
      assert_empty Rakuda::Bench::Verification.faults(result)
      refute_empty Rakuda::Bench::Verification.faults(result.merge("valid" => true))
      assert_match(/\A#{kernel}-tiny-.*\.json\z/, result.dig("run", "tasks").first)
    end
    a_failure_is_shown_and_compared_with_nothing
  end

  # @return [Array(String, String, Process::Status)] of a run of the kernel in a folder of its name
  def hung(kernel, fault, words)
    programs = File.join(@folder, kernel, "iobench")
    FileUtils.mkdir_p(programs)
    File.write(File.join(programs, kernel), <<~SH)
      #!/bin/sh
      LD_PRELOAD="#{ROOT}/iobench/build/faults.so" IOBENCH_FAULT="#{fault}:hang:/bench-work/" exec "#{ROOT}/iobench/build/#{kernel}" "$@"
    SH
    File.chmod(0o755, File.join(programs, kernel))
    Open3.capture3({ "IOBENCH" => programs }, "timeout", "-s", "KILL", "900", RAKUDACTL, "bench", "run", kernel,
                   "--timeout", "30", "--", *words, chdir: File.join(@folder, kernel))
  end

  def a_failure_is_shown_and_compared_with_nothing
    files = Dir[File.join(@folder, "*/bench-results/*.json")]
    out, err, status = bench("report", *files, "--html", "page")
    assert status.success?, err
    assert_match(/^les-io  tiny  NOT VALID$/, out)
    assert_match(/has no figures to compare: it gave no result/, refused("diff", files.first, files.first))
  end

  def test_results_verify_and_those_that_were_changed_do_not
    out, err, status = bench("verify", *self.class.suite.keys)
    assert status.success?, out + err
    self.class.suite.each do |path, result|
      changed(result).each do |name, other|
        refute_empty Rakuda::Bench::Verification.faults(other), "#{File.basename(path)}: #{name}"
      end
    end
  end

  # The result with one thing in it that is not true.
  def changed(result)
    copy = ->(&change) { JSON.parse(JSON.generate(result)).tap(&change) }
    {
      validity: copy.call { |other| other["valid"] = false },
      unknown: copy.call { |other| other["score"] = 1 },
      figure: copy.call { |other| faster(other) },
      raw: copy.call { |other| longer(other) },
      **other_figures(result, copy), **other_proofs(result, copy)
    }
  end

  # Each figure in turn, twice as large.
  def other_figures(result, copy)
    lists = result["derived"].is_a?(Array) ? { "derived" => result["derived"], "phases" => result["phases"] || [] } : {}
    found = lists.flat_map do |name, list|
      (list.first || {}).filter_map do |key, value|
        next unless value.is_a?(Numeric) && value.positive? && !%w[rep start_skew].include?(key)

        [:"#{name}_#{key}", copy.call { |other| other[name].first[key] = value * 2 }]
      end
    end
    found << [:nothing_derived, copy.call { |other| other["derived"] = [] }] if result["derived"].is_a?(Array)
    if result.key?("rounds")
      result["derived"].each do |key, value|
        wrong = value.is_a?(Hash) ? value.merge("median" => 9e9) : 9e9
        found << [:"derived_#{key}", copy.call { |other| other["derived"][key] = wrong }]
      end
      # A job's rounds have raw times alone.
      (result["rounds"].first.keys & %w[startup_s tail_s busy_s]).each do |key|
        found << [key.to_sym, copy.call { |other| other["rounds"].first[key] += 0.01 }]
      end
    end
    found.to_h
  end

  # What a valid result must show.
  def other_proofs(result, copy)
    changes = { larger: ->(other) { other["size"] = "small" } }
    if result.key?("phases")
      changes[:wrong_bytes] = ->(other) { other["verification"]["errors"] = 5 }
      changes[:unchecked] = ->(other) { other["verification"]["checked_bytes"] = 0 }
      changes[:cold] = ->(other) { warm_though_cold(other) }
      changes[:durable] = ->(other) { dirty_though_durable(other) }
      changes[:fewer] = ->(other) { other["phases"].pop }
      changes[:parameters] = ->(other) { other["instance"]["params"]["grid"].reverse! << 1 }
      changes[:seed] = ->(other) { other["instance"]["seed"] += 1 }
      { "bytes" => 5, "xfer_ns" => 7, "open_ns" => 1_000_000, "calls" => 2 }.each do |key, times|
        changes[:"rank_#{key}"] = lambda do |other|
          other["phases"].first["ranks"].first.then { |rank| rank[key] = (rank[key] + 1) * times }
        end
      end
    elsif result.key?("rounds")
      changes[:other_files] = ->(other) { other["verification"]["digest"] = "sha256:#{"0" * 64}" }
      changes[:unchecked] = lambda do |other|
        other["verification"].then { |one| one[one.key?("checked_bytes") ? "checked_bytes" : "checked_rounds"] -= 1 }
      end
      changes[:fault] = ->(other) { other["rounds"].first["fault"] = "ended with 1" }
    end
    changes.transform_values { |change| copy.call(&change) }
  end

  def test_counts_bytes_and_lags_that_were_changed_are_found
    found = self.class.suite.sum do |path, result|
      assert_empty Rakuda::Bench::Verification.figure_faults(result)
      changes = { **instance_changes(result), **lag_changes(result) }
      changes.each do |name, change|
        other = JSON.parse(JSON.generate(result)).tap(&change)
        refute_empty Rakuda::Bench::Verification.figure_faults(other), "#{File.basename(path)}: #{name}"
      end
      changes.size
    end
    # Of four results of workflows, two of a job, three of micro-benchmarks.
    assert_equal (4 * 8) + (2 * 4) + (3 * 9), found
  end

  # What an engine was given to do.
  def instance_changes(result)
    instance = result["instance"]
    return {} unless result.key?("rounds")

    counts = instance.select { |_, value| value.is_a?(Integer) }.keys
    assert_includes [%w[bytes maps reduces], %w[bytes_in bytes_out files tasks]], counts.sort
    changes = counts.to_h { |key| [:"instance_#{key}", ->(other) { other["instance"][key] += 1 }] }
    return changes.merge(settings: ->(other) { other["instance"]["settings"]["reads"] += 1 }) if instance.key?("settings")

    first = ->(other, list) { other["instance"]["contents"][list].first }
    changes.merge(file: ->(other) { first[other, "files"][1] += 1 }, reads: ->(other) { first[other, "tasks"][1].pop },
                  unknown_file: ->(other) { first[other, "tasks"][1] << 1000 },
                  name: ->(other) { first[other, "tasks"][0] = "x" })
  end

  # How far apart workers began.
  def lag_changes(result)
    return {} unless result.dig("sync", "by_round")

    first = ->(other) { other["sync"]["by_round"].first }
    { lag: ->(other) { other["sync"]["lag_s"] /= 2 }, overhead: ->(other) { other["sync"]["overhead_s"] /= 2 },
      late: ->(other) { other["sync"]["rounds_late"] += 1 }, bound: ->(other) { other["sync"]["clock_bound_s"] += 1 },
      start: ->(other) { first[other]["starts_ns"][1] += 1_000_000_000 }, null: ->(other) { other["sync"]["null_rounds"].clear },
      step: ->(other) { first[other]["step"] = "x" }, gone: ->(other) { other["sync"]["by_round"].pop },
      end: ->(other) { first[other]["ends_ns"].map! { |time| time / 1000 } } }
  end

  def warm_though_cold(result)
    result["conditions"]["cache"] = "cold"
    result["phases"].each { |phase| phase["cache_before"]&.merge!("known" => true, "resident_frac" => 1.0) }
  end

  def dirty_though_durable(result)
    result["conditions"]["durable"] = true
    result["phases"].each { |phase| phase["cache_after"]&.merge!("known" => true, "dirty_bytes" => 4096) }
  end

  def faster(result)
    derived = result["derived"]
    return derived[%w[busy_s map_busy_s].find { |key| derived.key?(key) }] += 1 if derived.is_a?(Hash)

    key = %w[bw_last_done bw ops_per_s].find { |name| derived.first.key?(name) }
    derived.first[key] *= 1.01
  end

  def longer(result)
    if result.key?("rounds")
      round = result["rounds"].first
      return round[%w[tasks_ns maps_ns].find { |key| round.key?(key) }].first[1] += 1_000_000_000
    end
    return result["steps"].values.first.each { |one| one["end_ns"] += 1_000_000_000 } if result.key?("steps")

    result["phases"].first["steps"].first["end_ns"].map! { |ns| ns + 1_000_000_000 }
  end

  def test_tasks_use_no_more_core_time_than_the_slots_have
    self.class.suite.each_value do |result|
      next unless result["family"] == "workflow"

      result["rounds"].each do |round|
        assert_operator round["busy_s"], :<=, round["makespan_s"] * result.dig("engine", "slots")
        assert_operator round["startup_s"] + round["tail_s"], :<, round["makespan_s"]
      end
    end
  end

  def test_a_report_shows_every_result_and_draws_it
    out, err, status = bench("report", *self.class.suite.keys, "--html", "page")
    assert status.success?, err
    assert_match(/^argot-io  tiny  mpirun, 1 node, 2 ranks  valid$/, out)
    page = File.read(File.join(@folder, "page/index.html"))
    self.class.suite.each_value { |result| assert_tables_tell(result) }
    assert_equal self.class.suite.size, page.scan("<article ").size
    assert_operator Dir[File.join(@folder, "page/*.svg")].size, :>=, 6
    refute_match(%r{(src|href)=["']?https?:}, page)
  end

  def test_results_of_other_instances_are_not_compared
    of = ->(name) { self.class.suite.keys.find { |path| path.end_with?("/#{name}.json") } }
    out, err, status = bench("diff", of.call("copyfile-tiny-make"), of.call("copyfile-tiny-xargs"))
    assert status.success?, err
    assert_match(/^makespan_s +[\d.]+ \S+ +[\d.]+ \S+ +\d/, out)
    assert_match(/^they differ: engine make and xargs$/, out)
    assert_match(/different instances/, refused("diff", of.call("copyfile-tiny-make"), of.call("homology-io-tiny-rakuda")))
  end

  # A diamond, a task of two files, and one of two cores.
  INSTANCE = { "name" => "diamond", "workflow" => {
    "specification" => {
      "tasks" => [
        { "id" => "a", "name" => "a", "parents" => [], "inputFiles" => ["in=1"], "outputFiles" => %w[a.1 d/a.2] },
        { "id" => "b", "name" => "b", "parents" => ["a"], "inputFiles" => ["a.1"], "outputFiles" => ["b"] },
        { "id" => "c", "name" => "c", "parents" => ["a"], "inputFiles" => ["d/a.2"], "outputFiles" => ["c"] },
        { "id" => "e", "name" => "e", "parents" => %w[b c], "inputFiles" => %w[b c], "outputFiles" => ["e"] }
      ],
      "files" => [["in=1", 10], ["a.1", 9], ["d/a.2", 8], ["b", 7], ["c", 0], ["e", 5]].map do |name, bytes|
        { "id" => name, "sizeInBytes" => bytes }
      end
    },
    "execution" => { "tasks" => [{ "id" => "b", "coreCount" => 2, "runtimeInSeconds" => 0.01 }] }
  } }.freeze

  # Those of `make bench-engines` take seconds to start: a comparison of them is no test.
  def test_every_engine_that_is_here_makes_the_same_files
    File.write(File.join(@folder, "diamond.json"), JSON.generate(INSTANCE))
    here = %w[rakuda rake make ninja xargs].select { |name| Rakuda::Bench::Engine.named(name).missing.nil? }
    assert_operator here & %w[rakuda rake make xargs], :==, %w[rakuda rake make xargs]
    out, err, status = bench("compare", "diamond.json", "--engines", here.join(","), "--rounds", "6", "--scale-time", "1",
                             "--style", "flat,idiomatic")
    assert status.success?, out + err
    results = Dir[File.join(@folder, "bench-results/*.json")].map { |path| JSON.parse(File.read(path)) }
    styled = results.group_by { |result| result.dig("engine", "style") }
                    .transform_values { |group| group.map { |result| result.dig("engine", "name") }.sort }
    assert_equal({ "flat" => here.sort, "idiomatic" => here.sort - %w[xargs] }, styled)
    assert_match(/^    make, idiomatic +\d/, out)
    assert_equal 1, results.map { |result| result.dig("verification", "digest") }.uniq.size
    assert_equal [4], results.flat_map { |result| result["rounds"].map { |round| round["tasks_ns"].size } }.uniq
    results.flat_map { |result| result["rounds"] }.each do |round|
      assert_equal %w[a e], round["tasks"].values_at(0, -1)
      assert_equal %w[b c], round["tasks"][1, 2].sort
    end
    changed = results.first.tap { |result| result["rounds"].first["tasks"][1] = "a" }
    assert_match(/names are not those of 4 tasks/, Rakuda::Bench::Verification.faults(changed).join)
    results.each { |result| assert_operator result.dig("derived", "busy_s"), :>=, 0.01 }
  end

  def test_an_instance_is_the_same_wherever_its_task_programs_are
    File.write(File.join(@folder, "diamond.json"), JSON.generate(INSTANCE))
    Dir.mkdir(File.join(@folder, "iobench"))
    FileUtils.ln_s("#{ROOT}/iobench/build/io-task", File.join(@folder, "iobench/io-task"))
    before = ENV.fetch("IOBENCH", nil)
    here, there = [before, File.join(@folder, "iobench")].map do |folder|
      ENV["IOBENCH"] = folder
      Rakuda::Bench::Instance.load(File.join(@folder, "diamond.json"))
    end
    refute_equal here.digest, there.digest
    assert_equal here.digest_by_name, there.digest_by_name
    scaled = Rakuda::Bench::Instance.load(File.join(@folder, "diamond.json"), scale_bytes: 2.0)
    refute_equal here.digest_by_name, scaled.digest_by_name
  ensure
    ENV["IOBENCH"] = before
  end

  # Each task of KINDS reads and writes files of one stem.
  KINDS = %w[in->cut-1 in->cut-2 cut-1->sum-1.a+sum-1.b cut-2->sum-2.a+sum-2.b sum-1.a->x.end sum-1.b->y.end
             x.end+y.end->all in->all.end].freeze

  def kinds
    tasks = KINDS.map.with_index do |text, number|
      reads, writes = text.split("->").map { |part| part.split("+") }
      { "id" => number.to_s, "name" => writes.first[/\A\w+(-\d)?/].sub(/\A[xy]\z/, "end"), "parents" => [], "inputFiles" => reads,
        "outputFiles" => writes }
    end
    by_file = tasks.flat_map { |task| task["outputFiles"].map { |file| [file, task["id"]] } }.to_h
    tasks.each { |task| task["parents"] = task["inputFiles"].filter_map { |file| by_file[file] }.uniq }
    files = (["in"] + by_file.keys).map { |file| { "id" => file, "sizeInBytes" => 3 } }
    specification = { "tasks" => tasks, "files" => files }
    Rakuda::Bench::Instance.new({ "name" => "kinds", "workflow" => { "specification" => specification } }, 1.0, 0.0)
  end

  def test_snakemake_gets_a_wildcard_for_a_kind_that_only_its_files_match
    file, text = Rakuda::Bench::Idiomatic.emit("snakemake", kinds, 2)
    assert_equal "Snakefile", file
    assert_includes text, "output: \"cut-{stem}\"\n"
    assert_includes text, "output: \"sum-{stem}.a\", \"sum-{stem}.b\"\n"
    # all.end would match {stem}.end, too, and nothing is left of all for a stem: those tasks are rules of their own.
    assert_equal 3, text.scan("{stem}").size
    assert_equal 4, text.scan(/^rule task_\d+:/).size
  end

  # What make takes out of values: # begins a comment, and a backslash before some signs goes.
  def test_make_gets_words_with_signs_of_its_own
    words = %w[a#b a;b $HOME a\\b x=y] + ["a b"]
    tasks = %w[1 2].map { |id| Rakuda::Bench::Instance::Task.new(id: id, name: "n#{id}", command: ["printf", "%s\\n", *words, id],
                                                                 inputs: [], outputs: ["o=#{id}"], parents: [], cores: 1) }
    instance = Struct.new(:name, :ordered, :tasks, :inputs, :by_id).new("signs", tasks, tasks, [], {})
    file, text = Rakuda::Bench::Idiomatic.emit("make", instance, 2)
    File.write(File.join(@folder, file), text)
    out, err, status = Open3.capture3("make", "-r", "-s", chdir: @folder)
    assert status.success?, err
    assert_equal %w[1 2].flat_map { |id| [*words, id] }, out.lines(chomp: true)
  end

  def test_a_style_that_is_not_there
    words = %w[copyfile --engines make --style]
    assert_match(/--style fancy: .*expected flat, idiomatic/, refused("compare", *words, "fancy"))
    assert_match(/one style at a time/, refused("emit", *words, "flat,idiomatic"))
  end

  def test_a_workflow_is_written_for_every_engine
    File.write(File.join(@folder, "diamond.json"), JSON.generate(INSTANCE))
    Rakuda::Bench::Emitters::ALL.each do |engine, (file, _)|
      out, err, status = bench("emit", "diamond.json", "--engines", engine)
      assert status.success?, err
      assert_equal File.join(@folder, "bench-work", file), out.chomp
      text = File.read(out.chomp)
      %w[1:10 a.1:9 d/a.2:8 b:7 c:0 e:5].each { |word| assert_includes text, word, engine }
      assert_equal Rakuda::Bench::Emitters::NOT_CHECKED.key?(engine), text.include?(" Not checked: "), engine
    end
    python = %w[workflow_parsl.py workflow_dask.py workflow_hyperqueue.py].map { |file| File.join(@folder, "bench-work", file) }
    _, err, status = Open3.capture3(Rakuda::Bench::Verification::PYTHON, "-m", "py_compile", *python)
    assert status.success?, err
  end

  # The generator is installed by `make bench-engines` alone: a stand-in for it draws the diamond.
  def test_shapes_of_wfcommons_are_scaled_to_the_bytes_of_their_size
    FileUtils.mkdir_p(%w[bin modules].map { |name| File.join(@folder, name) })
    File.write(File.join(@folder, "modules/numpy.py"), "class random:\n    seed = staticmethod(int)\n")
    File.write(File.join(@folder, "modules/wfcommons.py"), <<~PYTHON)
      import json, sys, types
      class BlastRecipe:
          @classmethod
          def from_num_tasks(cls, tasks):
              assert tasks == 200, tasks
              return cls()
      class WorkflowGenerator:
          def __init__(self, recipe):
              assert isinstance(recipe, BlastRecipe)
          def build_workflow(self, name):
              return types.SimpleNamespace(write_json=lambda path: path.write_text(#{JSON.generate(JSON.generate(INSTANCE))}))
      wfchef = sys.modules["wfcommons.wfchef"] = types.ModuleType("wfcommons.wfchef")
      wfchef.recipes = types.SimpleNamespace(BlastRecipe=BlastRecipe)
    PYTHON
    environment = { "PYTHONPATH" => File.join(@folder, "modules") }
    out, err, status = bench("compare", "wf-blast", "--engines", "rakuda,make", "--size", "tiny", environment: environment)
    assert status.success?, out + err
    result = JSON.parse(File.read(Dir[File.join(@folder, "bench-results/wf-blast-tiny-*.json")].first))
    assert_in_delta 20 << 20, result.dig("instance", "bytes_in"), 10
    assert_equal [4, "wf-blast"], [result.dig("instance", "tasks"), result["benchmark"]]
  end

  def test_shapes_of_wfcommons_without_their_generator
    File.write(File.join(@folder, "wfcommons.py"), "raise ImportError")
    _, err, status = bench("run", "wf-bwa", "--size", "tiny", environment: { "PYTHONPATH" => @folder })
    assert_equal 2, status.exitstatus
    assert_match(/no wfcommons for .*`make bench-engines` installs it/, err)
  end

  def test_a_workflow_for_pegasus_is_what_its_api_writes
    python = ExportedRuns::PYTHON
    assert_path_exists python, "the validators are not installed: run tools/validators"
    File.write(File.join(@folder, "diamond.json"), JSON.generate(INSTANCE))
    _, err, status = bench("emit", "diamond.json", "--engines", "pegasus")
    assert status.success?, err
    program, workflow = File.join(ROOT, "test/validators/pegasus.py"), File.join(@folder, "bench-work/workflow.yml")
    out, status = Open3.capture2e(python, program, "diamond.json", workflow, chdir: @folder)
    assert status.success?, out
    assert_equal "4 jobs\n", out
    File.write(workflow, File.read(workflow).sub('"registerReplica": false', '"registerReplica": true'))
    out, status = Open3.capture2e(python, program, "diamond.json", workflow, chdir: @folder)
    assert_equal 1, status.exitstatus
    assert_match(/\Ajobs: written/, out)
  end

  def test_a_search_with_a_real_aligner_finds_where_reads_come_from
    out, err, status = bench("compare", "homology", "--engines", "rakuda,xargs")
    assert status.success?, out + err
    results = Dir[File.join(@folder, "bench-results/*.json")].map { |path| JSON.parse(File.read(path)) }
    assert_equal 1, results.map { |result| result.dig("verification", "digest") }.uniq.size
    assert_equal([12, 12], results.map { |result| result.dig("instance", "tasks") })
  end

  def test_workers_of_micro_benchmarks_begin_in_rounds
    micro = self.class.suite.values.select { |result| result["family"] == "micro" }
    assert_equal %w[bandwidth fio metadata], micro.map { |result| result["benchmark"] }.sort
    micro.each do |result|
      assert_equal result["steps"].size, result["sync"]["rounds"]
      assert_operator result["sync"]["overhead_s"], :>, 0
      refute_empty Rakuda::Bench::Verification.faults(result.merge("sync" => result["sync"].merge("rounds" => 0)))
      assert_equal [2], result["steps"].values.map(&:size).uniq
    end
  end

  def test_sizes_of_micro_benchmarks_are_those_of_the_command_line
    words = %w[--file-size 2M --blocks 1M,64k --rounds 1 --operations 7]
    out, err, status = bench("run", "metadata", "fio", *words)
    assert status.success?, out + err
    names = %w[metadata-tiny-operations7 fio-tiny-64k+1m-bytes2097152]
    metadata, fio = names.map { |name| JSON.parse(File.read(File.join(@folder, "bench-results/#{name}.json"))) }
    assert_equal [[7, 7]], (metadata["steps"].values.map { |workers| workers.map { |one| one["operations"] } })
    assert_equal %w[write-64k read-64k write-1m read-1m reread-1m], (fio["derived"].map { |one| one["name"] })
    assert_equal [2 << 20], fio["steps"].values.flatten.map { |one| one["bytes"] }.uniq
    _, err, status = bench("verify", *Dir[File.join(@folder, "bench-results/*.json")])
    assert status.success?, err
    # What the command line has not said is that of the size.
    changed = fio.merge("settings" => fio["settings"].merge("said" => %w[bytes blocks]))
    assert_match(/trials/, Rakuda::Bench::Verification.faults(changed).join)
    memory = Rakuda::Bench::Options.new(%w[run fio --file-size memory])[:file_size]
    assert_in_delta File.read("/proc/meminfo")[/^MemTotal:\s+(\d+)/, 1].to_i * 1024, memory, 1 << 20
  end

  def test_sizes_that_cannot_be_are_refused
    assert_match(/--file-size 100k: expected a multiple of 1 MiB/, refused("run", "fio", "--file-size", "100k"))
    assert_match(/--blocks 3k: expected sizes that divide 1 MiB/, refused("run", "fio", "--blocks", "4k,3k"))
    assert_match(/give one of them/, refused("run", "fio", "--seconds", "1", "--file-size", "1M"))
    assert_match(/--operations means nothing to `run of a kernel`/, refused("run", "argot-io", "--operations", "1"))
  end

  # The result of fio of the suite, as if its steps had taken as long as the simulator's rates ask for, from a disk.
  def long_fio
    fio = self.class.suite.values.find { |result| result["benchmark"] == "fio" }
    longer = fio["steps"].transform_values do |outputs|
      outputs.map { |one| one.merge("end_ns" => one["start_ns"] + 1_000_000_000) }
    end
    cache = fio["cache"].transform_values { |told| told.merge("resident_bytes" => 0) }
    File.join(@folder, "fio.json").tap { |path| File.write(path, JSON.generate(fio.merge("steps" => longer, "cache" => cache))) }
  end

  def test_rates_are_what_the_simulator_takes
    rates = Rakuda::Bench::MicroFigures.rates(JSON.parse(File.read(long_fio)))
    assert_equal rates.values_at(0, 1), rates.values_at(2, 3)
    out, status = Open3.capture2e(RAKUDACTL, "sim", "copyfile", "--nodes", "1", "--files", "2", "--file-size", "1", "--rates",
                                  rates.join(","))
    assert status.success?, out
  end

  def test_the_simulator_predicts_what_a_workflow_takes
    of = ->(name) { self.class.suite.keys.find { |path| path.end_with?("/#{name}.json") } }
    out, err, status = bench("predict", long_fio, of.call("copyfile-tiny-make"), "--", "--write-back")
    assert status.success?, err
    assert_match(/^copyfile in make: predicted [\d.]+ \S+, measured [\d.]+ \S+: [-+]\d+ %$/, out)
    assert_match(/a result of bandwidth or fio first, not of copyfile/,
                 refused("predict", of.call("copyfile-tiny-make"), of.call("fio-tiny")))
    # From the instance that was kept beside its result; without that nobody knows the workflow.
    recorded = of.call("homology-io-tiny-rakuda")
    out, err, status = bench("predict", long_fio, recorded)
    assert status.success?, err
    assert_match(/^homology-io in rakuda: predicted [\d.]+ \S+, measured [\d.]+ \S+: [-+]\d+ %$/, out)
    alone = File.join(@folder, "homology-io-tiny-rakuda.json")
    FileUtils.cp(recorded, alone)
    assert_match(/the simulator has no homology-io of this size/, refused("predict", long_fio, alone))
    far = JSON.parse(File.read(of.call("copyfile-tiny-rakuda")))
    File.write(alone, JSON.generate(far.merge("hosts" => [{ "hostname_hash" => "fnv1a64:0123456789abcdef", "slots" => 2 }])))
    assert_match(/is of a run over hosts: expected results of one machine/, refused("predict", long_fio, alone))
  end

  # A byte that is not what was written, where no stamp of a KiB is, is found when all have read.
  def test_bandwidth_compares_every_byte_that_was_read
    out, err, status = bench("run", "bandwidth", "--file-size", "1M", "--blocks", "64k", "--rounds", "1")
    assert status.success?, out + err
    result = JSON.parse(File.read(File.join(@folder, "bench-results/bandwidth-tiny-64k-bytes1048576.json")))
    assert_equal 2 << 20, result.dig("verification", "checked_bytes")
    assert_equal %w[write-64k-0 read-64k-0 reread-64k-0], result["steps"].keys
    assert_equal %w[read-64k-0 reread-64k-0], result["cache"].keys
    programs = File.join(@folder, "iobench")
    FileUtils.mkdir_p(programs)
    File.write(File.join(programs, "bandwidth-io"), <<~SH)
      #!/bin/sh
      [ "$1" = check ] && printf x | dd of="$3" bs=1 seek=70003 conv=notrunc 2>/dev/null
      exec "#{ROOT}/iobench/build/bandwidth-io" "$@"
    SH
    File.chmod(0o755, File.join(programs, "bandwidth-io"))
    out, err, status = bench("run", "bandwidth", "--file-size", "1M", "--blocks", "64k", environment: { "IOBENCH" => programs })
    assert_equal 1, status.exitstatus, out + err
    assert_match(/the byte at 70003 is not what was written/, out + err)
  end

  def test_a_task_that_finds_a_wrong_byte_makes_the_result_invalid
    File.write(File.join(@folder, "diamond.json"), JSON.generate(INSTANCE))
    wrong = File.join(@folder, "iobench")
    FileUtils.mkdir_p(wrong)
    task = File.join(wrong, "io-task")
    File.write(task, <<~SH)
      #!/bin/sh
      "#{ROOT}/iobench/build/io-task" "$@" || exit
      case "$*" in *"--write b:7") printf x | dd of=b bs=1 seek=3 conv=notrunc 2>/dev/null ;; esac
    SH
    File.chmod(0o755, task)
    out, err, status = bench("compare", "diamond.json", "--engines", "make", "--rounds", "1", environment: { "IOBENCH" => wrong })
    assert_equal 1, status.exitstatus, err
    assert_match(/not valid: round 1: ended with 2: io-task: b: byte 3 is 120: expected 117$/, out)
  end

  # Where the page cache is the disk (tmpfs) nothing can be cold, and the result says so.
  def test_rounds_that_were_to_begin_cold_are_proven_cold_or_not_valid
    File.write(File.join(@folder, "diamond.json"), JSON.generate(INSTANCE))
    out, err, status = bench("compare", "diamond.json", "--engines", "make,xargs", "--rounds", "5", "--cache", "cold",
                             "--scale-bytes", "20000")
    results = Dir[File.join(@folder, "bench-results/*.json")].map { |path| JSON.parse(File.read(path)) }
    shares = results.flat_map { |result| result["rounds"].map { |round| round.fetch("resident") } }
    assert_equal 10, shares.size, err
    assert_equal shares.all? { |share| share <= 0.01 }, status.success?, out
    assert_match(/were in the page cache, not cold/, out) unless status.success?
    warm = results.first.merge("valid" => true, "reasons" => [])
    warm["rounds"].first["resident"] = 0.5
    assert_match(/50.0 % of its inputs/, Rakuda::Bench::Verification.faults(warm).join)
  end

  def test_a_mosaic_by_real_programs_is_equal_in_all_engines
    out, err, status = bench("compare", "montage", "--engines", "rakuda,make")
    assert status.success?, out + err
    results = Dir[File.join(@folder, "bench-results/*.json")].map { |path| JSON.parse(File.read(path)) }
    assert_equal 1, results.map { |result| result.dig("verification", "digest") }.uniq.size
    assert_equal([22, 22], results.map { |result| result.dig("instance", "tasks") })
    a_mosaic_is_predicted_from_the_run_that_was_kept
  end

  def a_mosaic_is_predicted_from_the_run_that_was_kept
    fio = long_fio
    out, err, status = bench("predict", fio, "bench-results/montage-tiny-make.json")
    assert status.success?, err
    assert_match(/^montage in make: predicted [\d.]+ \S+, measured [\d.]+ \S+: [-+]\d+ %$/, out)
    kept = File.join(@folder, "bench-results/instances/montage-tiny.json")
    File.write(kept, File.read(kept).sub(/"sizeInBytes":\s*\d+/, '"sizeInBytes": 7'))
    assert_match(/is of another run than this result of montage/, refused("predict", fio, "bench-results/montage-tiny-make.json"))
  end

  def test_a_comparison_that_is_interrupted_ends_its_engine_and_leaves_no_files
    File.write(File.join(@folder, "diamond.json"), JSON.generate(INSTANCE))
    pid = Process.spawn(RAKUDACTL, "bench", "compare", "diamond.json", "--engines", "make", "--scale-time", "987654",
                        chdir: @folder, %i[out err] => File::NULL)
    wait_for("the first task to end") { File.exist?(File.join(@folder, "bench-work/make-0/d/a.2")) }
    Process.kill(:TERM, pid)
    Process.wait(pid)
    refute File.exist?(File.join(@folder, "bench-work"))
    # What was killed takes a moment to be gone.
    wait_for("its tasks to end") { !Open3.capture2e("pgrep", "-f", "io-task --compute-ms 9876540 ").last.success? }
  end

  # A kernel takes the reading of a gigabyte to end otherwise.
  def test_a_run_that_is_interrupted_ends_what_it_started_and_leaves_no_files
    pid = Process.spawn(RAKUDACTL, "bench", "run", "argot-io", "--", "--mesh", "8x8x8", "--reps", "1000", "--compute", "0.1",
                        chdir: @folder, %i[out err] => File::NULL)
    wait_for("the first file") { !Dir[File.join(@folder, "bench-work/argot-io/**/*")].empty? }
    Process.kill(:TERM, pid)
    Process.wait(pid)
    refute File.exist?(File.join(@folder, "bench-work"))
    refute Open3.capture2e("pgrep", "-f", "argot-io --dir #{File.realpath(@folder)}").last.success?, "its ranks have ended"
  end

  def test_options_reach_a_kernel_and_those_without_effect_are_refused
    out, err, status = bench("run", "argot-io", "--rounds", "3", "--cache", "warm")
    assert_includes [0, 3], status.exitstatus, out + err # where nothing tells what is in memory, it is not valid
    result = JSON.parse(File.read(File.join(@folder, "bench-results/argot-io-tiny-warm.json")))
    assert_equal [3, "warm"], [result.dig("instance", "reps"), result.dig("conditions", "cache")]
    assert_match(/--cache warm: fio rereads from memory as it is/, refused("run", "fio", "--cache", "warm"))
    assert_match(/--dry-run means nothing to `compare`/, refused("compare", "copyfile", "--engines", "make", "--dry-run"))
    assert_match(/--cache means nothing to `suite`/, refused("suite", "ci", "--cache", "cold"))
    assert_match(/options behind -- \(--nonsense\)/, refused("compare", "copyfile", "--engines", "make", "--", "--nonsense"))
    assert_match(/--nonsense: there is no such option/, refused("run", "argot-io", "--", "--nonsense", "1"))
    assert_match(/--size means nothing to the suite ci/, refused("suite", "ci", "--size", "small"))
  end

  def test_results_of_other_conditions_are_compared_only_when_that_is_asked_for
    result = self.class.suite.values.find { |one| one["benchmark"] == "argot-io" }
    other = JSON.parse(JSON.generate(result)).tap { |copy| copy["conditions"]["cache"] = "cold" }
    { "one.json" => result, "other.json" => other }.each { |name, one| File.write(File.join(@folder, name), JSON.generate(one)) }
    assert_match(/measured under other conditions: cache any and cold/, refused("diff", "one.json", "other.json"))
    out, _, status = bench("diff", "--force", "one.json", "other.json")
    assert status.success?
    assert_match(/^other conditions: cache/, out)
  end

  def test_results_of_another_version_of_a_kernel_are_not_compared
    result = self.class.suite.values.find { |one| one["benchmark"] == "argot-io" }
    { "one.json" => result, "other.json" => result.merge("suite_version" => "0.1.0") }.each do |name, one|
      File.write(File.join(@folder, name), JSON.generate(one))
    end
    told = refused("diff", "--force", "other.json", "one.json")
    assert_includes told, "these are results of kernels of versions 0.1.0 and #{result["suite_version"]}"
  end

  # None is a backtrace: what lacks a field, or has another kind of value there, is named.
  def test_what_is_no_whole_result_is_refused_by_those_that_show_results
    of = ->(name) { self.class.suite.find { |path, _| path.end_with?("/#{name}-tiny.json") }.last }
    { "argot-io" => ["hosts", nil], "fio" => ["steps", {}], "copyfile-tiny-make" => ["rounds", []],
      "bandwidth" => ["settings", nil] }.each do |name, (key, value)|
      result = self.class.suite.find { |path, _| File.basename(path).start_with?(name) }.last
      broken = value ? result.merge(key => value) : result.except(key)
      File.write(File.join(@folder, "broken.json"), JSON.generate(broken))
      [%w[report broken.json], %w[diff broken.json broken.json], %w[predict broken.json broken.json]].each do |words|
        told = refused(*words)
        assert_match(/broken\.json: no result that can be shown: .*#{key}/, told, "#{name}, #{words.first}")
      end
    end
    File.write(File.join(@folder, "text.json"), JSON.generate(of["fio"].merge("workers" => "two")))
    assert_match(/text\.json: no result that can be shown: .*workers /, refused("report", "text.json"))
    assert_match(/against the schema: workers /, bench("verify", "text.json").first)
  end

  def test_what_an_engine_measured_names_its_comparison
    all = self.class.suite.values.select { |result| result.key?("rounds") }
    ids = all.group_by { |result| result["benchmark"] }
             .transform_values { |group| group.map { |result| result["comparison"] }.uniq }
    assert_equal [1, 1, 1], ids.values.map(&:size), "two workflows and a job"
    assert_equal 3, ids.values.flatten.compact.uniq.size
    all.each do |result|
      assert_match(/\Abuffered: /, result["notes"].join)
      assert_includes result["machine"].keys, "vm"
    end
  end

  def test_bad_words_get_an_answer_that_helps
    assert_match(/no command nothing; there are help, list/, refused("nothing"))
    assert_match(/no benchmark nope; there are argot-io/, refused("run", "nope"))
    assert_match(/--size.*huge/, refused("run", "argot-io", "--size", "huge"))
    assert_match(/-5: expected 1 to/, refused("run", "argot-io", "--np", "-5"))
    assert_match(/no engine nope/, refused("compare", "copyfile", "--engines", "nope"))
    assert_match(/is no workflow/, refused("compare", "argot-io", "--engines", "make"))
    assert_match(/no suite nope; there are ci, node/, refused("suite", "nope"))
    assert_match(/No such file/, refused("verify", "gone.json"))
    File.write(File.join(@folder, "other.json"), '{"schema": "rakuda-bench/2"}')
    assert_match(/other.json: expected a result .*, not "rakuda-bench\/2"/, refused("verify", "other.json"))
    assert_match(/not an instance in WfFormat/, refused("compare", "other.json", "--engines", "make"))
    File.write(File.join(@folder, "circle.json"), JSON.generate(INSTANCE).sub('"parents":[]', '"parents":["e"]'))
    assert_match(/wait for each other in a circle/, refused("compare", "circle.json", "--engines", "make"))
    File.write(File.join(@folder, "above.json"), JSON.generate(INSTANCE).gsub("d/a.2", "../a"))
    assert_match(/expected a relative name/, refused("compare", "above.json", "--engines", "make"))
    refute File.exist?(File.join(@folder, "bench-results"))
  end

  def test_a_folder_of_somebody_else_is_never_written_into
    mine = File.join(@folder, "bench-work")
    FileUtils.mkdir_p(mine)
    File.write(File.join(mine, "thesis"), "all of it")
    assert_match(/bench-work is there already and is no folder of a benchmark/, refused("run", "metadata"))
    assert_equal %w[thesis], Dir.children(mine)
  end

  def test_too_little_space_is_said_before_anything_is_written
    err = refused("run", "argot-io", "--size", "large", "--np", "2", "--", "--mesh", "8192x8192x8192")
    assert_match(/too little space|no memory|expected/, err)
    refute File.exist?(File.join(@folder, "bench-results"))
  end

  def test_a_program_that_is_missing_is_named_with_its_package
    out, err, status = bench("run", "fio", environment: { "PATH" => "/nowhere:#{File.dirname(RbConfig.ruby)}" })
    skip_reason = File.executable?(File.join(File.dirname(RbConfig.ruby), "fio"))
    return assert(status.success?, out + err) if skip_reason

    assert_equal 2, status.exitstatus
    assert_match(/no fio in PATH \(Debian: fio\)/, err)
  end

  def test_all_that_is_missing_is_named_at_once
    bin = File.join(@folder, "bin")
    FileUtils.mkdir_p(bin)
    %w[ruby sh env dirname readlink].each { |name| File.symlink(Rakuda::Bench::Programs.find(name), File.join(bin, name)) }
    _, err, status = Open3.capture3({ "PATH" => bin }, RAKUDACTL, "bench", "run", "argot-io", "fio", "h5bench", chdir: @folder)
    assert_equal 2, status.exitstatus
    _, _, suite = Open3.capture3({ "PATH" => bin }, RAKUDACTL, "bench", "suite", "ci", chdir: @folder)
    assert_equal 2, suite.exitstatus, "nothing of a suite is left out"
    assert_equal "rakudactl bench: no mpirun in PATH (Debian: openmpi-bin); no fio in PATH (Debian: fio); " \
                 "no h5bench_write in PATH (not in Debian: build it from https://github.com/hpc-io/h5bench); " \
                 "no h5bench_read in PATH (not in Debian: build it from https://github.com/hpc-io/h5bench)\n", err
  end

  def test_a_run_that_would_not_fit_is_refused_with_the_bytes_needed_and_free
    programs = File.join(@folder, "iobench")
    FileUtils.mkdir_p(programs)
    { "100000 -" => "100000 are free", "9999999999999 20000" => "20000 are what a quota leaves" }.each do |room, words|
      File.write(File.join(programs, "room"), "#!/bin/sh\necho #{room}\n")
      File.chmod(0o755, File.join(programs, "room"))
      [%w[run fio], %w[run argot-io], %w[run mr-sort --engines rakuda], %w[compare copyfile --engines make],
       %w[compare homology --engines make], %w[compare montage --engines make]].each do |command|
        _, err, status = bench(*command, environment: { "IOBENCH" => programs })
        assert_equal 2, status.exitstatus, "#{command}: #{err}"
        assert_match(/too little space at #{@folder}.*: \d+ bytes are written, #{words}; expected 1\.2 times as many/, err)
      end
    end
    refute File.exist?(File.join(@folder, "bench-results"))
  end

  # A file system that does not tell how much is free: the runner does not ask it either.
  def test_space_is_not_asked_for_when_the_kernel_is_told_so
    options = Rakuda::Bench::Options.new([])
    bytes = [[], %w[--ignore-space]].map do |words|
      part = Rakuda::Bench::Measured.parts(Rakuda::Bench::Catalogue.find("argot-io"), "tiny", words, options).first
      Rakuda::Bench::Measured.new(options, nil).send(:bytes, part)
    end
    assert_equal [true, false], bytes.map(&:positive?)
  end

  def test_an_interval_is_that_of_order_statistics
    figures = Rakuda::Bench::Figures
    assert_nil figures.interval([1, 2, 3, 4, 5])
    assert_equal [1, 6], figures.interval([3, 1, 2, 6, 5, 4])
    assert_equal [2, 9], figures.interval((1..10).to_a)
    assert_equal 2.5, figures.median([4, 1, 2, 3])
  end
end
