# frozen_string_literal: true

require "minitest/autorun"
require "open3"

# The comparison runs to its end in the small, so that it is not found broken on the day it is needed.
# Its figures mean nothing here and are not looked at.
class BenchTest < Minitest::Test
  ROOT = File.expand_path("..", __dir__)
  TOOLS = "floor,make,rake,xargs"

  def test_small_comparison_runs_and_every_tool_does_its_work
    output, status = Open3.capture2e(File.join(ROOT, "bench/peers"), "--scale", "0.001", "--rounds", "1", "--tools", TOOLS)
    assert status.success?, output
    assert_equal %w[A B C D E G], output.scan(/^([A-G])  \S/).flatten
    refute_match(/exit status|started \d+ of|was written|missing|killed/, output)
    assert_includes output, "Goals, in this run"
  end

  def test_unknown_workload_is_refused_by_name
    output, status = Open3.capture2e(File.join(ROOT, "bench/peers"), "--only", "Z")
    refute status.success?
    assert_includes output, "Z is none of A B C D E G"
  end
end
