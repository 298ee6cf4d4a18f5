# frozen_string_literal: true

# The statement `sync` and the configuration of `rakudactl sync` as far as they need no engine: what they take, what
# they say of mistakes, which tasks come of it, and that `sync` is in nobody's way.

require "json"
require "minitest/autorun"
require "open3"
require "rbconfig"
require "tmpdir"
require "rakuda"
require "rakuda/sync"
require "rakuda/sync_configuration"

class SyncTest < Minitest::Test
  RAKUDA = File.expand_path("../bin/rakuda", __dir__)
  LIB = File.expand_path("../lib", __dir__)

  MISTAKES = {
    "sync(:a) { }" => "workers: is missing: how many begin together?",
    "sync(:a, workers: 0) { }" => "workers: expected a whole number from 1 to 100000, not 0",
    "sync(:a, workers: 2, worker: 3) { }" => "unknown keyword worker; there are workers, over",
    "sync(:a, workers: 2, over: []) { }" => "over: expected a list of parameters, such as %w[4k 8k 16k], not []",
    "sync(:a, workers: 2, rounds: 1.5) { }" => "rounds: expected a whole number from 1 to 1000000, not 1.5",
    "sync(:a, workers: 2, gate: :door) { }" => "gate: expected :auto, :preload, :exec, :call, :none, not :door",
    "sync(:a, workers: 2, stop_after: -1) { }" => "stop_after: expected seconds, such as 0.5, not -1",
    "sync(:a, workers: 2, offset: 'x') { }" => "offset: expected seconds, such as 0.5, not \"x\"",
    "sync(:a, workers: 2, cache: :hot, files: 'x') { }" => "cache: expected :cold or :warm, not :hot",
    "sync(:a, workers: 2, cache: :cold) { }" => "cache: needs files:, such as %w[data.%w]",
    "sync(:a, workers: 2, files: 'x') { }" => "files: is for cache: :cold or :warm",
    "sync(:a, workers: 2, cache: :cold, files: [1]) { }" => "files: expected names of files, such as %w[data.%w], or a lambda",
    "sync(:a, workers: 2, cache: :cold, files: 'x', gate: :call) { }" =>
      "cache: needs a gate that Rakuda holds (:auto, :preload or :exec), not gate: :call",
    "sync(:a, workers: 2, pin: 1) { }" => "pin: expected true or false, not 1",
    "sync(:a, workers: 2, overhead: -1) { }" => "overhead: expected a number of rounds, true or false, not -1",
    "sync(:a, workers: 2, stop_after: 1, gate: :none) { }" => "stop_after: needs a gate, not gate: :none",
    "sync(:a, workers: 2, collect: { bw: /x/ }) { }" => "collect: bw: expected one group for the number, and /x/ has 0",
    "sync(:a, workers: 2, collect: { 'b w' => /(x)/ }) { }" => "collect: expected a name of letters",
    "sync(:a, workers: 2, collect: { bw: '(' }) { }" => "collect: bw: no pattern: end pattern with unmatched parenthesis",
    "sync(:a, workers: 2, collect: :xml) { }" => "collect: expected patterns with one group for the number, such as",
    "sync(:a, workers: 2) { }; sync(:a, workers: 1) { }" => "sync :a is defined twice, first at Rakefile:2: give one of them",
    "2.times { namespace(:n) { sync(:a, workers: 1) { } } }" => "sync :n:a is defined twice, first at Rakefile:2: give one of",
    "sync(:a, workers: 2)" => "expected a block that starts a worker's command",
    "sync(workers: 2) { }" => "expected a name, such as `sync :write, workers: 8 do |w| ... end`"
  }.freeze

  def test_mistakes_are_told_with_their_line
    MISTAKES.each do |line, complaint|
      out, status = rakuda("\n#{line}\ntask :default\n", "-T")
      refute status.success?, line
      assert_includes out, "Rakefile:2: sync: #{complaint}", line
    end
  end

  def test_tasks_are_those_of_the_figures
    out, = rakuda('sync(:write, workers: 2, over: %w[4k 8k]) { |w| sh "true" }', "-P")
    expected = {
      "write" => %w[write:Sync_2], "write:Sync_2" => %w[write:task_1_w0 write:task_1_w1], "write:task_1_w0" => %w[write:Sync_1],
      "write:task_1_w1" => %w[write:Sync_1], "write:Sync_1" => %w[write:task_0_w0 write:task_0_w1],
      "write:task_0_w0" => %w[write:Sync_0], "write:task_0_w1" => %w[write:Sync_0],
      "write:Sync_0" => %w[write:null_w0 write:null_w1], "write:null_w0" => %w[write:Sync_null],
      "write:null_w1" => %w[write:Sync_null], "write:Sync_null" => []
    }
    shown = out.scan(/^rakuda (\S+)\n((?:    \S+\n)*)/).to_h { |name, rest| [name, rest.split] }
    assert_equal expected, shown
  end

  def test_there_are_as_many_rounds_that_do_nothing_as_are_wanted
    out, = rakuda('sync(:write, workers: 1, overhead: 2) { |w| sh "true" }', "-P")
    shown = out.scan(/^rakuda (\S+)\n((?:    \S+\n)*)/).to_h { |name, rest| [name, rest.split] }
    assert_equal %w[write:null_1_w0], shown["write:Sync_0"]
    assert_equal %w[write:null_w0], shown["write:Sync_null_1"]
  end

  def test_what_a_stop_would_end_before_it_begins_is_refused
    options = Rakuda::SyncOptions.new({ workers: 2, stop_after: 0.2, offset: [0, 0.2] })
    assert_equal 0, options.offset_ns(worker(0, nil))
    error = assert_raises(Rakuda::ConfigurationError) { options.offset_ns(worker(1, nil)) }
    assert_includes error.message, "offset: worker 1 would begin 0.2 s after the instant, and stop_after: 0.2 ends it before"
    %i[stop_after ready_within].each do |name|
      error = assert_raises(Rakuda::ConfigurationError) { Rakuda::SyncOptions.new({ workers: 2, name => 0 }) }
      assert_equal "#{name}: expected seconds above 0, such as 0.5, not 0", error.message
    end
    in_folder({}) do
      environment = { "WORKER_COUNT" => "3", "TASK_FILE" => "true" }
      refused = { { offset: -1 } => "--offset: expected seconds",
                  { offset: 0.1, stop_after: 0.2 } => "--offset: the last of 3 workers would begin" }
      refused.each do |said, expected|
        configuration = Rakuda::SyncConfiguration.new(nil, environment, said)
        error = assert_raises(Rakuda::ConfigurationError) { configuration.define(nil) }
        assert_includes error.message, expected
      end
    end
  end

  def test_figures_are_found_in_what_programs_print
    patterns = Rakuda::SyncCollect.new({ bandwidth: /BW=([\d.]+)/, "lat/us" => "lat (\\S+)" })
    assert_equal %w[bandwidth lat/us], patterns.names
    assert_equal({ "bandwidth" => 12.5, "lat/us" => 500.0 }, patterns.values("BW=1\nBW=12.5 lat .5e3\n\xff".b))
    assert_equal({}, patterns.values("BW= lat 1e999\n"))
    object = Rakuda::SyncCollect.new(:json)
    assert_equal({ "b" => 2.5 }, object.values("{\"a\":1}\n {\"b\": 2.5, \"c\": \"x\"}\nend {}\n"))
    assert_equal({}, object.values("{broken\n"))
    nested = "fio: started\n{\n \"jobs\": [\n  {\n   \"read\": {\"bw\": 5, \"name\": \"x\"}\n  }\n ]\n}\ndone\n"
    assert_equal({ "jobs.0.read.bw" => 5.0 }, object.values(nested))
    many = (0..Rakuda::SyncCollect::NUMBERS_MAX).to_h { |number| [number.to_s, number] }
    assert_equal({}, object.values("#{many.to_json}\n"))
  end

  def test_the_command_line_says_what_is_collected
    in_folder({}) do
      environment = { "WORKER_COUNT" => "1", "TASK_FILE" => "true", "COLLECT" => "json" }
      error = assert_raises(Rakuda::ConfigurationError) { Rakuda::SyncConfiguration.new(nil, environment, { collect: %w[bw] }) }
      assert_includes error.message, "--collect: expected NAME=REGEX, or json alone, not bw"
      error = assert_raises(Rakuda::ConfigurationError) do
        Rakuda::SyncConfiguration.new(nil, environment.merge("COLLECT" => "{"), {})
      end
      assert_includes error.message, "COLLECT={: expected json, NAME=REGEX, or an object of such patterns"
    end
  end

  def test_a_program_that_is_on_other_nodes_alone_is_no_mistake
    environment = { "WORKER_COUNT" => "1", "TASK_FILE" => "/nowhere/program" }
    configuration = Rakuda::SyncConfiguration.new(nil, environment, {}, elsewhere: true)
    assert_equal %w[/nowhere/program], configuration.command(worker(0, nil))
    assert_raises(Rakuda::ConfigurationError) { Rakuda::SyncConfiguration.new(nil, environment, {}) }
  end

  def test_names_prerequisites_and_descriptions_are_as_of_other_tasks
    out, = rakuda(<<~RUBY, "-P", "run:read")
      namespace(:run) { sync({ read: %w[data] }, workers: 1, overhead: false) { |w| sh "true" } }
      task "data"
    RUBY
    assert_match(/^rakuda run:read:Sync_0\n    data\n/, out)
    out, = rakuda("desc 'writes'\nsync(:write, workers: 1) { |w| sh 'true' }", "-T")
    assert_equal "rakuda write  # writes\n", out
  end

  def test_a_method_or_a_variable_of_that_name_wins
    out, status = rakuda(<<~RUBY, "-q", "-T")
      def sync(what) = puts("mine \#{what}")
      sync "files"
      sync = 3
      puts sync + 1, $stdout.sync
    RUBY
    assert status.success?, out
    assert_equal "mine files\n4\nfalse\n", out
  end

  def test_plain_rake_says_that_it_cannot
    Dir.mktmpdir do |folder|
      File.write(File.join(folder, "Rakefile"), "require 'rakuda/dsl'\nsync(:a, workers: 2) { }\n")
      rake = Gem.bin_path("rake", "rake")
      out, status = Open3.capture2e({ "RUBYOPT" => nil }, RbConfig.ruby, "-I", LIB, rake, "-T", chdir: folder)
      refute status.success?
      assert_includes out, "start this Rakefile with rakuda, not rake"
    end
  end

  def test_the_configuration_is_that_of_the_paper
    in_folder("c.rb" => <<~RUBY) do
      WORKER_COUNT = 8
      TASK_FILE = "./command"
      PARAMETER_ARRAY = ["4k", "8k", "16k"]
      ARGUMENTS = "-i 10 -d /tmp/work"
    RUBY
      configuration = Rakuda::SyncConfiguration.new("c.rb", {}, {})
      assert_equal [[8], %w[./command], %w[4k 8k 16k]], [configuration.workers, configuration.programs, configuration.parameters]
      assert_equal %w[./command -i 10 -d /tmp/work 8k], configuration.command(worker(3, "8k"))
      environment = { "WORKER_COUNT" => "2", "PARAMETER_ARRAY" => "1,2", "ARGUMENTS" => "--at %w/%p %%w 'a b'" }
      changed = Rakuda::SyncConfiguration.new("c.rb", environment, {})
      assert_equal [[2], %w[1 2]], [changed.workers, changed.parameters]
      assert_equal ["./command", "--at", "3/1", "%w", "a b"], changed.command(worker(3, "1"))
    end
  end

  # What stands for `p` in ARGUMENTS, and what a worker executes then.
  FILLED = {
    ["", "a b"] => ["a b"], ["", "it's"] => ["it's"], ["-x '%p'", "a b"] => ["-x", "a b"],
    ["--at=%p/%w", "a b"] => ["--at=a b/0"], ["'%p %w' -x", "$(y)"] => ["$(y) 0", "-x"], ["%%p", "4k"] => %w[%p 4k],
    ["-x", %w[-b 4k]] => %w[-x -b 4k], ["%p -x", %w[-b 4k]] => %w[-b 4k -x], ["--at=%p", [1, "a b"]] => ["--at=1 a b"],
    ["-x", []] => %w[-x], ["-x", ""] => ["-x", ""]
  }.freeze

  def test_a_parameter_is_one_word_whatever_is_in_it_and_a_list_is_its_words
    in_folder({}) do
      FILLED.each do |(arguments, parameter), words|
        environment = { "WORKER_COUNT" => "1", "TASK_FILE" => "true", "ARGUMENTS" => arguments,
                        "PARAMETER_ARRAY" => JSON.generate([parameter]) }
        configuration = Rakuda::SyncConfiguration.new(nil, environment, {})
        executed = configuration.command(worker(0, configuration.parameters[0]))
        assert_equal ["true", *words], executed, [arguments, parameter].inspect
      end
    end
  end

  def test_a_text_and_a_list_that_look_alike_are_told_apart
    text = "WORKER_COUNT = 1\nTASK_FILE = 'true'\nPARAMETER_ARRAY = ['-b 4k', %w[-b 4k]]\nreturn\nraise 'not here'"
    in_folder("c.rb" => text) do
      configuration = Rakuda::SyncConfiguration.new("c.rb", {}, {})
      assert_equal ["-b 4k"] * 2, configuration.parameters
      commands = configuration.parameters.map { |parameter| configuration.command(worker(0, parameter)) }
      assert_equal [["true", "-b 4k"], %w[true -b 4k]], commands
    end
  end

  def test_groups_of_workers_have_programs_of_their_own
    environment = { "TASK_FILE" => "true" }
    in_folder("c.rb" => "WORKER_COUNT = [1, 2]\nTASK_FILE = ['cat', './command']",
              "d.rb" => "WORKER_COUNT = 3\nTASK_FILE = %w[cat true]") do
      grouped = Rakuda::SyncConfiguration.new("c.rb", {}, {})
      assert_equal %w[cat ./command ./command], programs(grouped)
      turns = Rakuda::SyncConfiguration.new("d.rb", {}, {})
      assert_equal %w[cat true cat], programs(turns)
      alone = Rakuda::SyncConfiguration.new(nil, environment.merge("WORKER_COUNT" => "1"), {})
      assert_equal %w[true], alone.command(worker(0, nil))
    end
  end

  CONFIGURATION_MISTAKES = {
    "TASK_FILE = 'true'" => "c.rb: WORKER_COUNT is missing",
    "WORKER_COUNT = 0\nTASK_FILE = 'true'" => "c.rb:1: WORKER_COUNT: expected a number from 1 on",
    "WORKER_COUNT = 1\nTASK_FILE = './nothere'" => "c.rb:2: TASK_FILE ./nothere: no such file",
    "WORKER_COUNT = 1\nTASK_FILE = './c.rb'" => "c.rb:2: TASK_FILE ./c.rb is no program: chmod +x it",
    "WORKER_COUNT = [1, 2]\nTASK_FILE = 'true'" => "c.rb:1: WORKER_COUNT: expected one number, or as many",
    "WORKER_COUNT = 1\nTASK_FILE = 'true'\nPARAMETER_ARRAY = 3" => "c.rb:3: PARAMETER_ARRAY: expected a list of parameters",
    "WORKER_COUNT = 1\nTASK_FILE = 'true'\nARGUMENTS = \"a 'b\"" => "c.rb:3: ARGUMENTS: expected words as in a shell",
    "WORKER_COUNT = 1\nTASK_FILE = 'true'\nCOLLECT = { bw: '(' }" => "c.rb:3: COLLECT: bw: no pattern: end pattern with",
    "WORKER_COUNT = 1\nTASK_FILE = 'true'\nCOLLECT = 3" => "c.rb:3: COLLECT: expected patterns with one group",
    "WORKER_COUNTS = 1\nTASK_FILE = 'true'" => "c.rb:1: WORKER_COUNTS: expected WORKER_COUNT",
    "WORKER_COUNT = 1\nTASK_FILE = 'true'\nSIZE = 1\nARGUMENT = '-x'" => "c.rb:4: ARGUMENT: expected ARGUMENTS",
    "WORKER_COUNT = 1\nTASK_FILE = '.'" => "c.rb:2: TASK_FILE . is a folder: name a program in it",
    "WORKER_COUNT = 1\nTASK_FILE = './'" => "c.rb:2: TASK_FILE ./ is a folder: name a program in it",
    "WORKER_COUNT = 1\nTASK_FILE = 'no program'" => "c.rb:2: TASK_FILE no program: no such file in /",
    "WORKER_COUNT = 1\nTASK_FILE = 'true'\nPARAMETER_ARRAY = [[['x']]]" => "c.rb:3: PARAMETER_ARRAY: expected a list of",
    "WORKER_COUNT = 1\nTASK_FILE = 'true'\nARGUMENTS = \"it's\"" => "c.rb:3: ARGUMENTS: expected words as in a shell, with",
    "WORKER_COUNT = 1\nexit" => "c.rb:2: expected names with values, not a call of exit: take it away",
    "WORKER_COUNT = 1\nabort 'why'" => "c.rb:2: expected names with values, not a call of exit or abort (why): take it away",
    "WORKER_COUNT = 1\nrequire 'nothere/at_all'" => "c.rb:2: cannot load such file",
    "WORKER_COUNT = 1\nend" => "c.rb:2: syntax error",
    "WORKER_COUNT = 1\nNOTHING.x" => "c.rb:2: uninitialized constant NOTHING"
  }.freeze

  def test_mistakes_of_a_configuration_are_told_with_their_place
    CONFIGURATION_MISTAKES.each do |text, complaint|
      in_folder("c.rb" => text) do
        error = nil
        capture_io do # of `abort`
          error = assert_raises(Rakuda::ConfigurationError, text) { Rakuda::SyncConfiguration.new("c.rb", {}, {}) }
        end
        assert_includes error.message, complaint
      end
    end
    error = assert_raises(Rakuda::ConfigurationError) { Rakuda::SyncConfiguration.new("nothere.rb", {}, {}) }
    assert_includes error.message, "nothere.rb: no such file"
  end

  def test_a_program_of_other_nodes_is_looked_up_there
    environment = { "WORKER_COUNT" => "1", "TASK_FILE" => "no program" }
    configuration = Rakuda::SyncConfiguration.new(nil, environment, {}, elsewhere: true)
    assert_equal ["no program"], configuration.command(worker(0, nil))
  end

  OPTION_MISTAKES = {
    { gate: "wrong" } => "--gate: expected auto, preload, exec, call, none, not \"wrong\"",
    { rounds: 0 } => "--rounds: expected a whole number from 1",
    { workers: [0] } => "--workers: expected a number from 1 on",
    { ready_within: -1 } => "--ready-within: expected seconds",
    { stop_after: 1, gate: "none" } => "--stop-after: needs a gate, not gate: none"
  }.freeze

  def test_mistakes_of_options_are_told_with_their_name
    in_folder("c.rb" => "WORKER_COUNT = 1\nTASK_FILE = 'true'") do
      OPTION_MISTAKES.each do |options, complaint|
        error = assert_raises(Rakuda::ConfigurationError, complaint) do
          Rakuda::SyncConfiguration.new("c.rb", {}, options).define(nil)
        end
        assert_includes error.message, complaint
      end
    end
  end

  private

  # Of three workers.
  def programs(configuration)
    (0..2).map { |id| configuration.command(worker(id, nil)).first }
  end

  def worker(id, parameter)
    Rakuda::Sync::Worker.new(id: id, parameter: parameter, round: 0, workers: 8, repetition: 0)
  end

  def in_folder(files, &block)
    Dir.mktmpdir do |folder|
      files.each { |name, text| File.write(File.join(folder, name), text) }
      File.write(File.join(folder, "command"), "#!/bin/sh\n", perm: 0o755)
      Dir.chdir(folder, &block)
    end
  end

  def rakuda(rakefile, *words)
    Dir.mktmpdir do |folder|
      File.write(File.join(folder, "Rakefile"), rakefile)
      return Open3.capture2e({ "RUBYOPT" => nil, "RAKEOPT" => nil }, RAKUDA, *words, chdir: folder)
    end
  end
end
