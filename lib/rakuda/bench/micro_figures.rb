# frozen_string_literal: true

require "rakuda/bench/figures"
require "rakuda/bench/kernel_figures"
require "rakuda/bench/micro_cache"
require "rakuda/bench/micro_steps"

module Rakuda
  module Bench
    # The figures of a micro-benchmark's result from the raw times in it: the runner computes them, and `verify` does so
    # once more. It judges nothing.
    module MicroFigures
      # From steps that are shorter no rate is taken: the clock of fio is one of ms, and a start weighs too much.
      RATE_S_MIN = 0.1
      # What of the time may pass between the first and the last worker to begin (Iwai, Tatebe, Tanaka 2016: 5.4.1).
      SKEW_MAX = 0.01
      # Benchmarks that rates are taken from.
      RATED = %w[bandwidth fio].freeze

      module_function

      # The part of the time of the shortest program in which all run together: less the overhead (2016 paper, 5.4.1),
      # or the start lag where that was longer.
      def together(raw, sync)
        shortest = shortest(raw)
        return 0.0 unless shortest.positive?

        [1.0 - (apart_s(sync) / shortest), 0.0].max
      end

      # @return [Float] how long the shortest program of any worker ran, s
      def shortest(raw) = raw.values.flatten.map { |one| one.fetch("end_ns") - one.fetch("start_ns") }.min.to_i / 1e9

      # @return [Float] time in which not all workers run, s
      def apart_s(sync) = sync.values_at("overhead_s", "lag_s").compact.max.to_f

      # Repetitions that figures are not taken from: their workers began too far apart, and enough others are left.
      # Where too few would be, all count, and the skew makes the result invalid.
      # @param raw [Hash] what each worker measured, by step
      # @return [Hash{String => Float}] skew by step
      def left_out(raw)
        raw.group_by { |name, _| name.sub(MicroSteps::NUMBER, "") }.values.reduce({}) do |all, ones|
          apart = ones.to_h.transform_values { |outputs| skew(outputs) }.select { |_, skew| skew > SKEW_MAX }
          Figures.too_few(ones.size - apart.size, "") ? all : all.merge(apart)
        end
      end

      # @return [Hash] the repetitions that figures are taken from
      def counted(raw) = raw.except(*left_out(raw).keys)

      # The steps that tell the simulator's rates: reading from disk, from memory, and writing, with the largest blocks.
      # @param result [Hash] of bandwidth or fio
      # @return [Hash{String => Array<Hash>}] what workers measured, by step
      def rated(result)
        block, steps = result.fetch("settings").fetch("blocks").last, counted(result.fetch("steps"))
        %w[read reread write].to_h do |step|
          name = "#{step}-#{block}"
          [name, steps.select { |step_name, _| step_name.sub(MicroSteps::NUMBER, "") == name }.values.flatten]
        end
      end

      # @return [String, nil] why no rates are taken from a result
      def unrated(result)
        return "the result is not valid: #{result["reasons"].first}" unless result["valid"]

        doubt = MicroCache.faults(result).first
        return doubt if doubt
        return "what it read may have come from memory (--cache any)" if result.dig("conditions", "cache") == "any"

        name, time = rated(result).map { |step, outputs| [step, outputs.map { |one| one["end_ns"] - one["start_ns"] }.min / 1e9] }
                                  .min_by(&:last)
        return if time >= RATE_S_MIN

        "a worker's #{name} took #{Figures.seconds(time)}: expected at least #{Figures.seconds(RATE_S_MIN)}, of larger files"
      end

      # What the simulator takes for `--rates`: what one transfer reaches with the largest blocks, in MiB/s. Of other
      # nodes nothing is known here: the own disk and memory stand for theirs.
      # @param result [Hash] of bandwidth or fio
      # @return [Array<Integer>] own disk, own memory, another's disk, another's memory, write
      def rates(result)
        disk, memory, write = rated(result).values.map do |outputs|
          seconds = outputs.sum { |one| one["end_ns"] - one["start_ns"] } / 1e9
          [(outputs.sum { |one| one["bytes"] } / seconds / (1 << 20)).round, 1].max
        end
        [disk, memory, disk, memory, write]
      end

      # The figures of a result from what the workers printed. Times of different nodes are not compared: of several,
      # the longest counts. Steps whose names differ in a number at the end are repetitions.
      # @return [Array<Hash>]
      def derived(raw)
        raw = counted(raw)
        kinds = raw.select { |_, outputs| outputs.first.key?("ns") }
        groups = raw.except(*kinds.keys).group_by { |name, _| name.sub(MicroSteps::NUMBER, "") }
        of_steps = groups.map do |name, ones|
          repetitions = ones.map(&:last)
          moved = repetitions.flatten.sum { |output| output.fetch("bytes") }
          moved.zero? ? calls(name, repetitions) : bandwidth(name, repetitions)
        end
        of_steps + (kinds.empty? ? [] : operations(kinds.values))
      end

      # What each of these repetitions has reached, for those who draw it.
      # @return [Hash{String => Array<Numeric>}] B/s or operations/s, by name of the figure
      def repetitions(raw)
        groups = counted(raw).group_by { |name, outputs| outputs.first.key?("ns") ? "" : name.sub(MicroSteps::NUMBER, "") }
        groups.each_with_object({}) do |(name, ones), all|
          outputs = ones.map(&:last)
          next all.merge!(operation_rates(outputs)) if name.empty?

          moved = outputs.flatten.sum { |output| output.fetch("bytes") }
          all[name] = moved.zero? ? call_rates(outputs) : outputs.map { |one| reached(transfer(one)) }
        end
      end

      # @param one [Hash] of {.transfer}
      def reached(one) = one[:bytes].sum / one[:time]

      def call_rates(repetitions)
        repetitions.map { |outputs| outputs.sum { |one| one.fetch("calls") * 1e9 / (one["end_ns"] - one["start_ns"]) } }
      end

      def operation_rates(trials)
        trials.first.first.fetch("ns").keys.to_h do |kind|
          [kind, trials.map { |outputs| outputs.sum { |one| operation_rate(one, kind) } }]
        end
      end

      def operation_rate(output, kind) = output.fetch("operations") * 1e9 / output.fetch("ns").fetch(kind)

      # From the first worker of a node to begin to the last to end.
      # @return [Array(Float, Float)] the time, s; the part of it between the first and the last to begin
      def span(outputs)
        begin_ns, end_ns = outputs.map { |one| one.fetch("start_ns") }, outputs.map { |one| one.fetch("end_ns") }
        time = [(end_ns.max - begin_ns.min) / 1e9, 1e-9].max
        [time, (begin_ns.max - begin_ns.min) / 1e9 / time]
      end

      # The largest of any node.
      def skew(outputs) = by_node(outputs).map { |ones| span(ones).last }.max

      def by_node(outputs) = outputs.group_by { |one| one["node"].to_i }.sort.map(&:last)

      # All bytes / the sum of the times of the repetitions, and what single repetitions have reached.
      # @param repetitions [Array<Array<Hash>>]
      def bandwidth(name, repetitions)
        once = repetitions.map { |outputs| transfer(outputs) }
        time = once.sum { |one| one[:time] }
        figures = { "name" => name, "bw" => once.sum { |one| one[:bytes].sum } / time, "time_s" => time,
                    "start_skew" => once.map { |one| one[:skew] }.max }
        figures.merge!(first_done(repetitions), once.size > 1 ? spread(once.map { |one| reached(one) }, "bw") : {})
        return figures if once.first[:bytes].size == 1

        bytes, spans = %i[bytes spans].map { |key| once.map { |one| one[key] }.transpose.map(&:sum) }
        figures.merge("nodes_bw" => bytes.zip(spans).map { |sum, spent| sum / spent })
      end

      # What was known to be transferred when the first worker ended / the time until then, as of kernels. Workers of
      # one node alone have one clock, and only some programs tell marks.
      def first_done(repetitions)
        return {} unless repetitions.flatten.all? { |one| one["marks"]&.any? } && by_node(repetitions.flatten).one?

        spans = repetitions.map do |outputs|
          KernelFigures::Span.new(%w[start_ns end_ns bytes marks].to_h { |key| [key, outputs.map { |one| one.fetch(key) }] })
        end
        { "bw_first_done" => KernelFigures.rate(spans.sum(&:first_done_bytes), spans.sum(&:first_done)) }
      end

      # Of a step that moves no bytes: calls of each worker / its time, added; the mean of the repetitions.
      # @param repetitions [Array<Array<Hash>>]
      def calls(name, repetitions)
        once = repetitions.map { |outputs| transfer(outputs) }
        rates = call_rates(repetitions)
        figures = { "name" => name, "ops_per_s" => mean(rates), "time_s" => once.map { |one| one[:time] }.max,
                    "start_skew" => once.map { |one| one[:skew] }.max }
        rates.size > 1 ? figures.merge(spread(rates, "ops_per_s")) : figures
      end

      # One repetition: bytes and time of each node, the longest of these times, and the largest skew.
      def transfer(outputs)
        nodes = by_node(outputs)
        spans = nodes.map { |ones| span(ones) }
        { bytes: nodes.map { |ones| ones.sum { |one| one["bytes"] } }, spans: spans.map(&:first),
          time: spans.map(&:first).max, skew: skew(outputs) }
      end

      # @param rates [Array<Numeric>] of repetitions
      # @param unit [String] bw or ops_per_s
      def spread(rates, unit)
        summary = Figures.summary(rates)
        { "reps" => rates.size, "median_#{unit}" => summary["median"], "min_#{unit}" => summary["min"],
          "max_#{unit}" => summary["max"], "ci95" => summary["ci95"] }
      end

      # Means over the trials.
      # @param trials [Array<Array<Hash>>]
      def operations(trials)
        spans = trials.flat_map { |outputs| by_node(outputs).map { |ones| span(ones) } }
        trials.first.first.fetch("ns").keys.map do |kind|
          nodes = trials.map { |outputs| by_node(outputs).map { |ones| ones.sum { |one| operation_rate(one, kind) } } }
          rates = nodes.map(&:sum)
          figures = { "name" => kind, "ops_per_s" => mean(rates), "time_s" => spans.map(&:first).max,
                      "start_skew" => spans.map(&:last).max }
          figures.merge!(spread(rates, "ops_per_s")) if trials.size > 1
          figures["nodes_ops_per_s"] = nodes.transpose.map { |of_node| mean(of_node) } if nodes.first.size > 1
          figures
        end
      end

      def mean(values) = values.sum / values.size
    end
  end
end
