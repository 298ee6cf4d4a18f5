# frozen_string_literal: true

require "minitest/autorun"
require_relative "../support/rakefile_run"

# Tasks that an action defines, when that action runs once more: what it gave them before is not run beside what it
# gives now.
class GivenActionsTest < Minitest::Test
  include RakefileRun

  # `plan` fails at its first attempt, before or after it has had its tasks made.
  RAKEFILE = <<~'RUBY'
    task default: %w[before after]
    attempts = Hash.new(0)
    %w[before after].each do |kind|
      task(kind) do
        number = attempts[kind] += 1
        parts = Array.new(2) { |i| "#{kind}#{i}" }
        parts.each { |part| task(part) { sh "echo #{part} given by attempt #{number}", verbose: false } }
        2.times { |i| task("#{kind}0") { sh "echo #{kind}0 more #{i}", verbose: false } }
        raise "first attempt" if kind == "before" && number == 1
        task("all_#{kind}" => parts).invoke
        raise "first attempt" if number == 1
      end
    end
  RUBY

  def setup
    engine = File.join(Engines::ROOT, "target", "release", "rakudad")
    @engine_environment = Engines::COMMON.merge("RAKUDA_ENGINE" => engine)
  end

  def test_actions_given_once_more_take_the_places_of_the_former_ones
    rakuda(RAKEFILE, "-q", "-j2", "--retry", "1") do |run|
      assert_equal 0, run.status, run.err
      assert_equal ["before0 given by attempt 2", "before0 more 0", "before0 more 1"], run.lines.grep(/before0/)
      assert_equal ["before1 given by attempt 2"], run.lines.grep(/before1/)
      # They were made in the first attempt, so the second one's are not run.
      assert_equal ["after0 given by attempt 1", "after0 more 0", "after0 more 1"], run.lines.grep(/after0/)
      assert_equal ["after1 given by attempt 1"], run.lines.grep(/after1/)
    end
  end
end
