# frozen_string_literal: true

require "rakuda/bench/engines"
require "rakuda/bench/facets"
require "rakuda/bench/figures"
require "rakuda/bench/instance"
require "rakuda/bench/mapreduce/split"

module Rakuda
  module Bench
    # Engines of one comparison beside rakuda: ratios of times within a round. Results that do not say which comparison
    # they are of, as those from before, or that differ in slots, machine or conditions, are not set beside each other.
    # Pure.
    module Ratios
      # Results whose rounds took turns, and the one that the others are held against.
      Group = Struct.new(:base, :results) do
        def benchmark = base["benchmark"]

        def name = Engine.label_of(base)

        # What the times of ratios are, with how they are taken from a result.
        # @return [Hash{Symbol => Method}]
        def times
          jobs = base["schema"] == "rakuda-bench-mapreduce/1"
          { makespans: Ratios.method(:makespans), spans: (Ratios.method(:spans) if jobs) }.compact
        end
      end

      module_function

      # @param results [Array<Hash>] of any benchmark
      # @return [Array<Group>] of two results and more
      def groups(results)
        engines(results).group_by { |result| compared(result) }.values.select { |group| group.size > 1 }.map do |group|
          Group.new(group.find { |result| result.dig("engine", "name") == "rakuda" } || group.first, group)
        end
      end

      # @return [Array<Array<Hash>>] results of one instance that are of several comparisons
      def apart(results)
        engines(results).group_by { |result| Instance.identity(result["instance"]) }.values
                        .reject { |group| comparisons(group) == 1 }
      end

      def comparisons(group) = group.map { |result| compared(result) }.uniq.size

      def engines(results) = results.select { |result| result.key?("rounds") }

      # @return [Array] equal in results whose rounds took turns
      def compared(result)
        [result["comparison"] || result["id"], result.dig("instance", "hash"), Facets.place(result), result["conditions"]]
      end

      # @param times [#call] gives the times of a result by round
      # @return [Array<Float>] a ratio for each round in which both ended well
      def of(result, base, times) = in_rounds(times.call(result), times.call(base))

      def in_rounds(times, others)
        times.filter_map { |round, time| time / others[round] if others[round] }
      end

      # @return [Hash{Integer => Float}] from the first map to the last reduce
      def spans(result)
        good(result).to_h do |round|
          [round["round"], MapReduce::Split.of(round).values_at("map_s", "shuffle_s", "reduce_s").sum]
        end
      end

      # @return [Hash{Integer => Float}]
      def makespans(result)
        good(result).to_h { |round| [round["round"], round["makespan_s"] || ((round["end_ns"] - round["start_ns"]) / 1e9)] }
      end

      # @return [Array<Hash>] rounds that ended well
      def good(result) = result["rounds"].reject { |round| round["fault"] }

      # @param ratios [Array<Float>] not empty
      # @return [String] nothing when they say which of the two was faster
      def undecided(ratios)
        interval = Figures.interval(ratios)
        interval && interval.first < 1 && interval.last > 1 ? "no difference at 95 %" : ""
      end
    end
  end
end
