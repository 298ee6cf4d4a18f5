# frozen_string_literal: true

require "rakuda/bench/facets"
require "rakuda/bench/figures"
require "rakuda/bench/plots"
require "rakuda/bench/splits"

module Rakuda
  module Bench
    # Plots of how kernels and micro-benchmarks varied: parts of phases, repetitions in their order, and when ranks
    # began.
    module Spread
      # Of one line of repetitions.
      HEIGHT = 90
      COLOURS = %w[#5b8fc9 #d55e00 #009e73 #cc79a7 #e69f00 #999999].freeze

      module_function

      # @param name [String] of the benchmark
      # @param group [Array<Hash>] its results
      # @return [Hash{String => String}] name => SVG
      def of(name, group)
        told = group.zip(Facets.telling(group)).reject { |result, _| (result["derived"] || []).empty? }
        { "#{name}-parts" => parts(name, told), "#{name}-repetitions" => repetitions(name, told),
          "#{name}-starts" => starts(name, told) }.compact
      end

      def parts(name, told)
        rows = told.select { |result, _| result.key?("phases") }.flat_map do |result, telling|
          Splits.phases(result).map { |phase, values| [labelled(phase, telling), values] }
        end
        Plots.stack("#{name}: opening, transfer, flush, closing, mean of ranks", Splits::PHASE.zip(Plots::COLOURS), rows)
      end

      def labelled(name, telling) = [name, *telling].reject(&:empty?).join(", ")

      # A line for each figure, from 0 to its greatest value: whether it rises or falls with time.
      def repetitions(name, told)
        lines = told.flat_map do |result, telling|
          operations = result["derived"].reject { |one| one["bw"] || one["bw_last_done"] }.map { |one| one["name"] }
          Plots.repetitions(result).select { |_, values| values.size > 1 }.map do |figure, values|
            [labelled(figure, telling), values, operations.include?(figure)]
          end
        end
        return if lines.empty?

        rows = lines.map.with_index { |words, index| line(*words, Plots::HEAD + (index * HEIGHT)) }
        Plots.frame("#{name}: repetitions in their order", rows, Plots::HEAD + (lines.size * HEIGHT) + 10)
      end

      def line(label, values, operations, top)
        width = (Plots::WIDTH - Plots::LEFT - Plots::RIGHT).fdiv([values.size - 1, 1].max)
        greatest = [values.max, 1e-12].max
        points = values.map.with_index do |value, index|
          [(Plots::LEFT + (index * width)).round(1), (top + HEIGHT - 20 - (value.fdiv(greatest) * (HEIGHT - 30))).round(1)]
        end
        dots = points.map { |left, height| %(<circle cx="#{left}" cy="#{height}" r="3" fill="#d55e00"/>) }
        Plots.label_text(label, top + (HEIGHT / 2)) +
          %(<path d="M#{Plots::LEFT} #{top + HEIGHT - 20}H#{Plots::WIDTH - Plots::RIGHT}" stroke="currentColor"/>) +
          %(<polyline points="#{points.map { |point| point.join(",") }.join(" ")}" fill="none" stroke="#5b8fc9"/>) + dots.join +
          %(<text x="#{Plots::WIDTH - Plots::RIGHT + 12}" y="#{top + 14}" font-size="11" fill="currentColor">to ) +
          "#{operations ? "#{values.max.round} " : Figures.bytes(values.max)}/s</text>"
      end

      # A point for each rank or worker and step.
      def starts(name, told)
        rows = told.flat_map do |result, telling|
          Splits.lags(result).map { |figure, lags| [labelled(figure, telling), lags] }
        end
        rows = rows.select { |_, lags| lags.size > 1 }
        return if rows.empty?

        bars = rows.map { |label, lags| Plots::Bar.new(label, 0.0, lags, "to #{Figures.seconds(lags.max)}") }
        Plots.draw("#{name}: how long after the first each rank or worker began a step", bars, unit: Figures.method(:seconds))
      end
    end
  end
end
