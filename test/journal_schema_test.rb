# frozen_string_literal: true

# The journal's JSON Schema against journals of real runs, against lines that are wrong in one field, and against the
# structs that the engine writes. The validator is Debian's python3-jsonschema.

require "fileutils"
require "json"
require "minitest/autorun"
require "open3"
require "tmpdir"

# docs/reference/journal.schema.json holds for what is written, and for nothing else.
class JournalSchemaTest < Minitest::Test
  ROOT = File.expand_path("..", __dir__)
  SCHEMA = File.join(ROOT, "docs/reference/journal.schema.json")
  VALIDATOR = File.join(ROOT, "test/support/validate_lines.py")
  # Debian's own, which has the package; another python in PATH may have none.
  PYTHON = File.executable?("/usr/bin/python3") ? "/usr/bin/python3" : "python3"

  # Fields that a line may do without.
  OPTIONAL = %w[early memory_bytes done held_ns rerun_on environment caller text rule prerequisites order_only up_to_date bytes
                reasons before target inputs metadata_operations run_file_system_operations directory error message retried
                after contents because path by_ns source params secondary parameter t0_ns lag_ns begun_after_ns span_ns fault
                spooled outlived meta env at_fault interrupted cores].freeze

  RAKEFILE = <<~'RUBY'
    needs params: { level: 2 }, outputs: ".idx"
    file("made" => %w[source kept]) { |t| sh "cp", "source", t.name; touch "#{t.name}.idx" }
    file("kept" => "source") { |t| touch t.name }
    file("bad" => "made") { |t| sh "echo half > #{t.name}; exit 3" }
    task(after_bad: "bad") { sh "true" }
    task(:inner) { sh "echo inner" }
    task(:caller) { Rake::Task[:inner].invoke }
    task group: %w[made]
    sync(:together, workers: 2, over: [1], overhead: false, collect: :json) { |w| sh %(sleep 2 & echo '{"a": #{w.id}.5}') }
    needs nodes: 1
    task(:alone) { sh "true" }
    stream :lines, from: "writes", to: "reads", meta: { "writes" => { cost: 3 } }
    task(:writes) { sh "seq 3" }
    task(:reads) { sh "wc -l" }
    needs env: { module: "none/1" }
    task(:inside) { sh "true" }
    task default: %w[group caller alone reads inside after_bad together]
    task(:stop) do
      Process.kill(:INT, Process.pid)
      sh "sleep 600"
    end
  RUBY

  # Events that a run on one machine does not have whose clock nobody sets.
  LOSSES = [{ "event" => "node_lost", "time_ns" => 1, "node" => 0 },
            { "event" => "node_gone", "time_ns" => 1, "node" => 1 },
            { "event" => "node_chosen", "time_ns" => 1, "task" => 0, "attempt" => 1, "node" => 0, "values" => { "a" => "2 B" } },
            { "event" => "task_blamed", "time_ns" => 1, "task" => 0, "nodes" => [1, 2, 3] },
            { "event" => "task_reopened", "time_ns" => 1, "task" => 0 },
            { "event" => "input_lost", "time_ns" => 1, "task" => 0 },
            { "event" => "file_staged", "time_ns" => 1, "task" => 0, "from" => 0, "to" => 1, "bytes" => 2,
              "took_ns" => 3 },
            { "event" => "streams_rerouted", "time_ns" => 1, "opening" => 1, "streams" => [
              { "name" => "s", "route" => { "route" => "relay", "wish" => "auto", "lan" => 2, "wan" => 1, "costs" => [],
                                            "message_ns" => 4, "lan_bytes_per_s" => 7,
                                            "wan_bytes_per_s" => 8, "observed_bytes_per_s" => 5, "observed_per_1000_s" => 6 } }
            ] },
            { "event" => "streams_stalled", "time_ns" => 1, "opening" => 1, "tasks" => [0, 1], "silence_ns" => 2,
              "streams" => [{ "name" => "s", "still" => "empty" }] },
            { "event" => "clock_stepped", "time_ns" => 1, "wall_ns" => 2 }].freeze

  def self.lines
    @lines ||= Dir.mktmpdir("rakuda-schema") do |directory|
      File.write(File.join(directory, "Rakefile"), RAKEFILE)
      %w[source kept].each { |name| File.write(File.join(directory, name), name) }
      rerun = %w[--rerun-on command,inputs,content,env --rerun-env HOME,NOT_SET made]
      [rerun, %w[-j 2 -B --retry 1 --failure continue], %w[-j 2 stop]].each do |words|
        Open3.capture2e(File.join(ROOT, "bin/rakuda"), *words, chdir: directory)
      end
      Dir[File.join(directory, ".rakuda/runs/*/journal.jsonl")].flat_map { |path| File.readlines(path, chomp: true) }
    end
  end

  def test_journals_of_real_runs_are_valid_and_have_all_events
    assert_equal event_names, (events + LOSSES).map { |event| event["event"] }.uniq.sort
    assert_empty complaints(self.class.lines + LOSSES.map { |event| JSON.generate(event) }).reject(&:empty?)
    assert(%w[environment contents before source params secondary env].all? { |field| events.any? { |event| event[field] } })
  end

  def test_misspelt_fields_are_found
    mutants = samples.flat_map do |event|
      event.keys.map { |field| event.transform_keys { |key| key == field ? "#{key}_" : key } }
    end
    assert_all_invalid mutants
  end

  def test_missing_fields_are_found
    mutants = samples.flat_map do |event|
      more = { "command_started" => %w[task], "command_prepared" => %w[task], "gang_started" => %w[nodes],
               "round_ended" => %w[collect] }
      optional = OPTIONAL + more.fetch(event["event"], [])
      (event.keys - optional).map { |field| event.except(field) }
    end
    assert_all_invalid mutants
  end

  def test_fields_of_another_type_are_found
    mutants = samples.flat_map { |event| event.keys.map { |field| event.merge(field => nil) } }
    mutants += samples.flat_map { |event| event.keys.map { |field| event.merge(field => { "odd" => [1.5] }) } }
    assert_all_invalid mutants
  end

  def test_events_of_later_versions_are_valid_but_a_later_version_is_not
    assert_empty complaints(['{"event":"task_dreamt","of":1}']).reject(&:empty?)
    started = events.find { |event| event["event"] == "run_started" }
    assert_all_invalid [started.merge("version" => 3)]
  end

  def test_schema_has_the_fields_of_the_engine
    schema = JSON.parse(File.read(SCHEMA)).fetch("$defs")
    structs.each do |name, fields|
      event = name.gsub(/(?<!^)([A-Z])/, '_\1').downcase
      assert_equal fields.sort, (schema.fetch(event)["properties"].keys - ["event"]).sort, name
    end
  end

  private

  def events
    @events ||= self.class.lines.map { |line| JSON.parse(line) }
  end

  # One of each event, with as many fields as there are.
  def samples
    events.group_by { |event| event["event"] }.map { |_, alike| alike.max_by(&:size) } + LOSSES
  end

  def rust
    @rust ||= File.read(File.join(ROOT, "crates/proto/src/journal.rs"))
  end

  def event_names
    rust[/enum JournalEvent \{(.*?)^\}/m, 1].scan(/^ +([A-Z]\w+)\(/).flatten
        .map { |name| name.gsub(/(?<!^)([A-Z])/, '_\1').downcase }.sort
  end

  # The structs of events, with their fields.
  def structs
    names = rust[/enum JournalEvent \{(.*?)^\}/m, 1].scan(/\((\w+)\)/).flatten
    names.to_h { |name| [name, rust[/struct #{name} \{(.*?)^\}/m, 1].scan(/^ +pub (\w+):/).flatten] }
  end

  # What is wrong with each line; empty when nothing is.
  def complaints(lines)
    out, status = Open3.capture2(PYTHON, VALIDATOR, SCHEMA, stdin_data: lines.map { |line| "#{line}\n" }.join)
    assert_predicate status, :success?
    assert_equal lines.size, out.lines.size
    out.lines(chomp: true)
  end

  def assert_all_invalid(mutants)
    refute_empty mutants
    lines = mutants.map { |event| JSON.generate(event) }
    passed = lines.zip(complaints(lines)).select { |_, complaint| complaint.empty? }.map(&:first)
    assert_empty passed
  end
end
