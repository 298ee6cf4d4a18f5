# frozen_string_literal: true

require "rakuda/bench/errors"
require "rakuda/bench/facets"
require "rakuda/bench/figures"
require "rakuda/bench/instance"
require "rakuda/bench/ratios"
require "rakuda/bench/report"

module Rakuda
  module Bench
    # Two results of one instance beside each other: what they are of, where they differ, and whether their figures do.
    module Difference
      # What makes them results of other conditions, which are compared only when that is asked for.
      CONDITIONS = %w[slots workers nodes hosts ranks cache durable direct compute_s read_shift write read].freeze

      module_function

      # @param force [Boolean] also when they were measured under other conditions, which is said then
      # @return [Boolean] whether both are valid
      # @raise [UsageError] when they cannot be compared
      def tell(one, other, out, force: false)
        refuse_instances(one, other)
        [one, other].each { |result| refuse_empty(result) }
        refuse_versions(*[one, other].map { |result| result["suite_version"] })
        unlike, rest = Facets.differences(one, other).partition { |what| CONDITIONS.include?(what[/\A\S+/]) }
        unless unlike.empty? || force
          raise UsageError, "measured under other conditions: #{unlike.join(", ")}; --force compares them"
        end

        { "first" => one, "second" => other }.each { |name, result| out.puts heads(name, result) }
        unlike.each { |what| out.puts "other conditions: #{what}" }
        rest.each { |what| out.puts "they differ: #{what}" }
        rows(one, other).each { |row| out.puts format("%-28s %16s %16s   %-6s %s", *row).rstrip }
        [one, other].all? { |result| result["valid"] }
      end

      # @return [Array<String>]
      def heads(name, result)
        ["#{name}: #{Report.head(result)}, #{result["ended_at"]}"] +
          result["reasons"].map { |reason| "    not valid: #{reason}" }
      end

      # Name, both values, their ratio, and whether they differ.
      def rows(one, other)
        theirs = figures(other)
        [["", "first", "second", "ratio", ""]] + figures(one).map do |name, (value, interval)|
          with, its = theirs[name]
          ratio = with && value.positive? ? format("%.2f", with / value) : "-"
          [name, plain(name, value), plain(name, with), ratio, verdict(one, other, name, interval, its)]
        end
      end

      # Rounds of one comparison are set beside each other; otherwise there are the two medians' intervals alone.
      def verdict(one, other, name, interval, its)
        if name == "makespan_s" && one["comparison"] && one["comparison"] == other["comparison"]
          return Ratios.undecided(Ratios.of(other, one, Ratios.method(:makespans)))
        end
        return "" unless interval && its

        overlap = interval.first <= its.last && its.first <= interval.last
        told = [interval, its].map { |bounds| "[#{bounds.map { |bound| plain(name, bound) }.join(" - ")}]" }.join(" and ")
        "medians at 95 %: #{told}#{", no difference" if overlap}"
      end

      # @raise [UsageError]
      def refuse_instances(one, other)
        same = %w[schema benchmark].all? { |key| one[key] == other[key] }
        instances = [one, other].map { |result| result["instance"] || {} }
        return if same && (instance(one) == instance(other) || Instance.same?(*instances))

        raise UsageError, "these are results of different instances: #{instance(one)} and #{instance(other)}"
      end

      # @raise [UsageError]
      def refuse_empty(result)
        return unless (result["derived"] || []).empty?

        raise UsageError, "#{result["benchmark"]} has no figures to compare: #{(result["reasons"] || []).join("; ")}"
      end

      # Kernels of another version may write other bytes for the same instance.
      # @raise [UsageError]
      def refuse_versions(ours, theirs)
        return if ours == theirs

        raise UsageError, "these are results of kernels of versions #{ours || "?"} and #{theirs || "?"}, which may write " \
                          "different bytes: run the older one once more"
      end

      # What must be equal.
      def instance(result)
        Instance.identity(result["instance"] || {}) ||
          [result["benchmark"], result["size"], result["workers"], (result["settings"] || {}).except(*Facets::UNSAID)].inspect
      end

      # @return [Hash{String => Array}] a value, and the 95 % interval of its median where there is one
      def figures(result)
        derived = result["derived"]
        return derived.to_h { |name, value| [name, value.is_a?(Hash) ? value.values_at("median", "ci95") : [value]] } if
          derived.is_a?(Hash)

        derived.to_h do |one|
          key = %w[bw_last_done bw ops_per_s].find { |name| one.key?(name) }
          ["#{one["name"]}, #{key == "ops_per_s" ? "1/s" : "B/s"}", [one[key], one["ci95"]]]
        end
      end

      # With the unit that the name of the figure has.
      def plain(name, value)
        return "-" unless value
        return "#{value.negative? ? "-" : ""}#{Figures.seconds(value.abs)}" if name.end_with?("_s")
        return "#{Figures.bytes(value)}#{"/s" unless name.end_with?("bytes")}" if name.match?(%r{B/s\z|\Abw\z|bytes\z})

        format("%.4g%s", value, name.end_with?("1/s") ? " /s" : "")
      end
    end
  end
end
