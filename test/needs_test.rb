# frozen_string_literal: true

# The statement `needs`: what it takes, what it says of mistakes, and that it is in nobody's way.

require "json"
require "minitest/autorun"
require "open3"
require "pathname"
require "rakuda"
require_relative "support/rakefile_run"

class NeedsTest < Minitest::Test
  include RakefileRun

  def setup
    @engine_environment = Engines::REAL
  end

  def test_keywords_become_the_fields_that_properties_become
    wanted = Rakuda::Properties.parse("ncore=4 memory=8G resource=gpu:1 retry=2 exclusive=yes reserve=no allow=h1,h2 deny=h3 " \
                                      "order=allow,deny steal=no")
    keywords = { cores: 4, memory: "8G", resource: "gpu:1", retry: 2, exclusive: true, reserve: false, allow: %w[h1 h2],
                 deny: "h3", order: "allow,deny", steal: false }
    assert_equal wanted.merge("strict" => %w[cores memory_bytes resources]), Rakuda::Needs.fields(keywords)
    assert_equal({ "gpu" => 2, "fpga" => 1 }, Rakuda::Needs.fields(resource: { gpu: 2, fpga: 1 })["resources"])
    assert_equal({ "gpu" => 2, "fpga" => 1 }, Rakuda::Needs.fields(resource: ["gpu:2", :fpga])["resources"])
    assert_equal 5000, Rakuda::Needs.fields(memory: 5000)["memory_bytes"]
  end

  def test_delay_is_a_time_and_memory_may_depend_on_the_attempt
    delays = { 3 => 3000, 0.5 => 500, "250ms" => 250, "10s" => 10_000, "1.5 min" => 90_000, "2m" => 120_000, "1h" => 3_600_000 }
    delays.each { |said, ms| assert_equal({ "retry_delay_ms" => ms, "strict" => [] }, Rakuda::Needs.fields(retry_delay: said)) }
    asked = ->(attempt) { attempt * 1000 }
    assert_equal [1000, 2000, 3000], Rakuda::Needs.memory_by_attempt(asked, 2)
    assert_equal [1000, 4096], Rakuda::Needs.memory_by_attempt(->(attempt) { attempt == 1 ? 1000 : "4K" }, 9)
    never = ->(attempt) { attempt > 1 ? nil : 1 }
    error = assert_raises(Rakuda::ConfigurationError) { Rakuda::Needs.memory_by_attempt(never, 2) }
    assert_equal 'memory, for attempt 2: expected a number of bytes, such as "512M" or "4G", not nil', error.message
    fields = { "memory_bytes" => [1, 2], "strict" => %w[cores memory_bytes], "cores" => 2 }
    assert_equal [fields.merge("memory_bytes" => 1), fields.merge("memory_bytes" => 2, "later" => true, "strict" => %w[cores])],
                 Rakuda::Needs.by_attempt(fields)
  end

  MISTAKES = {
    "coers: 2" => "unknown keyword coers; did you mean cores?", "ncore: 2" => "unknown keyword ncore; did you mean cores?",
    "mem: '1G'" => "unknown keyword mem; did you mean memory?",
    "xyzzy: 2" => "unknown keyword xyzzy; there are cores, nodes, memory, resource, retry, retry_delay, exclusive, reserve, " \
                  "allow, deny, order, steal, where, prefer, locality, params, outputs, inputs, env",
    "where: 5" => "where: expected an expression of at most 4096 bytes, such as \"mem_available > 8GiB && load1 < 2\", not 5",
    "prefer: ' '" => "prefer: expected an expression of at most 4096 bytes, such as \"-load1\", not \" \"",
    "locality: 1" => "locality: expected true or false, not 1",
    "constraint: 'x'" => "unknown keyword constraint; did you mean where?",
    "output: 'x'" => "unknown keyword output; did you mean outputs?",
    "secondary_files: 'x'" => "unknown keyword secondary_files; did you mean outputs?",
    "outputs: 3" => "outputs: expected patterns of file names, such as \"ref.fa.*\" or %w[.bai ^.dict], not 3",
    "inputs: { a: 1 }" => "inputs: expected patterns of file names, such as \"ref.fa.*\" or %w[.bai ^.dict], not " \
                          "#{{ a: 1 }.inspect}",
    "inputs: [nil]" => "inputs: expected patterns of file names, such as \"ref.fa.*\" or %w[.bai ^.dict], not nil",
    "outputs: ''" => "outputs: expected patterns of 1 to 4096 bytes, not \"\"",
    "outputs: '/tmp/x'" => "outputs: expected names in the run's folder, not \"/tmp/x\"",
    "outputs: 'a/../../x'" => "outputs: expected names in the run's folder, not \"a/../../x\"",
    "outputs: 'x.{a,b}'" => "outputs: expected * and ? as wildcards (write alternatives as a list), not \"x.{a,b}\"",
    "outputs: '*/x'" => "outputs: expected wildcards in the last part of the name only, not \"*/x\"",
    "inputs: 'folder/'" => "inputs: expected names of files, not \"folder/\"",
    "inputs: '^'" => "inputs: expected something after ^, such as \"^.dict\", not \"^\"",
    "inputs: '.d/x'" => "inputs: expected something without / after ^ or a dot, not \".d/x\"",
    "inputs: ['a'] * 1001" => "inputs: expected at most 1000 patterns, not 1001",
    "param: 2" => "unknown keyword param; did you mean params?",
    "parameters: 2" => "unknown keyword parameters; did you mean params?",
    "params: [Object.new]" => "params: expected strings, symbols, numbers, true, false, nil, and lists and hashes of them, " \
                              "not Object",
    "params: { level: [FileList['*']] }" => "params: expected strings, symbols, numbers, true, false, nil, and lists and " \
                                            "hashes of them, not Rake::FileList",
    "params: { 1.5 => 2 }" => "params: expected names that are symbols or strings, not Float",
    "params: [].then { |list| list << list }" => "params: expected at most 100 lists in one another",
    "params: 'x' * 2_000_000" => "params: expected values of at most 1 MiB, not one of 2000002 bytes",
    "cores: 0" => "cores: expected a whole number from 1 to 4294967295, not 0",
    "cores: 1.5" => "cores: expected a whole number from 1 to 4294967295, not 1.5",
    "retry: '2'" => "retry: expected a whole number from 0 to 4294967295, not \"2\"",
    "memory: 'much'" => "memory: expected a number of bytes, such as \"512M\" or \"4G\", or a lambda that " \
                    "takes the number of the attempt, not \"much\"",
    "memory: -> { '1G' }" => "memory: expected a lambda that takes the number of the attempt, such as " \
                             "->(attempt) { attempt * (2 << 30) }, not one of 0 parameters",
    "retry_delay: 'soon'" => "retry_delay: expected a time of at most a week, such as \"500ms\", \"10s\" or \"2m\", not \"soon\"",
    "memory: -1" => "memory: expected a number of bytes, such as \"512M\" or \"4G\", or a lambda that " \
                    "takes the number of the attempt, not -1",
    "resource: 3" => "resource: expected a name and a count, such as \"gpu:1\" or { gpu: 1 }, not 3",
    "resource: 'gpu:x'" => "resource: expected a name and a count, such as \"gpu:1\" or { gpu: 1 }, not \"gpu:x\"",
    "resource: {}" => "resource: expected a name and a count, such as \"gpu:1\" or { gpu: 1 }, not {}",
    "exclusive: 'yes'" => "exclusive: expected true or false, not \"yes\"",
    "allow: []" => "allow: expected names of hosts, such as \"h1*,h2\" or %w[h1* h2], not []",
    "deny: nil" => "deny: expected names of hosts, such as \"h1*,h2\" or %w[h1* h2], not nil",
    "order: 'deny'" => "order: expected \"allow,deny\" or \"deny,allow\", not \"deny\"",
    "'cores'" => "expected keywords before a task or rule, such as `needs cores: 2`"
  }.freeze

  def test_mistake_is_told_in_one_line_with_its_place
    rakuda("needs coers: 2\ntask(:default) { puts 1 }") do |run|
      assert_equal [1, "", "Rakefile:1: needs: unknown keyword coers; did you mean cores?\n"], [run.status, run.out, run.err]
    end
    rakefile = <<~RAKEFILE
      #{MISTAKES.keys.inspect}.each do |text|
        eval("needs " + text, binding, __FILE__, 7)
      rescue => e
        puts e.message
      end
      task(:default)
    RAKEFILE
    rakuda(rakefile) { |run| assert_equal MISTAKES.values.map { |text| "Rakefile:7: needs: #{text}" }, run.lines, run.err }
  end

  def test_more_than_there_is_is_an_error_with_needs_and_a_line_with_desc
    { "cores: 3" => "3 cores, but this run has 2 (-j 2): give it -j 3, or let the task have fewer " \
                    "(--oversubscribe, or `desc \"ncore=3\"`",
      "memory: 966_367_641_600" => "900 GiB of memory, but this node has 8 GiB: ask for less, or let the task run alone " \
                                   "in all of it (`desc`",
      "resource: 'gpu:2'" => "2 gpu, but this run has 1: give it --resource gpu=2, or let the task have all of them (`desc`",
      "resource: :fpga" => "1 fpga, but this run has none: give it --resource fpga=1, or let the task run without (`desc`"
    }.each do |needed, text|
      rakuda("task(:other) { puts 1 }\nneeds #{needed}\ntask(:big) { puts 2 }\ntask(default: %w[other big])",
             "-j2", "--memory", "8G", "--resource", "gpu=1") do |run|
        assert_equal [1, "", "Rakefile:2: needs: task big asks for #{text} in the place of `needs`)\n"],
                     [run.status, run.out, run.err]
      end
    end
    rakuda("desc 'memory=900G'\ntask(:big) { puts 2 }\ntask(default: :big)", "-j2", "--memory", "8G") do |run|
      assert_equal [0, "2\n", "rakuda: task big (Rakefile:2) asks for 900 GiB of memory, but this node has 8 GiB; " \
                              "running it alone in all of it\n"], [run.status, run.out, run.err]
    end
  end

  def test_what_the_error_offers_for_cores_runs_the_task
    rakefile = "needs cores: 2\ntask(:big) { puts 2 }\n"
    rakuda(rakefile, "-j1", "-n", "big") do |run|
      assert_equal [1, ""], [run.status, run.out]
      assert_includes run.err, "big asks for 2 cores, but this run has 1 (-j 1): give it -j 2, or "
    end
    rakuda(rakefile, "-j2", "big") { |run| assert_equal [0, "2\n", ""], [run.status, run.out, run.err] }
    described = rakefile.sub("needs cores: 2", 'desc "ncore=2"')
    rakuda(described, "-j1", "big") { |run| assert_equal [0, "2\n"], [run.status, run.out] }
    rakuda(rakefile, "-j1", "--oversubscribe", "big") do |run|
      assert_equal [0, "2\n", "rakuda: task big (Rakefile:1) asks for 2 cores, but this run has 1 (-j 1); " \
                              "giving it all of them\n"], [run.status, run.out, run.err]
    end
  end

  def test_parameters_are_recorded_of_the_next_task_or_of_all_tasks_of_a_rule
    rakefile = <<~'RAKEFILE'
      def make(task, _) = touch(task.name)
      needs params: { level: "-O2" }
      rule(".o" => ".c") { |t| touch t.name }
      file("plain") { |t| touch t.name }
      needs cores: 1, params: %w[first]
      needs params: [2, :b]
      desc "ncore=1"
      file("twice") { |t| touch t.name }
      %w[x y].each do |name|
        needs params: { name: name }
        file(name) { |t| touch t.name }
      end
      needs params: 7
      file("by_method", &method(:make))
      task default: %w[a.o b.o plain twice x y by_method]
    RAKEFILE
    expected = { "a.o" => [["level", '"-O2"']], "b.o" => [["level", '"-O2"']], "twice" => [%w[1 2], ["2", ':"b"']],
                 "x" => [["name", '"x"']], "y" => [["name", '"y"']], "by_method" => [%w[1 7]] }
    rakuda(rakefile, files: { "a.c" => "", "b.c" => "" }) do |run|
      assert_equal 0, run.status, run.err
      events = File.readlines(Dir[File.join(run.folder, ".rakuda/runs/*/journal.jsonl")].first).map { |line| JSON.parse(line) }
      tasks = events.select { |event| event["event"] == "task_defined" }
      assert_equal(expected, tasks.to_h { |task| task.values_at("name", "params") }.compact)
    end
  end

  def test_patterns_are_kept_as_they_are
    assert_equal %w[ref.fa.*], Rakuda::Needs.fields(outputs: "ref.fa.*")["outputs"]
    given = ["./.hidden", Pathname("a b"), ".bai", "^.dict", ".bai", "d/\xff?".b]
    assert_equal ["./.hidden", "a b", ".bai", "^.dict", "d/\xff?".b], Rakuda::Needs.fields(inputs: given)["inputs"]
    assert_equal [], Rakuda::Needs.fields(inputs: [])["inputs"]
  end

  def test_outputs_are_for_tasks_that_make_files
    rakuda("needs outputs: 'x'\ntask(:plain) { puts 1 }") do |run|
      assert_equal [1, "", "Rakefile:1: needs: outputs: expected a file task after it, not plain, which makes no file\n"],
                   [run.status, run.out, run.err]
    end
    rakuda("needs outputs: [], inputs: 'x.*'\ntask(:default) { puts 1 }") do |run|
      assert_equal [0, "1\n", ""], [run.status, run.out, run.err]
    end
  end

  def test_needs_holds_for_the_next_task_or_rule_only_and_for_all_tasks_of_a_rule
    rakefile = <<~'RAKEFILE'
      needs resource: "gpu:1"
      needs cores: 2
      desc "first, resource=gpu:2 retry=1"
      task(:a) { p a: Rakuda.devices }
      task(:b) { p b: Rakuda.devices }
      needs resource: { gpu: 1 }
      rule(".x") { |t| p t.name => Rakuda.devices; touch t.name, verbose: false }
      desc "resource=gpu:1"
      rule(".y") { |t| p t.name => Rakuda.devices; touch t.name, verbose: false }
      task default: %w[a b c.x d.x e.y]
    RAKEFILE
    rakuda(rakefile, "-j2", "--resource", "gpu=2") do |run|
      devices = run.lines.map { |line| line.scan(/\w[\w.]*|\[[^\]]*\]/) }.to_h { |name, _, list| [name, list&.scan(/\d/)&.size] }
      assert_equal({ "a" => 1, "b" => nil, "c.x" => 1, "d.x" => 1, "e.y" => 1 }, devices, run.out + run.err)
    end
    rakuda(rakefile, "-T") { |run| assert_equal "rakuda a  # first, resource=gpu:2 retry=1\n", run.out }
  end

  def test_needs_with_nothing_after_it_is_told
    rakuda("task(:default) { puts 1 }\nneeds cores: 2") do |run|
      assert_equal [0, "1\n", "rakuda: Rakefile:2: needs: no task or rule comes after it\n"], [run.status, run.out, run.err]
    end
    rakuda("task(:default) do\n  needs cores: 1\n  puts 1\nend") do |run|
      assert_equal [0, "1\n", "rakuda: Rakefile:2: needs: no task or rule comes after it\n"], [run.status, run.out, run.err]
    end
  end

  def test_method_of_the_rakefile_wins
    rakuda("def needs(what, with: 1) = puts(\"mine \#{what} \#{with}\")\nneeds :a\ntask(:default) { needs 'b', with: 3 }",
           environment: { "RUBYOPT" => "-w" }) do |run|
      assert_equal [0, ["mine a 1", "mine b 3"], ""], [run.status, run.lines, run.err]
    end
    rakuda("def self.needs = puts('mine')\nneeds\ntask(:default) { needs }", environment: { "RUBYOPT" => "-w" }) do |run|
      assert_equal [0, %w[mine mine], ""], [run.status, run.lines, run.err]
    end
  end

  def test_local_variable_of_the_rakefile_wins
    rakuda("needs = 5\ntask(:default) { puts needs + 1 }", environment: { "RUBYOPT" => "-w" }) do |run|
      assert_equal [0, "6\n", ""], [run.status, run.out, run.err]
    end
  end

  def test_word_of_a_library_wins
    needs = "def needs(*what) = puts(\"theirs \#{what}\")"
    { "module Kernel\n  private\n  #{needs}\nend" => "require './words'",
      "module Words\n  #{needs}\nend" => "require './words'\n%s Words" }.each do |library, load|
      (load.include?("%s") ? %w[include extend] : [""]).each do |way|
        rakuda("#{format(load, way)}\nneeds 1, 2\ntask(:default) { needs }", files: { "words.rb" => library },
                                                                            environment: { "RUBYOPT" => "-w" }) do |run|
          assert_equal [0, ["theirs [1, 2]", "theirs []"], ""], [run.status, run.lines, run.err], way
        end
      end
    end
  end

  def test_other_objects_are_unchanged
    rakefile = <<~'RAKEFILE'
      class Builder < BasicObject
        def method_missing(name, *arguments) = [name, arguments]
      end
      class Config
        def method_missing(name, *arguments) = name == :needs ? [name, arguments] : super
        def respond_to_missing?(name, all = false) = name == :needs || super
      end
      needs cores: 1
      task :default do
        objects = [Object.new, 5, "text", Class.new.new, Rake::Task["default"], Module]
        objects.each do |object|
          object.needs
        rescue NoMethodError => e
          puts e.message[/\Aundefined method `needs'/] || e.message unless object.respond_to?(:needs, true)
        end
        p Builder.new.needs(1), Config.new.needs(2), Config.new.instance_eval { needs 3 }
      end
    RAKEFILE
    rakuda(rakefile) do |run|
      assert_equal (["undefined method `needs'"] * 6) + ["[:needs, [1]]", "[:needs, [2]]", "[:needs, [3]]"], run.lines, run.err
    end
  end

  def test_under_plain_rake_needs_says_nothing
    rakefile = "require 'rakuda/dsl'\nneeds coers: 2\ndesc 'x'\ntask(:default) { puts 1 }\nneeds 5"
    Dir.mktmpdir do |folder|
      File.write(File.join(folder, "Rakefile"), rakefile)
      results = [[], %w[-T]].map do |words|
        out, err, status = Open3.capture3(Engines::COMMON, "rake", "-I", File.join(Engines::ROOT, "lib"), *words, chdir: folder)
        [out, err, status.exitstatus]
      end
      assert_equal [["1\n", "", 0], ["rake default  # x\n", "", 0]], results
    end
  end

  def test_word_of_a_description_that_is_nearly_a_property_is_told
    rakefile = "desc 'mem=8G cores=4 Cores=3 threads=9 memry=2G, retrys=2 memory=1k'\ntask(:default) { puts 1 }"
    rakuda(rakefile, "-j2") do |run|
      said = %w[mem=8G\ memory=8G cores=4\ ncore=4 Cores=3\ ncore=3 threads=9\ ncore=9 memry=2G\ memory=2G
                retrys=2\ retry=2].map do |pair|
        wrong, right = pair.split
        "rakuda: Rakefile:2: #{wrong} is no property (did you mean #{right}?); taken as text of the description\n"
      end
      assert_equal [0, "1\n", said.join], [run.status, run.out, run.err]
    end
    # What says something else is left alone.
    text = "Runs with CFLAGS=-O2 TESTS=1 env=prod threads=all cores=N user=me step=2 mem=none MEM=4G, CORES=3"
    rakuda("desc '#{text}'\ntask(:default) { puts 1 }") { |run| assert_equal "", run.err }
  end
end
