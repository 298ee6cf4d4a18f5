# frozen_string_literal: true

require "rakuda/bench/figures"
require "rakuda/bench/micro_steps"

module Rakuda
  module Bench
    # Where time went, and how it varied: parts of a kernel's phases and of an engine's rounds, repetitions in their
    # order, and how long after the first one each rank or worker began. From the raw times of a result. Pure.
    module Splits
      # The parts of a phase, as a rank has them.
      PHASE = %w[open transfer flush close].freeze
      # Those of a round: to the first task; what slots spent on tasks, and on nothing, from there to the last one's
      # end; then.
      ROUND = %w[start tasks between end].freeze

      module_function

      # @param result [Hash] of a kernel
      # @return [Hash{String => Array<Float>}] mean of ranks and repetitions of each part, s, by name of the phase
      def phases(result)
        result["phases"].group_by { |phase| phase["name"] }.transform_values do |ones|
          ranks = ones.flat_map { |phase| phase["ranks"] }
          %w[open_ns xfer_ns flush_ns close_ns].map { |key| ranks.sum { |rank| rank[key] } / ranks.size / 1e9 }
        end
      end

      # @param result [Hash] of a workflow
      # @return [Array<Float>, nil] median of the rounds of each part, s; nil where none ended well
      def rounds(result)
        slots = result.dig("engine", "slots")
        parts = result["rounds"].reject { |round| round["fault"] }.map do |round|
          span = round["makespan_s"] - round["startup_s"] - round["tail_s"]
          [round["startup_s"], round["busy_s"] / slots, [span - (round["busy_s"] / slots), 0.0].max, round["tail_s"]]
        end
        parts.empty? ? nil : parts.transpose.map { |values| Figures.median(values) }
      end

      # @param result [Hash] of a kernel or a micro-benchmark
      # @return [Hash{String => Array<Float>}] seconds after the first to begin, of each rank or worker and step of one
      #   node, by name of the phase or step
      def lags(result)
        return kernel_lags(result) if result.key?("phases")

        result["steps"].group_by { |name, _| name.sub(MicroSteps::NUMBER, "") }.transform_values do |ones|
          ones.flat_map do |_, outputs|
            nodes = outputs.group_by { |one| one["node"].to_i }.values
            nodes.flat_map { |of_node| behind(of_node.map { |one| one["start_ns"] }) }
          end
        end
      end

      def kernel_lags(result)
        result["phases"].group_by { |phase| phase["name"] }.transform_values do |ones|
          ones.flat_map { |phase| phase["steps"].flat_map { |step| behind(step["start_ns"]) } }
        end
      end

      def behind(starts) = starts.map { |start| (start - starts.min) / 1e9 }
    end
  end
end
