# frozen_string_literal: true

# What other programs make of exported runs: the real command runs real workflows, one of which fails,
# `rakudactl export` writes them, and the formats' own tools read them: wfcommons, roc-validator, Perfetto's trace
# processor, Graphviz. tools/validators installs the Python ones. JUnit's XML is read by an ordinary reader of XML.

require "minitest/autorun"
require "rexml/document"
require_relative "support/exported_runs"

# WfFormat, read by wfcommons.
class WfFormatTest < Minitest::Test
  include ExportedRuns

  def test_a_run_is_valid_and_loads_as_what_ran
    instance = ask("wfformat.py", export("wfformat", good))
    assert_equal ["1.6", "Rakuda", []], instance.values_at("schema_version", "runtime_system", "warnings")
    assert_equal ["all", "bare", "out", "out/one copy", "out/three copy", "out/two copy"], instance["tasks"].keys.sort
    all = instance["tasks"]["all"]
    assert_equal ["out/one:20copy", "out/three:20copy", "out/two:20copy"], all["inputs"]
    assert_equal ["out/one copy", "out/three copy", "out/two copy"], all["parents"]
    assert_equal ["sh", ["-c", "cat out/* > all.part && mv all.part all"]], all.values_at("program", "arguments")
    copy = instance["tasks"]["out/two copy"]
    assert_equal ["cp", ["src/two", "out/two copy"], ["src/two"], ["out/two:20copy"]],
                 copy.values_at("program", "arguments", "inputs", "outputs")
    assert_equal({ "src/two" => 3, "out/two:20copy" => 3, "all" => 11 },
                 instance["sizes"].slice("src/two", "out/two:20copy", "all"))
  end

  def test_a_command_in_an_environment_is_the_rakefiles_own
    task = ask("wfformat.py", export("wfformat", inside))["tasks"]["inside"]
    assert_equal ["sort", %w[-o inside src/one]], task.values_at("program", "arguments")
  end

  def test_times_are_those_of_the_journal
    instance = ask("wfformat.py", export("wfformat", good))
    lines = events(good)
    number = tasks(good).key("all")
    ended = lines.find { |event| event["task"] == number && event["event"] == "attempt_ended" }
    assert_in_delta ended["held_ns"].each_slice(2).sum { |from, to| to - from } / 1e9, instance["tasks"]["all"]["runtime"], 1e-9
    assert_in_delta (lines.last["time_ns"] - lines.first["time_ns"]) / 1e9, instance["makespan"], 1e-9
  end

  def test_a_failed_run_has_what_failed_and_what_did_not_run
    path = export("wfformat", failed)
    instance = ask("wfformat.py", path)
    assert_equal ["1 task(s) have no entry in the execution section."], instance["warnings"]
    assert_equal ["wrong"], instance["tasks"]["never"]["parents"]
    assert_equal [], instance["tasks"]["wrong"]["outputs"]
    assert_nil instance["tasks"]["ruby"]["program"]
    assert_includes JSON.parse(File.read(path))["description"], "6 tasks done, 1 failed or were cut off, 1 did not run"
  end

  def test_a_stream_is_a_file_between_its_tasks
    instance = ask("wfformat.py", export("wfformat", joined))
    reader = instance["tasks"]["counted"]
    file = "streams/lines/#{format("ID%07d", tasks(joined).key("say"))}"
    assert_equal [[], 10], [instance["warnings"], instance["sizes"][file]]
    assert_equal [["say"], [file]], reader.values_at("parents", "inputs")
  end

  def test_the_validator_refuses_what_is_wrong
    refused("is not declared") { |workflow| workflow["specification"]["tasks"][0]["parents"] = ["nobody"] }
    refused("numberOfTasks") { |workflow| workflow["specification"]["metrics"]["numberOfTasks"] += 1 }
    refused("syntax errors") { |workflow| workflow["specification"]["tasks"][0].delete("id") }
    refused("syntax errors") { |workflow| workflow["execution"]["makespanInSeconds"] = "1" }
  end

  private

  def refused(words)
    path = export("wfformat", good)
    document = JSON.parse(File.read(path))
    yield document["workflow"]
    File.write(path, JSON.generate(document))
    _, err, status = Open3.capture3(PYTHON, File.join(ROOT, "test/validators/wfformat.py"), path)
    refute status.success?
    assert_includes err, words
  end
end

# Workflow Run RO-Crate, checked by roc-validator.
class CrateTest < Minitest::Test
  include ExportedRuns

  # What the validator recommends and a crate of a run cannot honestly have: who (agent, author, publisher), where tools
  # come from, the media types of data, what a README and a Bioschemas description tell; and a result, for a task
  # without a file.
  UNKNOWN = /
    SHOULD\ have\ (a\ url|a\ version|an\ agent|a\ result) | id\ SHOULD\ be\ an\ absolute\ URI | `author` | `publisher` |
    `encodingFormat`\ linked | README\.md | Bioschemas\ ComputationalWorkflow
  /x
  REQUIRED = /\AREQUIRED /

  # With streams and an environment. What the validator is asked for includes all that is required.
  def test_a_run_keeps_the_provenance_profile
    crate = export("ro-crate", whole, "--license", "https://spdx.org/licenses/CC0-1.0")
    issues = validate(crate, "recommended")["issues"]
    assert_equal [], issues.grep(REQUIRED)
    assert_equal [], issues.grep_v(UNKNOWN)
    graph = entities(crate)
    assert_equal ["stream lines", "10"], graph["#stream/lines"].values_at("name", "value")
    assert_equal %w[File env.yml], graph["#file/env.yml"].values_at("@type", "name")
    tool = graph.values.find { |entity| entity["softwareRequirements"] }
    assert_equal [{ "@id" => "#file/env.yml" }, "sort"], [tool["softwareRequirements"], tool["name"][/\A\S+/]]
  end

  def test_a_failed_run_keeps_the_profile_and_says_what_failed
    crate = export("ro-crate", failed)
    assert_equal [true, []], validate(crate, "required").values_at("passed", "issues")
    graph = entities(crate)
    wrong = graph.values.find { |entity| entity["name"] == "wrong, attempt 1" }
    assert_equal "http://schema.org/FailedActionStatus", wrong["actionStatus"]
    assert_includes wrong["error"], "kill -9 $$"
    refute wrong.key?("result")
    assert_includes graph["#run"]["error"], "1 tasks failed"
    assert(graph.values.none? { |entity| entity["name"].to_s.start_with?("never, attempt") })
  end

  def test_files_lead_from_action_to_action
    graph = entities(export("ro-crate", good))
    all = graph.values.find { |entity| entity["name"] == "all, attempt 1" }
    copies = all["object"].map { |reference| reference["@id"] }
    assert_equal %w[#file/out/one%20copy #file/out/three%20copy #file/out/two%20copy], copies.sort
    makers = graph.values.select { |entity| copies.any? { |copy| entity["result"] == { "@id" => copy } } }
    assert_equal(["out/one copy, attempt 1", "out/three copy, attempt 1", "out/two copy, attempt 1"],
                 makers.map { |entity| entity["name"] }.sort)
    assert_equal "11", graph[all["result"]["@id"]]["contentSize"]
  end

  def test_it_contains_the_rakefile_and_the_journal_and_no_value_of_the_environment
    crate = export("ro-crate", good)
    assert_equal %w[Rakefile journal.jsonl ro-crate-metadata.json], Dir.children(crate).sort
    assert_equal RAKEFILE, File.read(File.join(crate, "Rakefile"))
    Dir.children(crate).each { |name| refute_includes File.read(File.join(crate, name)), SECRET }
  end

  def test_the_validator_refuses_what_is_wrong
    crate = export("ro-crate", good)
    path = File.join(crate, "ro-crate-metadata.json")
    File.write(path, File.read(path).gsub('"HowToStep"', '"Thing"'))
    assert_includes validate(crate, "recommended")["issues"].grep(REQUIRED).join, "ControlAction"
  end

  private

  def validate(crate, severity)
    ask("crate.py", crate, "provenance-run-crate", severity, File.join(File.dirname(crate), "cache"))
  end

  def entities(crate)
    graph = JSON.parse(File.read(File.join(crate, "ro-crate-metadata.json")))["@graph"]
    graph.to_h { |entity| [entity["@id"], entity] }
  end
end

# Perfetto's TrackEvent, read by its trace processor.
class TraceTest < Minitest::Test
  include ExportedRuns

  def test_slices_are_the_attempts_and_commands_of_the_journal
    trace = ask("trace.py", export("perfetto", failed))
    assert_equal [], trace["errors"]
    assert_equal expected_slices(failed), slices(trace, %w[task command]).sort
    trace["slices"].each do |slice|
      next unless slice["category"] == "command"

      assert_equal "task", trace["slices"].find { |other| other["id"] == slice["parent_id"] }["category"]
    end
  end

  def test_slices_of_a_core_do_not_overlap
    trace = ask("trace.py", export("perfetto", good))
    tasks = trace["slices"].select { |slice| slice["category"] == "task" }
    assert_equal [0], tasks.map { |slice| slice["depth"] }.uniq
    tasks.group_by { |slice| slice["track"] }.each_value do |list|
      list.each_cons(2) { |one, two| assert_operator one["ts"] + one["dur"], :<=, two["ts"] }
    end
    assert_operator tasks.map { |slice| slice["track_name"] }.uniq.size, :<=, 2
    assert_equal 1, tasks.map { |slice| slice["node"] }.uniq.size
  end

  def test_flows_lead_from_who_made_a_file_to_who_took_it
    trace = ask("trace.py", export("perfetto", failed))
    names = trace["slices"].to_h { |slice| slice.values_at("id", "name") }
    flows = trace["flows"].map { |flow| flow.values_at("slice_out", "slice_in").map { |id| names[id] } }
    copies = ["out/one copy", "out/three copy", "out/two copy"]
    assert_equal [%w[all wrong], *copies.map { |copy| [copy, "all"] }, %w[ruby wrong]], flows.sort
  end

  def test_failures_reasons_and_counters_are_there
    trace = ask("trace.py", export("perfetto", failed))
    failures = trace["slices"].select { |slice| slice["category"] == "failure" }
    assert_equal(["failed: wrong"], failures.map { |slice| slice["name"] })
    wrong = trace["slices"].find { |slice| slice["name"] == "wrong" }
    notes = trace["annotations"].select { |note| note["id"] == wrong["id"] }.to_h { |note| note.values_at("key", "value") }
    assert_equal %w[failed missing], notes.values_at("debug.outcome", "debug.reasons")
    all = trace["counts"].select { |count| count["name"] == "all" }.map { |count| count["value"] }
    assert_equal 0, all.last
    assert_includes 1..2, all.max
    assert_equal events(failed).first["time_ns"], trace["clock"][0]["clock_value"]
  end

  private

  # Name, start and duration.
  def slices(trace, categories)
    wanted = trace["slices"].select { |slice| categories.include?(slice["category"]) }
    wanted.map { |slice| slice.values_at("name", "ts", "dur") }
  end

  def expected_slices(folder)
    lines = events(folder)
    attempts = pairs(lines, "attempt", "task").flat_map do |one, two|
      two["held_ns"].each_slice(2).map { |from, to| [tasks(folder)[one["task"]], one["time_ns"] + from, to - from] }
    end
    commands = pairs(lines, "command", "command").map do |one, two|
      [(one["words"] || [one["line"].split.first]).first, *times(one, two)]
    end
    (attempts + commands).sort
  end

  def pairs(lines, kind, key)
    lines.select { |event| event["event"] == "#{kind}_started" }.map do |one|
      [one, lines.find { |event| event["event"] == "#{kind}_ended" && event[key] == one[key] }]
    end
  end

  def times(one, two)
    [one["time_ns"], two["time_ns"] - one["time_ns"]]
  end
end

# The dot language, read by Graphviz.
class DotTest < Minitest::Test
  include ExportedRuns

  def test_the_graph_of_tasks_is_drawn
    svg = draw(export("dot", failed))
    titles = svg.scan(%r{<g id="node\d+" class="node">\n<title>[^<]*</title>}).size
    assert_equal 7 + 1 + 3, titles, "tasks with an action, one that did not run, and sources"
    assert_includes svg, "out/one copy"
    assert_includes svg, "#c00000"
  end

  def test_the_graph_of_rules_is_drawn
    svg = draw(export("dot", good, "--of", "rules"))
    assert_includes svg, "3 tasks, mean"
    assert_match(/Rakefile:\d+/, svg)
  end

  private

  def draw(path)
    out, err, status = Open3.capture3("dot", "-Tsvg", path)
    assert status.success?, err
    assert_empty err
    out
  end
end

# The command itself.
class ExportCommandTest < Minitest::Test
  include ExportedRuns

  FORMATS = %w[wfformat ro-crate perfetto dot].freeze

  def test_a_journal_cut_after_any_line_is_exported_or_refused_in_one_line
    lines = File.readlines(Dir[File.join(failed, ".rakuda/runs/*/journal.jsonl")].fetch(0))
    cut = File.join(failed, "journal.jsonl")
    (1..lines.size).each do |count|
      File.write(cut, lines.first(count).join + '{"event":"task_def')
      FORMATS.each do |format|
        output = File.join(failed, "cut.#{format}")
        FileUtils.rm_rf(output)
        out, status = Open3.capture2e(CONTROL, "export", format, cut, "-o", output, chdir: failed)
        next if status.success?

        assert_match(/\Arakudactl: run \S+ has no task that ran or was to run, and WfFormat has no form for that\n\z/, out)
        refute_path_exists output
      end
    end
  end

  def test_a_file_is_replaced_and_a_crate_is_not
    path = export("dot", good)
    File.write(path, "old")
    control("export", "dot", "-o", path)
    assert_equal [0, ""], [@status, @out]
    assert File.read(path).start_with?("digraph")
    crate = export("ro-crate", good)
    control("export", "ro-crate", "-o", crate)
    assert_equal [1, "rakudactl: #{crate} exists: remove it, or name another folder\n"], [@status, @out]
    assert_empty Dir[File.join(good, "*unfinished*")]
  end

  def test_dash_is_the_standard_output
    control("export", "dot", "-o", "-")
    assert_equal File.read(export("dot", good)), @out
  end

  def test_formats_of_text_go_to_the_standard_output_by_themselves
    %w[wfformat dot junit].each do |format|
      control("export", format)
      assert_equal [0, File.read(export(format, good))], [@status, @out], format
    end
    control("export", "perfetto")
    assert_match(/no text: name a file with -o, as in -o run.pftrace/, @out)
    control("export", "ro-crate")
    assert_match(/a crate is a folder: name a new one with -o, as in -o crate/, @out)
  end

  def test_a_reader_that_goes_away_is_no_error
    %w[wfformat perfetto dot].each do |format|
      line = %("$0" export #{format} -o - | true; exit ${PIPESTATUS[0]})
      out, status = Open3.capture2e("bash", "-c", line, CONTROL, chdir: good)
      assert_equal ["", 0], [out, status.exitstatus]
    end
  end

  def test_what_makes_no_sense_is_one_line_and_status_two
    [%w[ro-crate -o -], %w[ro-crate], %w[perfetto], %w[wfformat -o x --of rules], %w[dot -o x --license y],
     %w[png -o x]].each do |words|
      control("export", *words)
      assert_equal [2, 1], [@status, @out.lines.size], @out
    end
  end

  def test_a_folder_that_is_not_there_is_named
    control("export", "dot", "-o", "nowhere/a.dot")
    assert_equal 1, @status
    assert_equal "rakudactl: cannot write nowhere/a.dot: No such file or directory (os error 2)\n", @out
  end

  private

  def control(*words)
    @out, status = Open3.capture2e(CONTROL, *words, chdir: good)
    @status = status.exitstatus
  end
end

# JUnit's XML, read as continuous integration reads it: there is no tool that knows the format alone.
class JunitTest < Minitest::Test
  include ExportedRuns

  # It needs none of the validators.
  def setup; end

  def test_steps_are_cases_and_a_failure_has_its_output
    Dir.mktmpdir("rakuda-junit") do |folder|
      File.write(File.join(folder, "Rakefile"), <<~RUBY)
        task(:bad) { sh "echo '<half>' && exit 3" }
        task(after: :bad) { sh "true" }
        task(:good) { sh "true" }
        task default: %i[good after]
      RUBY
      _, status = Open3.capture2e(RAKUDA, "-q", "--failure", "continue", chdir: folder)
      assert_equal 1, status.exitstatus
      suite = REXML::Document.new(File.read(export("junit", folder))).root.elements["testsuite"]
      cases = suite.elements.to_a("testcase").to_h { |one| [one.attributes["name"], one.elements["failure|skipped"]&.name] }
      assert_equal({ "good" => nil, "bad" => "failure", "after" => "skipped" }, cases)
      counts = %w[tests failures errors skipped].map { |name| suite.attributes[name] }
      assert_equal %w[3 1 0 1], counts
      assert_equal "command: echo '<half>' && exit 3\n<half>", suite.elements["testcase/failure"].text
      properties = suite.elements.to_a("testcase[@name='bad']/properties/property").map { |one| one.attributes["name"] }
      assert_equal %w[node attempt], properties
    end
  end
end
