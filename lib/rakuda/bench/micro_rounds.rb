# frozen_string_literal: true

require "json"
require "rakuda/bench/errors"
require "rakuda/bench/micro_steps"

module Rakuda
  module Bench
    # The synchronised rounds of a micro-benchmark: their times as the journal of the run has them
    # (docs/reference/journal.md), which a result keeps, and the figures that follow from these: `verify` computes them
    # once more. Pure, but for reading.
    module MicroRounds
      # Maximum error of the times that a program prints, ns: fio prints ms; those of others are exact.
      TOLERANCE_NS = { "fio" => 2_000_000 }.freeze
      # Two ways to take the time of one machine need not be equally fast.
      DRIFT = 1e-3

      module_function

      # @param path [String] of a journal
      # @return [Array<Hash>] its events round_ended
      # @raise [Failure]
      def read(path)
        lines = File.readlines(path).select { |line| line.end_with?("\n") && line.include?('"round_ended"') }
        lines.map { |line| JSON.parse(line) }.select { |one| one["event"] == "round_ended" }
      rescue SystemCallError, JSON::ParserError => e
        raise Failure, "the record of the run cannot be read: #{e.message.lines.first.to_s.strip[0, 100]}"
      end

      # @param sync [String] name of the statement
      # @return [Hash] what a result keeps: of rounds in which something was measured, and of programs that do nothing
      def raw(sync, events)
        own = events.select { |one| one["sync"] == sync }
        counted = own.select { |one| one["kind"] == "counted" && measured?(one["parameter"]) }
        nulls = own.select { |one| one["kind"] == "null" && one["failed"].zero? && !one.key?("fault") }
        { "by_round" => counted.map { |one| { "step" => one["parameter"], **times(one), **one.slice("clock_bound_ns", "late") } },
          "null_rounds" => nulls.map { |one| times(one) } }
      end

      def times(event) = event.slice("starts_ns", "ends_ns")

      # @return [Boolean] whether something was measured in a round with that parameter
      def measured?(parameter) = parameter != MicroSteps::CLEAN && !parameter.start_with?(MicroSteps::CHECK)

      # @param sync [Hash] with what {.raw} gives
      # @return [Hash] overhead, the largest start lag and what it is known to within, rounds, and those with a late
      #   worker
      def figures(sync)
        rounds = sync["by_round"]
        { "overhead_s" => mean_s(sync["null_rounds"].filter_map { |one| span_ns(one["starts_ns"], one["ends_ns"]) }),
          "lag_s" => rounds.filter_map { |one| span_ns(one["starts_ns"], one["starts_ns"]) }.max&./(1e9),
          "clock_bound_s" => rounds.map { |one| one["clock_bound_ns"] }.max.to_i / 1e9,
          "rounds" => rounds.size, "rounds_late" => rounds.count { |one| one["late"].positive? } }.compact
      end

      # @return [Integer, nil] from the first start to the last of some moments; nil where a worker did not begin
      def span_ns(starts, moments)
        moments.max - starts.min unless starts.empty? || starts.include?(nil) || moments.include?(nil)
      end

      def mean_s(spans) = spans.empty? ? nil : spans.sum / spans.size / 1e9

      # Whether the rounds fit the steps: each has one, with as many workers, and no program ran longer than its
      # command.
      # @param result [Hash]
      # @return [Array<String>] what is wrong
      def faults(result)
        sync, steps = result.values_at("sync", "steps")
        names = sync["by_round"].map { |one| one["step"] }
        return ["sync/by_round is of #{(names - steps.keys | steps.keys - names).first || "a step twice"}"] unless
          names.sort == steps.keys.sort

        off_ns = TOLERANCE_NS.fetch(result["benchmark"], 0)
        sync["by_round"].flat_map { |one| step_faults(one, steps[one["step"]], off_ns) }
      end

      def step_faults(round, outputs, off_ns)
        commands = round["starts_ns"].zip(round["ends_ns"])
        where = "sync/by_round/#{round["step"]}"
        return ["#{where}: #{commands.size} workers of #{outputs.size}"] unless commands.size == outputs.size

        longer = outputs.zip(commands).index do |output, (from, to)|
          from && to && output["end_ns"] - output["start_ns"] > ((to - from) * (1 + DRIFT)) + off_ns
        end
        longer ? ["#{where}: worker #{longer} ran longer than its command"] : []
      end
    end
  end
end
