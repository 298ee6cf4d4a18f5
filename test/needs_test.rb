# frozen_string_literal: true

# The statement `needs`: what it takes, what it says of mistakes, and that it is in nobody's way.

require "minitest/autorun"
require "open3"
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

  MISTAKES = {
    "coers: 2" => "unknown keyword coers; did you mean cores?", "ncore: 2" => "unknown keyword ncore; did you mean cores?",
    "mem: '1G'" => "unknown keyword mem; did you mean memory?",
    "xyzzy: 2" => "unknown keyword xyzzy; there are cores, memory, resource, retry, exclusive, reserve, allow, deny, order, " \
                  "steal",
    "cores: 0" => "cores: expected a whole number from 1 to 4294967295, not 0",
    "cores: 1.5" => "cores: expected a whole number from 1 to 4294967295, not 1.5",
    "retry: '2'" => "retry: expected a whole number from 0 to 4294967295, not \"2\"",
    "memory: 'much'" => "memory: expected a number of bytes, such as \"512M\" or \"4G\", not \"much\"",
    "memory: -1" => "memory: expected a number of bytes, such as \"512M\" or \"4G\", not -1",
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
    { "cores: 3" => "3 cores, but this run has 2 (-j)", "memory: 966_367_641_600" => "900 GiB of memory, but this node has 8 GiB",
      "resource: 'gpu:2'" => "2 gpu, but this run has 1",
      "resource: :fpga" => "1 fpga, but this run has none (give it: --resource fpga=N)" }.each do |needed, text|
      rakuda("task(:other) { puts 1 }\nneeds #{needed}\ntask(:big) { puts 2 }\ntask(default: %w[other big])",
             "-j2", "--memory", "8G", "--resource", "gpu=1") do |run|
        assert_equal [1, "", "Rakefile:2: needs: task big asks for #{text}\n"], [run.status, run.out, run.err]
      end
    end
    rakuda("desc 'memory=900G'\ntask(:big) { puts 2 }\ntask(default: :big)", "-j2", "--memory", "8G") do |run|
      assert_equal [0, "2\n", "rakuda: task big (Rakefile:2) asks for 900 GiB of memory, but this node has 8 GiB; " \
                              "running it alone in all of it\n"], [run.status, run.out, run.err]
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
    rakefile = "desc 'mem=8G cores=4 threads=9 retrys=2 memory=1k'\ntask(:default) { puts 1 }"
    rakuda(rakefile, "-j2") do |run|
      said = %w[mem=8G\ memory=8G cores=4\ ncore=4 threads=9\ ncore=9 retrys=2\ retry=2].map do |pair|
        wrong, right = pair.split
        "rakuda: Rakefile:2: #{wrong} is no property (did you mean #{right}?); taken as text of the description\n"
      end
      assert_equal [0, "1\n", said.join], [run.status, run.out, run.err]
    end
    # What says something else is left alone.
    text = "Runs with CFLAGS=-O2 TESTS=1 env=prod threads=all cores=N user=me step=2 mem=none"
    rakuda("desc '#{text}'\ntask(:default) { puts 1 }") { |run| assert_equal "", run.err }
  end
end
