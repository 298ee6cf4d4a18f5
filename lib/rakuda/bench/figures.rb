# frozen_string_literal: true

module Rakuda
  module Bench
    # What several repetitions say together. It knows no benchmark.
    module Figures
      # Fewer say little of how far they vary: only results of the size `tiny` may have them.
      REPETITIONS_MIN = 5

      module_function

      # @param values [Array<Numeric>] not empty
      # @return [Numeric]
      def median(values)
        sorted = values.sort
        middle = sorted.size / 2
        sorted.size.odd? ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2.0
      end

      # @param what [String] what is counted
      # @return [String, nil] why they say too little, unless the size is tiny; nil when they do not
      def too_few(count, what)
        return if count >= REPETITIONS_MIN

        "#{count} #{what}, and only tiny may have fewer than #{REPETITIONS_MIN}"
      end

      # A 95 % interval of the median by order statistics: no assumption on the distribution.
      # @return [Array(Numeric, Numeric), nil] nil below 6 values
      def interval(values)
        sorted = values.sort
        rank = (0...(sorted.size / 2)).take_while { |below| tail(sorted.size, below) <= 0.025 }.last
        rank && [sorted[rank], sorted[-1 - rank]]
      end

      # @return [Hash{String => Object}] median, least, greatest, interval
      def summary(values)
        { "median" => median(values), "min" => values.min, "max" => values.max, "ci95" => interval(values) }
      end

      # How probable it is that at most `below` of `count` values lie under the median.
      def tail(count, below)
        (0..below).sum { |k| binomial(count, k) } / (2.0**count)
      end

      def binomial(count, chosen)
        (1..chosen).reduce(1) { |product, i| product * (count - i + 1) / i }
      end

      # Units for people, the largest first: decimal ones of bytes, as bandwidths have them, and those of times.
      Unit = Struct.new(:name, :one, :form) do
        def number(value) = format(form, value / one)
      end
      BYTES = [["TB", 1e12], ["GB", 1e9], ["MB", 1e6], ["kB", 1e3]].map { |name, one| Unit.new(name, one, "%.2f") }
                                                                   .push(Unit.new("B", 1, "%d")).freeze
      SECONDS = [Unit.new("s", 1.0, "%.2f"), Unit.new("ms", 1e-3, "%.1f"), Unit.new("us", 1e-6, "%.0f")].freeze

      # @param units [Array<Unit>]
      # @return [Unit] the largest that the value has one of, or the smallest of all
      def unit(value, units) = units.find { |unit| value >= unit.one } || units.last

      # @return [String] bytes for people
      def bytes(number) = told(number, BYTES)

      # @return [String] seconds for people
      def seconds(number) = number ? told(number, SECONDS) : "-"

      def told(number, units)
        unit = unit(number, units)
        "#{unit.number(number)} #{unit.name}"
      end
    end
  end
end
