# frozen_string_literal: true

require "fileutils"
require "json"
require "minitest/autorun"
require "open3"
require "tmpdir"
require_relative "module_imports"
require_relative "type_homes"

# The edges between the crates that ARCHITECTURE.md allows, and no other. Dependencies of tests count too.
class ArchitectureTest < Minitest::Test
  ROOT = File.expand_path("..", __dir__)

  # Crate => the crates of ours that it may use. The hub runs an agent in its own process; the binary ties all together.
  ALLOWED = {
    "rakuda-core" => [],
    "rakuda-info" => %w[rakuda-core],
    "rakuda-proto" => %w[rakuda-core],
    "rakuda-link" => %w[rakuda-proto rakuda-core],
    "rakuda-agent" => %w[rakuda-info rakuda-link rakuda-proto rakuda-core],
    "rakuda-locate" => %w[rakuda-agent rakuda-proto],
    "rakuda-record" => %w[rakuda-proto rakuda-core],
    "rakuda-cluster" => %w[rakuda-agent rakuda-link rakuda-locate rakuda-proto rakuda-core],
    "rakuda-hub" => %w[rakuda-cluster rakuda-agent rakuda-info rakuda-link rakuda-locate rakuda-record rakuda-service
                      rakuda-proto rakuda-core],
    "rakuda-service" => %w[rakuda-agent rakuda-info rakuda-link rakuda-proto rakuda-core],
    "rakuda-sim" => %w[rakuda-record rakuda-proto rakuda-core],
    "rakuda-cli" => %w[rakuda-hub rakuda-cluster rakuda-agent rakuda-link rakuda-locate rakuda-sim rakuda-record rakuda-proto
                      rakuda-info rakuda-service
                      rakuda-core]
  }.freeze

  def test_every_crate_has_a_place_in_the_table_of_allowed_edges
    unknown = packages.map { |package| package["name"] } - ALLOWED.keys
    assert_empty unknown, "say in test/architecture_test.rb and ARCHITECTURE.md what these crates may depend on"
  end

  def test_crates_have_no_forbidden_edges
    forbidden = packages.flat_map do |package|
      ours = package["dependencies"].map { |dependency| dependency["name"] }.grep(/\Arakuda-/)
      (ours - ALLOWED.fetch(package["name"], [])).map { |name| "#{package["name"]} -> #{name}" }
    end
    assert_empty forbidden.uniq
  end

  def test_core_is_without_the_standard_library
    assert_match(/^#!\[(?:cfg_attr\(not\(test\), )?no_std\)?\]$/, File.read(File.join(ROOT, "crates/core/src/lib.rs")))
  end

  CLOCKS = /clock::Reading::now\(|(?<!\.)\b(?:monotonic|journal|wall|file|machine)_ns\(\)|\b(?:Instant|SystemTime)::now\b|
            \btokio::time\b|\b(?:thread::sleep|recv_timeout)\(/x
  # Files of hub and core that read a clock, or wait by one, and why.
  CLOCK_READERS = {
    "crates/hub/src/hub.rs" => "the loop: it hands what it has read to all others, and sleeps until they are due",
    "crates/hub/src/staging/relay.rs" => "a transfer in which nothing moves for STALL fails; its report is an event",
    "crates/hub/src/staging/hosts.rs" => "a data link is dialled again and again, until DIAL_LIMIT fails who wants it",
    "crates/hub/src/control.rs" => "a client that is slow to ask is closed; without descriptors the next one waits",
    "crates/hub/src/printer.rs" => "at the end of a run it waits a little for whoever reads the output",
    "crates/hub/src/start.rs" => "before the loop: waits until another process has settled an earlier run",
    "crates/hub/src/record/recover.rs" => "pauses between two tries to lock an earlier run's record",
    "crates/hub/src/progress/earlier.rs" => "the first estimate waits a little for the durations of earlier runs"
  }.freeze

  # What the hub decides and notes is as of the moment that its loop has read.
  def test_clocks_are_read_by_the_loop_of_the_hub_and_by_those_who_only_wait
    readers = %w[hub core].flat_map do |crate|
      texts = RustSources.read(File.join(ROOT, "crates", crate, "src"))
      texts.select { |_, text| text.gsub(/\bfn \w+\(/, "").match?(CLOCKS) }.keys.map { |path| "crates/#{crate}/src/#{path}" }
    end
    assert_equal CLOCK_READERS.keys.sort, readers.sort
    sources = Dir[File.join(ROOT, "crates/{hub,core}/src/**/*.rs")]
    calls = sources.sum { |path| File.read(path).scan(/(?<!fn )read_clocks\(\)/).size }
    assert_operator calls, :<=, 3, "the loop reads the clocks and hands on `now`; tests have times of their own"
  end

  # Files of the hub that wait for something, and then take the time anew.
  LOOPS = %w[replacement.rs serve.rs start.rs stopping.rs].freeze

  def test_only_loops_of_the_hub_take_the_time_anew
    sources = Dir[File.join(ROOT, "crates/hub/src/**/*.rs")]
    assert_equal LOOPS, sources.select { |path| File.read(path).match?(/\.tick\(\)/) }.map { |path| File.basename(path) }.sort
  end

  # What is kept stands in files that do not know who acts on it, so that each can be read by itself.
  CIRCLE_FILES_MAX = 3

  def test_few_files_of_a_crate_import_one_another
    crates = Dir[File.join(ROOT, "crates/*/src")]
    refute_empty crates
    circles = crates.flat_map { |sources| ModuleImports.new(sources).circles.map { |circle| [sources, circle.sort] } }
    assert_empty(circles.select { |_, circle| circle.size > CIRCLE_FILES_MAX })
    assert_includes circles.map(&:last), %w[scheduler::graph scheduler::task], "circles that are there are found"
  end

  # What all parts of the core may import: its interface, and what is shared.
  CORE_SHARED = %w[config event fact ids random requirement suitability time].freeze
  # Parts that know no other; `run` and the hub join them. Not here: `stager` and `reach`, which look at the scheduler.
  CORE_ALONE = %w[attempts files nodes scheduler stopping streams sync].freeze

  def test_parts_of_the_core_know_no_other
    parts = ModuleImports.new(File.join(ROOT, "crates/core/src")).parts
    others = CORE_ALONE.to_h { |part| [part, parts.fetch(part) - CORE_SHARED] }.reject { |_, each| each.empty? }
    assert_equal({ "scheduler" => %w[streams] }, others, "gangs place tasks that streams join")
    assert_equal %w[run], parts.select { |_, each| each.include?("attempts") }.keys, "imports are found"
  end

  # Types whose `impl` stands outside of their folder, by crate, and why.
  SPREAD = {
    "hub::Hub" => "its folder is crates/hub/src: the whole crate is the hub"
  }.freeze

  def test_types_have_their_impl_in_their_own_folder
    spread = Dir[File.join(ROOT, "crates/*/src")].flat_map do |sources|
      crate = File.basename(File.dirname(sources))
      TypeHomes.new(sources).outside.map { |type, files| ["#{crate}::#{type}", files] }
    end
    assert_empty spread.to_h.except(*SPREAD.keys), "move the impl into the folder of the type, or make it a function"
    assert_empty SPREAD.keys - spread.map(&:first), "no exceptions any more"
  end

  def test_impls_outside_of_the_folder_of_their_type_are_found
    Dir.mktmpdir do |sources|
      {
        "lib.rs" => "pub struct Alone;\nimpl Alone {}\n",
        "run.rs" => "pub struct Run<T>(T);\nimpl<T: Into<u8>> Run<T> {}\n",
        "run/names.rs" => "impl<T> Run<T>\nwhere\n    T: Fn() -> u8,\n{\n}\nimpl Flow<'_> {}\n",
        "flows/mod.rs" => "pub(crate) enum Flow<'a> {}\nimpl Default for Run<u8> {}\nimpl super::Alone {}\n",
        "flows/state.rs" => "struct Kept;\nimpl Flow<'_> {}\n",
        "flows/turns.rs" => "impl Kept {}\n// impl Run<u8> {}\n#[cfg(test)]\nmod tests {\nimpl Run<u8> {}\n}\n",
        "find.rs" => "impl<T> crate::run::Run<T> {}\nimpl Kept {}\nimpl Elsewhere {}\nimpl Kept {}\n"
      }.each do |name, text|
        FileUtils.mkdir_p(File.dirname(File.join(sources, name)))
        File.write(File.join(sources, name), text)
      end
      expected = { "Alone" => %w[flows/mod.rs], "Flow" => %w[run/names.rs], "Kept" => %w[find.rs find.rs],
                   "Run" => %w[find.rs] }
      assert_equal expected, TypeHomes.new(sources).outside.sort.to_h
    end
  end

  private

  def packages
    @packages ||= begin
      output, errors, status = Open3.capture3("cargo", "metadata", "--format-version", "1", "--no-deps", "--offline",
                                              chdir: ROOT)
      assert status.success?, errors
      JSON.parse(output).fetch("packages")
    end
  end
end
