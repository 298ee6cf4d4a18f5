# frozen_string_literal: true

require "rakuda/bench/engines"
require "rakuda/bench/figures"
require "rakuda/bench/kernel_figures"
require "rakuda/bench/ratios"
require "rakuda/bench/report"
require "rakuda/bench/scaling"

module Rakuda
  module Bench
    # Figures as tables: those of a result, engines of a comparison below each other, the points of a sweep. The values
    # of a row have one unit. It computes no figure, and knows nothing of pages.
    module Tables
      # Rows are texts by column; nil where a row has nothing there. Notes stand below.
      Table = Struct.new(:title, :rows, :notes) do
        # Columns in which no row has anything are left out.
        def heads = rows.flat_map(&:keys).uniq.select { |head| rows.any? { |row| row[head] } }
      end

      OPERATIONS = [Figures::Unit.new("", 1, "%.0f")].freeze
      # Columns of what repetitions say together, and where a result has it.
      SPREAD = { "median" => "median", "at 95 %" => "ci95", "min" => "min", "max" => "max" }.freeze
      FIRST_DONE = "first done"

      module_function

      # @return [Array<Table>] none of a result without figures
      def of(result)
        return [] if (result["derived"] || []).empty?

        case result["schema"]
        when "rakuda-bench-workflow/1" then [Table.new(nil, workflow(result)), *places(result)]
        when "rakuda-bench-mapreduce/1" then [Table.new(nil, job(result)), *places(result)]
        when "rakuda-bench-micro/1" then [Table.new(nil, micro(result)), *nodes(result), *together(result)]
        else [Table.new(nil, phases(result), [Report.clocks_line(KernelFigures.clock_bound_s(result))].compact)]
        end
      end

      # @return [String, nil] the first figure of a result, with its name
      def first(result)
        row = of(result).first&.rows&.first or return
        [row["figure"], row["overall"] || row["median"], row["unit"]].join(" ")
      end

      # @param values [Hash{String => Numeric, Array<Numeric>, nil}] by column
      # @param count [Integer] of repetitions or rounds
      # @param per [String] behind the unit
      # @return [Hash{String => String}]
      def row(name, units, values, count, per: "")
        unit = unit(values.values, units)
        { "figure" => name, **cells(values, unit), "unit" => "#{unit.name}#{per}", "n" => count.to_s }
      end

      # The largest that all values have one of: none loses its digits.
      def unit(values, units) = Figures.unit(values.flatten.compact.reject(&:zero?).min || 0, units)

      def cells(values, unit)
        values.transform_values { |value| value && Array(value).map { |one| unit.number(one) }.join(" – ") }
      end

      # @param one [Hash] a figure with several repetitions, or one
      # @param key [String] what its median, least and greatest are of
      def spread(one, key)
        several = one["reps"].to_i > 1
        SPREAD.transform_values { |name| one[name == "ci95" ? name : "#{name}_#{key}"] if several }
      end

      # Of a kernel.
      def phases(result)
        skews = KernelFigures.start_skews(result)
        result["derived"].map { |one| phase(one).merge("began apart" => Figures.seconds(skews[one["name"]])) }
      end

      def phase(one)
        row(one["name"], Figures::BYTES, { "overall" => one["bw_last_done"], **spread(one, "bw"),
                                           FIRST_DONE => one["bw_first_done"] }, one["reps"], per: "/s")
          .merge("bytes" => Figures.bytes(one["bytes"]), "time" => Figures.seconds(one["time_s"]),
                 "operations/s" => one["ops_per_s"].round.to_s)
      end

      def micro(result)
        result["derived"].map do |one|
          key, units = rate(one)
          row(one["name"], units, { "overall" => one[key], **spread(one, key), FIRST_DONE => one["bw_first_done"] },
              one.fetch("reps", 1), per: "/s")
            .merge("time" => (Figures.seconds(one["time_s"]) if key == "bw"),
                   "began apart" => ("#{Report.skew(one)} %" if result["workers"] > 1))
        end
      end

      # @return [Array(String, Array<Figures::Unit>)] what a figure of a micro-benchmark is
      def rate(one) = one["bw"] ? ["bw", Figures::BYTES] : ["ops_per_s", OPERATIONS]

      def nodes(result)
        rows = result["derived"].filter_map do |one|
          key, units = rate(one)
          rates = one["nodes_#{key}"] or next
          values = rates.map.with_index(1) { |value, node| ["node #{node}", value] }.to_h
          row(one["name"], units, values, 0, per: "/s").except("n")
        end
        rows.empty? ? [] : [Table.new("Of each node", rows)]
      end

      # Whether the figures are of workers that ran together.
      def together(result)
        sync = result["sync"] or return []
        shortest, least = Report.rule(result)
        words = { "gates passed within" => sync["lag_s"] ? Figures.seconds(sync["lag_s"]) : "not known",
                  "overhead" => (Figures.seconds(sync["overhead_s"]) if sync["overhead_s"]),
                  "programs ran together for" => Report.together(sync),
                  "rounds with a late worker" => "#{sync["rounds_late"]} of #{sync["rounds"]}",
                  "shortest program" => "#{Figures.seconds(shortest)}#{", too short" if shortest < least}",
                  "shortest that runs together for 99 %" => Figures.seconds(least),
                  "clocks known within" => (Figures.seconds(sync["clock_bound_s"]) if sync["clock_bound_s"].to_f.positive?) }
        [Table.new("Synchronised start", words.compact.map { |name, value| { "figure" => name, "value" => value } })]
      end

      def workflow(result)
        derived = result["derived"]
        [times("makespan", result, derived["makespan_s"]),
         times("busy, #{result.dig("instance", "tasks")} tasks", result, { "median" => derived["busy_s"] }),
         times("overhead of a task", result, { "median" => derived["overhead_per_task_s"] }),
         times("start-up", result, { "median" => derived["startup_s"] }),
         times("tail", result, { "median" => derived["tail_s"] })]
      end

      BUSY = { "all maps together" => "map_busy_s", "all reduces, until rows are in order" => "shuffle_busy_s",
               "all reduces, from then on" => "reduce_busy_s" }.freeze

      def job(result)
        derived = result["derived"]
        [times("makespan", result, derived["makespan_s"]),
         *Report::PARTS.merge(BUSY).map { |name, key| times(name, result, { "median" => derived[key] }) },
         times("bandwidth", result, { "median" => derived["bw"] }, Figures::BYTES, "/s"),
         times("shuffled", result, { "median" => derived["shuffle_bytes"] }, Figures::BYTES)]
      end

      # @param summary [Hash] median, and the rest where it is known
      def times(name, result, summary, units = Figures::SECONDS, per = "")
        row(name, units, SPREAD.transform_values { |key| summary[key] }, Ratios.good(result).size, per: per)
      end

      def places(result)
        round, counts = Report.places(result)
        return [] unless round

        rows = counts.map do |what, numbers|
          { "" => what, **numbers.map.with_index(1) { |number, host| ["host #{host}", number.to_s] }.to_h }
        end
        [Table.new("Of each host in round #{round}", rows)]
      end

      # @param group [Ratios::Group]
      # @return [Array<Table>] a row for each engine
      def comparison(group)
        tables = [Table.new("Engines: makespan, and as a multiple of #{group.name}'s within a round", makespans(group))]
        return tables unless group.times.key?(:spans)

        title = "Engines: parts of the makespan, and from the first map to the last reduce as a multiple of #{group.name}'s"
        tables << Table.new(title, parts(group))
      end

      def makespans(group)
        known = group.results.map { |result| result.dig("derived", "makespan_s") || {} }
        unit = unit(known.flat_map { |one| one.values_at(*SPREAD.values) }, Figures::SECONDS)
        group.results.zip(known).map do |result, summary|
          { "engine" => Engine.label_of(result), **cells(SPREAD.transform_values { |key| summary[key] }, unit),
            "unit" => unit.name, "n" => Ratios.good(result).size.to_s, **multiples(result, group, :makespans),
            "overhead of a task" => overhead(result), "result" => result["valid"] ? "valid" : "not valid" }
        end
      end

      def overhead(result)
        seconds = result.dig("derived", "overhead_per_task_s") and Figures.seconds(seconds)
      end

      def parts(group)
        known = group.results.map { |result| (result["derived"] || {}).values_at(*Report::PARTS.values) }
        unit = unit(known, Figures::SECONDS)
        group.results.zip(known).map do |result, values|
          { "engine" => Engine.label_of(result), **cells(Report::PARTS.keys.zip(values).to_h, unit), "unit" => unit.name,
            **multiples(result, group, :spans) }
        end
      end

      def multiples(result, group, times)
        ratios = Ratios.of(result, group.base, group.times.fetch(times))
        least, greatest = ratios.minmax
        said = [(Figures.median(ratios) unless ratios.empty?), least, greatest].map { |ratio| ratio && format("%.2f", ratio) }
        { "multiple" => said[0], "least" => said[1], "greatest" => said[2],
          "difference" => (Ratios.undecided(ratios) unless Ratios.undecided(ratios).empty?) }
      end

      # @param sweep [Scaling::Sweep]
      # @return [Array<Table>] one for each phase, a row for each point
      def sweep(sweep)
        Scaling.table(sweep).map do |phase, points|
          unit = unit(points.map { |point| point[2..4] }, Figures::BYTES)
          rows = points.map do |nodes, ranks, rate, least, greatest, times|
            { "nodes" => nodes.to_s, "ranks" => ranks.to_s,
              **cells({ "bandwidth" => rate, "min" => least, "max" => greatest }, unit), "unit" => "#{unit.name}/s",
              "times the first" => format("%.2f", times) }
          end
          Table.new("#{phase} over #{sweep.over}, #{sweep.results.first["size"]}", rows, Scaling.told_lines(sweep, phase))
        end
      end
    end
  end
end
