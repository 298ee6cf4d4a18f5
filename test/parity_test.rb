# frozen_string_literal: true

# Each Rakefile of test/parity runs the same with rake and with rakuda -j1: output, messages, status, files left.

require "minitest/autorun"
require_relative "support/parity_case"
require_relative "support/engines"

class ParityTest < Minitest::Test
  parallelize_me!

  Engines.each do |engine, environment|
    ParityCase.all.each do |parity_case|
      define_method("test_#{parity_case.name}_is_as_with_rake_on_#{engine}") do
        wanted = ParityCase.rake_result(parity_case)
        assert_equal wanted, parity_case.run([ParityCase::RAKUDA], environment), parity_case.name
      end
    end
  end
end
