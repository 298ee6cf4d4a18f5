# frozen_string_literal: true

require "cgi"
require "fileutils"
require "json"
require "open3"
require "rakuda/bench/engines"
require "rakuda/bench/errors"
require "rakuda/bench/facets"
require "rakuda/bench/figures"
require "rakuda/bench/instance"
require "rakuda/bench/mapreduce/split"
require "rakuda/bench/micro"
require "rakuda/bench/micro_figures"
require "rakuda/bench/plots"
require "rakuda/bench/programs"
require "rakuda/bench/scaling"

module Rakuda
  module Bench
    # Results for people: as text, as a page with plots. All figures stand in the results already.
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
        engines = results.select { |result| result.key?("rounds") }
        (ratios(engines) + Scaling.groups(results).flat_map { |sweep| Scaling.lines(sweep) }).each { |line| out.puts line }
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
        else derived.map { |one| kernel_line(one) }
        end
      end

      def workflow_lines(result)
        derived = result["derived"]
        time = derived["makespan_s"]
        rounds = result["rounds"].size
        # Clocks of hosts say nothing of when the first task began.
        first = result.key?("hosts") ? "by the record to the first command" : "to the first"
        ["makespan #{Figures.seconds(time["median"])} [#{Figures.seconds(time["min"])} - #{Figures.seconds(time["max"])}], " \
         "median of #{rounds}#{interval(time["ci95"]) { |value| Figures.seconds(value) }}",
         "#{result.dig("instance", "tasks")} tasks: #{Figures.seconds(derived["busy_s"])} of their own, overhead " \
         "#{Figures.seconds(derived["overhead_per_task_s"])} a task; #{first} #{Figures.seconds(derived["startup_s"])}, " \
         "after the last #{Figures.seconds(derived["tail_s"])}"] + places_lines(result, "tasks" => "hosts")
      end

      # How many of something each host had in the last round.
      # @param lists [Hash{String => String}] what it is, and where a round says where it ran
      # @return [Array<String>] none of one machine
      def places_lines(result, lists)
        round = result["rounds"].reverse.find { |one| one.key?("nodes") } or return []
        counts = lists.map do |what, key|
          numbers = round[key].tally
          "#{what} #{result["hosts"].each_index.map { |place| numbers.fetch(place, 0) }.join(", ")}"
        end
        ["of each host in round #{round["round"] + 1}: #{counts.join("; ")}"]
      end

      def map_reduce_lines(result)
        derived = result["derived"]
        time = derived["makespan_s"]
        parts = { "start" => "startup_s", "map" => "map_s", "shuffle" => "shuffle_s", "reduce" => "reduce_s", "end" => "tail_s" }
        ["makespan #{Figures.seconds(time["median"])} [#{Figures.seconds(time["min"])} - #{Figures.seconds(time["max"])}], " \
         "median of #{result["rounds"].size}#{interval(time["ci95"]) { |value| Figures.seconds(value) }}; " \
         "#{Figures.bytes(derived["bw"])}/s",
         parts.map { |name, key| "#{name} #{Figures.seconds(derived[key])}" }.join(", "),
         "all tasks together: maps #{Figures.seconds(derived["map_busy_s"])}, reduces waiting for rows and ordering them " \
         "#{Figures.seconds(derived["shuffle_busy_s"])}, and then #{Figures.seconds(derived["reduce_busy_s"])}; " \
         "#{Figures.bytes(derived["shuffle_bytes"])} shuffled"] +
          places_lines(result, "maps" => "maps_hosts", "reduces" => "reduces_hosts")
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
      def skew_words(one, workers)
        workers > 1 ? "; workers began up to #{(one["start_skew"] * 100).ceil(1)} % of the time apart" : ""
      end

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
        together = "#{(sync["together"] * 100).floor(1)} % of the shortest program's time"
        ["gates #{lag}#{overhead}: programs ran together for #{together}#{late}",
         rule_line(result)]
      end

      # The rule of the 2016 paper (5.4.1; 14 s against 1.7 s in 5.6).
      def rule_line(result)
        shortest, least = MicroFigures.shortest(result["steps"]), MicroFigures.apart_s(result["sync"]) / MicroFigures::SKEW_MAX
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

      # Engines of one comparison beside rakuda: medians of ratios within a round. Results that do not say which comparison they
      # are of, as those from before, or that differ in slots, machine or conditions, are not set beside each other.
      # @return [Array<String>]
      def ratios(results)
        groups = results.group_by { |result| compared(result) }.values.select { |group| group.size > 1 }
        apart = results.group_by { |result| Instance.identity(result["instance"]) }.values
                       .reject { |group| group.map { |result| compared(result) }.uniq.size == 1 }
        groups.flat_map { |group| group_lines(group) } + apart.map do |group|
          "#{group.first["benchmark"]}: results of #{group.map { |result| compared(result) }.uniq.size} comparisons, whose " \
            "rounds are not set beside each other; `diff` shows two"
        end
      end

      # @return [Array] equal in results whose rounds took turns
      def compared(result)
        [result["comparison"] || result["id"], result.dig("instance", "hash"), Facets.place(result), result["conditions"]]
      end

      def group_lines(group)
        base = group.find { |result| result.dig("engine", "name") == "rakuda" } || group.first
        name = Engine.label_of(base)
        what = "#{group.first["benchmark"]}, #{Facets.line(group.first)}"
        lines = ["#{what}: time as a multiple of #{name}'s, median of rounds [least - greatest]"] +
                group.map { |result| ratio_line(result, base, :makespans) }
        return lines unless base["schema"] == "rakuda-bench-mapreduce/1"

        lines + ["#{group.first["benchmark"]}: likewise, from the first map to the last reduce"] +
          group.map { |result| ratio_line(result, base, :spans) }
      end

      def ratio_line(result, base, times)
        ratios = in_rounds(method(times).call(result), method(times).call(base))
        name = Engine.label_of(result)
        return format("    %-20s -", name) if ratios.empty?

        format("    %-20s %6.2f [%.2f - %.2f]%s", name, Figures.median(ratios), *ratios.minmax, undecided(ratios))
      end

      # @return [Array<Float>] a ratio for each round in which both ended well
      def in_rounds(times, others)
        times.filter_map { |round, time| time / others[round] if others[round] }
      end

      # @return [Hash{Integer => Float}] from the first map to the last reduce
      def spans(result)
        result["rounds"].reject { |round| round["fault"] }.to_h do |round|
          [round["round"], MapReduce::Split.of(round).values_at("map_s", "shuffle_s", "reduce_s").sum]
        end
      end

      # @return [Hash{Integer => Float}] of rounds that ended well
      def makespans(result)
        result["rounds"].reject { |round| round["fault"] }.to_h do |round|
          [round["round"], round["makespan_s"] || ((round["end_ns"] - round["start_ns"]) / 1e9)]
        end
      end

      def undecided(ratios)
        interval = Figures.interval(ratios)
        interval && interval.first < 1 && interval.last > 1 ? "   no difference at 95 %" : ""
      end

      CONVERTER = "rsvg-convert"

      # Writes `index.html`, and an SVG and a PNG for each plot.
      # @param say [#call] told why there are no PNG
      # @return [String] path of the page
      def page(results, folder, say)
        FileUtils.mkdir_p(folder)
        plots = Plots.of(results).merge(*Scaling.groups(results).map { |sweep| Scaling.plots(sweep) })
        plots.each { |name, svg| File.write(File.join(folder, "#{name}.svg"), svg) }
        pictures(plots.keys, folder, say)
        path = File.join(folder, "index.html")
        File.write(path, html(results, plots))
        path
      end

      # The page needs none of them, and so is written without the converter, too.
      def pictures(names, folder, say)
        converter = Programs.need(CONVERTER)
        names.each do |name|
          plot = File.join(folder, name)
          output, status = Open3.capture2e(converter, "--zoom", "2", "--background-color", "white", "--output", "#{plot}.png",
                                           "#{plot}.svg")
          raise Failure, "#{CONVERTER}: #{output.lines.first.to_s.strip}" unless status.success?
        end
      rescue UsageError => e
        say.call("plots as SVG alone: #{e.message}")
      end

      STYLE = <<~CSS
        :root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
        body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
        table { border-collapse: collapse; display: block; overflow-x: auto; font-variant-numeric: tabular-nums }
        th, td { text-align: left; padding: .25rem .75rem .25rem 0; border-bottom: 1px solid #8884; vertical-align: top }
        @media (max-width: 40rem) { thead { display: none } td { display: block; border: 0; padding: 0 }
          td:first-child { font-weight: bold }
          td:last-child { border-bottom: 1px solid #8884; padding-bottom: .5rem; margin-bottom: .5rem } }
        .bad { color: #c33 } figure { margin: 1.5rem 0 } svg { max-width: 100%; height: auto }
        pre { overflow-x: auto }
      CSS

      def html(results, plots)
        rows = results.map { |result| row(result) }
        figures = plots.values.map { |svg| "<figure>#{svg}</figure>" }
        <<~HTML
          <!doctype html>
          <html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
          <title>I/O benchmarks</title><style>#{STYLE}</style>
          <h1>I/O benchmarks</h1>
          <table><thead><tr><th>benchmark</th><th>size</th><th>engine</th><th>result</th><th>figures</th></tr></thead>
          <tbody>#{rows.join("\n")}</tbody></table>
          #{ratio_text(results)}
          #{figures.join("\n")}
          #{machines(results).join("\n")}
          </html>
        HTML
      end

      def ratio_text(results)
        lines = ratios(results.select { |result| result.key?("rounds") })
        lines.empty? ? "" : "<pre>#{CGI.escapeHTML(lines.join("\n"))}</pre>"
      end

      # Each machine and file system once, with what was measured there.
      def machines(results)
        results.select { |result| result["machine"] }.group_by { |result| Facets.place(result).values_at("machine", "fs") }
               .map do |place, group|
          names = group.map { |result| result["benchmark"] }.uniq.join(", ")
          "<h2>Machine #{CGI.escapeHTML(place.compact.join(", "))}</h2><p>#{CGI.escapeHTML(names)}</p>" \
            "<pre>#{CGI.escapeHTML(JSON.pretty_generate(group.first["machine"]))}</pre>"
        end
      end

      def row(result)
        valid = result["valid"] ? "valid" : "<span class=bad>not valid</span>: #{CGI.escapeHTML(result["reasons"].join("; "))}"
        cells = [result["benchmark"], result["size"], engine(result) || "-"].map { |text|
 CGI.escapeHTML(text.to_s) }
        notes = (result["notes"] || []).map { |note| "note: #{note}" }
        lines = ([Facets.line(result)] + lines(result) + notes).map { |line| CGI.escapeHTML(line.strip) }.join("<br>")
        "<tr>#{[*cells, valid, lines].map { |cell| "<td>#{cell}</td>" }.join}</tr>"
      end
    end
  end
end
