# frozen_string_literal: true

# How deep an action may recurse: as deep as with rake, given the sizes of stacks with which Ruby is started.

require "minitest/autorun"
require "open3"
require_relative "support/rakefile_run"

class RecursionTest < Minitest::Test
  include RakefileRun

  RAKEFILE = <<~'RAKEFILE'
    def deeper(depth) = deeper(@depth = depth + 1)
    def within(depth) = [0].each { within(@depth = depth + 1) }
    task :default do
      %i[deeper within].each do |way|
        begin
          send(way, 0)
        rescue SystemStackError
          puts @depth
        end
      end
      nested = []
      15_000.times { nested = [nested] }
      copy = Marshal.load(Marshal.dump(nested))
      puts 1.step.find { (copy = copy.first).nil? }
    end
  RAKEFILE

  def setup
    @engine_environment = Engines::REAL
  end

  def test_action_recurses_as_deep_as_with_rake
    rakuda(RAKEFILE, "-j2") do |run|
      out, err, = Open3.capture3("rake", chdir: run.folder)
      rake = out.lines.map(&:to_i)
      assert_equal 3, rake.size, err
      ours = run.lines.map(&:to_i)
      assert_equal 3, ours.size, run.err
      ours.zip(rake) { |one, other| assert_operator one, :>=, other * 9 / 10, "of #{rake.inspect}: #{ours.inspect}" }
    end
  end

  def test_commands_do_not_see_what_the_user_has_not_set
    rakefile = <<~'RAKEFILE'
      task :default do
        sh "env | grep -E '^(RUBY_FIBER|RUBY_GC|RAKUDA_SIZES)' || echo none", verbose: false
        p ENV["RUBY_FIBER_VM_STACK_SIZE"]
      end
    RAKEFILE
    rakuda(rakefile, "-j2") { |run| assert_equal %w[none nil], run.lines, run.err }
    rakuda(rakefile, "-j2", environment: { "RUBYOPT" => "-w" }) { |run| refute_match(/HEAP/, run.err) }
    own = { "RUBY_FIBER_VM_STACK_SIZE" => "600000" }
    rakuda(rakefile, "-j2", environment: own) do |run|
      assert_equal ["RUBY_FIBER_VM_STACK_SIZE=600000", "600000".inspect], run.lines, run.err
    end
  end
end
