# frozen_string_literal: true

# The values of `needs params:` as text: the same for equal values, another for others.

require "minitest/autorun"
require "rakuda"

class ParametersTest < Minitest::Test
  def test_values_have_names_or_places
    assert_equal [["level", '"-O2"'], ["jobs", "3"]], of(level: "-O2", "jobs" => 3)
    assert_equal [["1", '"-O2"'], ["2", "3"]], of(["-O2", 3])
    assert_equal [["1", '"-O2"']], of("-O2")
    assert_equal [["1", "nil"]], of(nil)
    assert_equal [], of([])
  end

  def test_equal_values_have_one_text
    assert_equal text({ a: 1, "b" => [2] }), text({ "b" => [2], a: 1 })
    assert_equal text("é"), text("é".b)
    assert_equal '"\\x0a\\"\\\\é"', text("\n\"\\é")
    assert_equal '"\\xc3\\xa9\\xff"', text("é\xff")
  end

  def test_other_values_have_another
    values = ["1", 1, 1.0, 1r, :"1", [1], [[1]], [1, 1], { 1 => 1 }, nil, "nil", true, "true", "", [], {}, "a, b", %w[a b],
              "\\x0a", "\n", "é", "\xE9", "\\xe9"]
    assert_equal values.size, values.map { |value| text(value) }.uniq.size
  end

  private

  def of(value) = Rakuda::Parameters.of(value)

  def text(value) = of([value])[0][1]
end
