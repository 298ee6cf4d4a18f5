# frozen_string_literal: true

require "minitest/autorun"
require "rakuda/bench/prediction"

# What the simulator is told of a recorded workflow.
class BenchPredictionTest < Minitest::Test
  def instance(tasks) = { "name" => "w", "workflow" => { "specification" => {}, "execution" => { "tasks" => tasks } } }

  def times(tasks)
    told = Rakuda::Bench::Prediction.without_io(instance(tasks))
    told.dig("workflow", "execution", "tasks").map { |task| task["runtimeInSeconds"] }
  end

  # A task that used a quarter of its cores' time read and wrote, or waited, for the rest.
  def test_of_a_recorded_task_the_time_on_the_processor_is_left
    assert_equal [2.0], times([{ "runtimeInSeconds" => 8.0, "avgCPU" => 25.0 }])
    assert_equal [2.0], times([{ "runtimeInSeconds" => 8.0, "avgCPU" => 50.0, "coreCount" => 2 }])
    assert_equal [8.0, 8.0], times([{ "runtimeInSeconds" => 8.0 }, { "runtimeInSeconds" => 8.0, "avgCPU" => 130.0 }])
  end
end
