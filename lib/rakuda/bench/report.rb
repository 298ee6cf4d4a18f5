# frozen_string_literal: true

require "rakuda/bench/engines"
require "rakuda/bench/errors"
require "rakuda/bench/facets"
require "rakuda/bench/figures"
require "rakuda/bench/kernel_figures"
require "rakuda/bench/micro_figures"
require "rakuda/bench/ratios"
require "rakuda/bench/scaling"

module Rakuda
  module Bench
    # Results for people, as text. All figures stand in the results already.
    module Report
      module_function

      # @param results [Array<Hash>]
      # @param out [IO]
      def text(results, out)
        results.each do |result|
          out.puts head(result), "    #{Facets.line(result)}"
          lines(result).each { |line| out.puts "    #{line}" }
          (result["reasons"] || []).each { |reason| out.puts "    not valid: #{reason}" }
          (result["notes"] || []).each { |note| out.puts "    note: #{note}" }
        end
        (ratios(results) + Scaling.groups(results).flat_map { |sweep| Scaling.lines(sweep) }).each { |line| out.puts line }
      end

      def head(result)
        words = [result["benchmark"], result["size"], engine(result), result["valid"] ? "valid" : "NOT VALID"]
        words.compact.join("  ")
      end

      # With what it ran, and where, if that is not this machine alone.
      def engine(result)
        name = Engine.label_of(result)
        return name unless result.key?("hosts")

        nodes, ranks = Scaling.place(result)
        of = ranks ? [ranks, "rank"] : [result.dig("engine", "slots"), "slot"]
        "#{name}, #{[[nodes, "node"], of].map { |count, unit| "#{count} #{unit}#{"s" unless count == 1}" }.join(", ")}"
      end

      # @return [Array<String>] one for each figure
      def lines(result)
        derived = result["derived"]
        return [] if derived.nil? || derived.empty?

        case result["schema"]
        when "rakuda-bench-workflow/1" then workflow_lines(result)
        when "rakuda-bench-mapreduce/1" then map_reduce_lines(result)
        when "rakuda-bench-micro/1"
          derived.map { |one| micro_line(one, result["workers"]) } + sync_line(result) + rates_line(result)
        else kernel_lines(result)
        end
      end

      def workflow_lines(result)
        derived = result["derived"]
        time = derived["makespan_s"]
        # Clocks of hosts say nothing of when the first task began.
        first = result.key?("hosts") ? "by the record to the first command" : "to the first"
        ["makespan #{Figures.seconds(time["median"])} [#{Figures.seconds(time["min"])} - #{Figures.seconds(time["max"])}], " \
         "median of #{Ratios.good(result).size}#{interval(time["ci95"]) { |value| Figures.seconds(value) }}",
         "#{result.dig("instance", "tasks")} tasks: #{Figures.seconds(derived["busy_s"])} of their own, overhead " \
         "#{Figures.seconds(derived["overhead_per_task_s"])} a task; #{first} #{Figures.seconds(derived["startup_s"])}, " \
         "after the last #{Figures.seconds(derived["tail_s"])}"] + places_lines(result)
      end

      # @return [Array<String>] none of one machine
      def places_lines(result)
        round, counts = places(result)
        return [] unless round

        ["of each host in round #{round}: #{counts.map { |what, numbers| "#{what} #{numbers.join(", ")}" }.join("; ")}"]
      end

      # What ran on hosts, and where a round says on which.
      PLACES = { "tasks" => "hosts", "maps" => "maps_hosts", "reduces" => "reduces_hosts" }.freeze

      # How much of it each host had in the last round.
      # @return [Array(Integer, Hash{String => Array<Integer>}), nil] number of the round, and counts; nil of one
      #   machine
      def places(result)
        round = result["rounds"].reverse.find { |one| one.key?("nodes") } or return
        counts = PLACES.select { |_, key| round.key?(key) }.transform_values do |key|
          numbers = round[key].tally
          result["hosts"].each_index.map { |place| numbers.fetch(place, 0) }
        end
        [round["round"] + 1, counts]
      end

      # Those of a job's makespan.
      PARTS = { "start" => "startup_s", "map" => "map_s", "shuffle" => "shuffle_s", "reduce" => "reduce_s",
                "end" => "tail_s" }.freeze

      def map_reduce_lines(result)
        derived = result["derived"]
        time = derived["makespan_s"]
        ["makespan #{Figures.seconds(time["median"])} [#{Figures.seconds(time["min"])} - #{Figures.seconds(time["max"])}], " \
         "median of #{Ratios.good(result).size}#{interval(time["ci95"]) { |value| Figures.seconds(value) }}; " \
         "#{Figures.bytes(derived["bw"])}/s",
         PARTS.map { |name, key| "#{name} #{Figures.seconds(derived[key])}" }.join(", "),
         "all tasks together: maps #{Figures.seconds(derived["map_busy_s"])}, reduces waiting for rows and ordering them " \
         "#{Figures.seconds(derived["shuffle_busy_s"])}, and then #{Figures.seconds(derived["reduce_busy_s"])}; " \
         "#{Figures.bytes(derived["shuffle_bytes"])} shuffled"] +
          places_lines(result)
      end

      def micro_line(one, workers)
        unit, plain = one["bw"] ? ["bw", ->(rate) { "#{Figures.bytes(rate)}/s" }] : ["ops_per_s", ->(rate) { rate.round.to_s }]
        nodes = one["nodes_#{unit}"]&.map(&plain)
        words = unit == "bw" ? "in #{Figures.seconds(one["time_s"])}" : "operations/s"
        first = one["bw_first_done"] ? "; until the first worker ended #{plain[one["bw_first_done"]]}" : ""
        format("%-18s %16s  %s%s%s%s%s", one["name"], plain[one[unit]], words, spread(one, unit, plain), first,
               nodes_words(nodes), skew_words(one, workers))
      end

      # How far apart workers really began, which a gate that was passed at one instant does not say.
      def skew_words(one, workers) = workers > 1 ? "; workers began up to #{skew(one)} % of the time apart" : ""

      def skew(one) = (one["start_skew"] * 100).ceil(1)

      # What single repetitions have reached.
      def spread(one, unit, plain)
        return "" unless one.key?("reps")

        median, least, greatest = %w[median min max].map { |name| plain[one["#{name}_#{unit}"]] }
        "; median of #{one["reps"]} #{median} [#{least} - #{greatest}]#{interval(one["ci95"], &plain)}"
      end

      def nodes_words(rates) = rates ? "; of each node #{rates.join(", ")}" : ""

      # Whether the figures are of workers that ran together.
      def sync_line(result)
        sync = result["sync"] or return []
        lag = sync["lag_s"] ? "passed within #{Figures.seconds(sync["lag_s"])}" : "passed at times that are not known"
        overhead = sync["overhead_s"] ? ", overhead #{Figures.seconds(sync["overhead_s"])}" : ""
        late = sync["rounds_late"].positive? ? "; #{sync["rounds_late"]} of #{sync["rounds"]} rounds with a late worker" : ""
        ["gates #{lag}#{overhead}: programs ran together for #{together(sync)}#{late}",
         rule_line(result), clocks_line(sync["clock_bound_s"].to_f)].compact
      end

      def together(sync) = "#{(sync["together"] * 100).floor(1)} % of the shortest program's time"

      # The rule of the 2016 paper (5.4.1; 14 s against 1.7 s in 5.6).
      # @return [Array(Float, Float)] how long the shortest program ran, and how long it must, s
      def rule(result)
        [MicroFigures.shortest(result["steps"]), MicroFigures.apart_s(result["sync"]) / MicroFigures::SKEW_MAX]
      end

      def rule_line(result)
        shortest, least = rule(result)
        met = shortest >= least ? "as it must" : "which is too short"
        "the shortest program ran #{Figures.seconds(shortest)}, #{met}: all run together for 99 % of #{Figures.seconds(least)} " \
          "and longer"
      end

      def rates_line(result)
        return [] unless MicroFigures::RATED.include?(result["benchmark"])

        why = MicroFigures.unrated(result) and return ["no rates for the simulator: #{why}"]
        words = "rakudactl sim copyfile --nodes 1 --file-system local --rates"
        ["for the simulator: #{words} #{MicroFigures.rates(result).join(",")}"]
      end

      def kernel_lines(result)
        skews = KernelFigures.start_skews(result)
        result["derived"].map { |one| "#{kernel_line(one)}; ranks began up to #{Figures.seconds(skews[one["name"]])} apart" } +
          [clocks_line(KernelFigures.clock_bound_s(result))].compact
      end

      # @return [String, nil] nil of one clock
      def clocks_line(bound_s)
        "clocks of hosts are known within #{Figures.seconds(bound_s)}" if bound_s.positive?
      end

      def kernel_line(one)
        line = format("%-18s %14s/s,  %s in %s", one["name"], Figures.bytes(one["bw_last_done"]), Figures.bytes(one["bytes"]),
                      Figures.seconds(one["time_s"]))
        rate = ->(value) { "#{Figures.bytes(value)}/s" }
        "#{line}#{spread(one, "bw", rate) if one["reps"] > 1}; until the first rank ended #{rate[one["bw_first_done"]]}; " \
          "#{one["ops_per_s"].round} operations/s"
      end

      # @return [String] where the median lies at 95 %; nothing where there are too few values
      def interval(bounds)
        bounds ? ", at 95 % #{yield bounds.first} to #{yield bounds.last}" : ""
      end

      # Engines of one comparison beside rakuda: medians of ratios within a round.
      # @return [Array<String>]
      def ratios(results)
        Ratios.groups(results).flat_map { |group| group_lines(group) } + apart_lines(results)
      end

      def apart_lines(results)
        Ratios.apart(results).map do |group|
          "#{group.first["benchmark"]}: results of #{Ratios.comparisons(group)} comparisons, whose rounds are not set beside " \
            "each other; `diff` shows two"
        end
      end

      def group_lines(group)
        heads = { makespans: "#{group.benchmark}, #{Facets.line(group.results.first)}: time as a multiple of #{group.name}'s, " \
                             "median of rounds [least - greatest]",
                  spans: "#{group.benchmark}: likewise, from the first map to the last reduce" }
        group.times.flat_map do |name, times|
          [heads.fetch(name)] + group.results.map { |result| ratio_line(result, Ratios.of(result, group.base, times)) }
        end
      end

      def ratio_line(result, ratios)
        name = Engine.label_of(result)
        return format("    %-20s -", name) if ratios.empty?

        figures = [Figures.median(ratios), *ratios.minmax]
        format("    %-20s %6.2f [%.2f - %.2f]   %s", name, *figures, Ratios.undecided(ratios)).rstrip
      end
    end
  end
end
