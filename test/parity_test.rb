# frozen_string_literal: true

# Each Rakefile of test/parity runs the same with rake and with rakuda -j1: output, messages, status, files left. Where
# the real hub is built, one in four runs on the fake one as well, or all with ON_FAKE=all: `make check` has that.

require "minitest/autorun"
require_relative "support/parity_case"
require_relative "support/engines"

class ParityTest < Minitest::Test
  parallelize_me!

  Engines.each(both: true) do |engine, environment|
    step = engine == "fake" && Engines.real? && ENV["ON_FAKE"] != "all" ? 4 : 1
    ParityCase.all.each_slice(step).map(&:first).each do |parity_case|
      define_method("test_#{parity_case.name}_is_as_with_rake_on_#{engine}") do
        wanted = ParityCase.rake_result(parity_case)
        assert_equal wanted, parity_case.run([ParityCase::RAKUDA], environment), parity_case.name
      end
    end
  end
end
