# frozen_string_literal: true

require "cgi"
require "rakuda/bench/engines"
require "rakuda/bench/figures"
require "rakuda/bench/scaling"

module Rakuda
  module Bench
    # Plots of results as SVG: bars, every point of every round beside them. They compute nothing that is not in a result.
    module Plots
      WIDTH = 720
      LEFT = 200
      RIGHT = 110
      ROW = 26
      HEAD = 40

      # One bar: its label, its length, single values, and what stands behind it.
      Bar = Struct.new(:label, :value, :points, :text)

      module_function

      # @param results [Array<Hash>]
      # @return [Hash{String => String}] name => SVG
      def of(results)
        plots = {}
        given = results.reject { |result| result["schema"] == "rakuda-bench-failure/1" }
        given.group_by { |result| result["benchmark"] }.each do |name, group|
          case group.first["schema"]
          when "rakuda-bench-workflow/1" then plots["#{name}-makespan"] = makespans(name, group)
          when "rakuda-bench-mapreduce/1"
            plots.merge!("#{name}-makespan" => makespans(name, group), "#{name}-parts" => parts(name, group))
          else plots.merge!(rates(name, group))
          end
        end
        plots.compact
      end

      def makespans(name, group)
        bars = group.filter_map do |result|
          time = result.dig("derived", "makespan_s") or next
          points = Report.makespans(result).values
          Bar.new(Engine.label_of(result), time["median"], points, Figures.seconds(time["median"]))
        end
        draw("#{name}: makespan, median and every round", bars) unless bars.empty?
      end

      # The parts of the time that follow each other, with their colours.
      PARTS = { "startup_s" => ["start", "#999999"], "map_s" => ["map", "#5b8fc9"], "shuffle_s" => ["shuffle", "#e69f00"],
                "reduce_s" => ["reduce", "#009e73"], "tail_s" => ["end", "#cc79a7"] }.freeze

      # Where the time of a job went, a bar for each engine.
      def parts(name, group)
        all = group.select { |result| result.dig("derived", "makespan_s") }
        longest = all.map { |result| PARTS.keys.sum { |part| result["derived"][part] } }.max or return
        scale = (WIDTH - LEFT - RIGHT).fdiv([longest, 1e-12].max)
        rows = all.each_with_index.map { |result, index| stacked(result, HEAD + ROW + (index * ROW), scale) }
        legend = PARTS.values.map.with_index do |(word, colour), index|
          left = LEFT + (index * 90)
          %(<rect x="#{left}" y="#{HEAD}" width="12" height="12" fill="#{colour}"/>) +
            %(<text x="#{left + 16}" y="#{HEAD + 11}" fill="currentColor">#{word}</text>)
        end
        frame("#{name}: where the time went, medians of rounds", legend + rows, HEAD + (ROW * (all.size + 1)) + 10)
      end

      def stacked(result, top, scale)
        left = LEFT
        bars = PARTS.map do |part, (_, colour)|
          width = (result["derived"][part] * scale).round(1)
          left += width
          %(<rect x="#{(left - width).round(1)}" y="#{top + 4}" width="#{width}" height="#{ROW - 8}" fill="#{colour}"/>)
        end
        name = CGI.escapeHTML(Engine.label_of(result))
        %(<text x="#{LEFT - 8}" y="#{top + 17}" text-anchor="end" fill="currentColor">#{name}</text>) + bars.join
      end

      def rates(name, group)
        all = group.flat_map { |result| (result["derived"] || []).map { |one| [one, group.size > 1 ? where(result) : ""] } }
        by_unit = all.group_by { |one, _| one["ops_per_s"] && !one["bw_last_done"] ? "operations" : "bandwidth" }
        by_unit.to_h do |unit, ones|
          bars = ones.map do |one, where|
            value = unit == "operations" ? one["ops_per_s"] : one["bw"] || one["bw_last_done"]
            key = unit == "operations" ? "ops_per_s" : "bw"
            Bar.new("#{one["name"]}#{where}", value, one.values_at("min_#{key}", "max_#{key}").compact,
                    unit == "operations" ? "#{value.round} /s" : "#{Figures.bytes(value)}/s")
          end
          ["#{name}-#{unit}", draw("#{name}: #{unit}", bars)]
        end
      end

      # What tells a result from others of the same benchmark.
      def where(result)
        return ", #{Scaling.place(result).reverse.join(" ranks, ")} nodes" if result["schema"] == "rakuda-bench/1"

        ", #{result["size"]}, #{result["workers"]} workers"
      end

      # @param logarithmic [Boolean] from a tenth of the least value on
      def draw(title, bars, logarithmic: false)
        values = bars.flat_map { |bar| [bar.value, *bar.points] }
        across = logarithmic ? Scaling.axis([values.min / 10, values.max], LEFT, WIDTH - RIGHT) : linear(values.max)
        height = HEAD + (ROW * bars.size) + 10
        frame(title, bars.each_with_index.map { |bar, index| row(bar, HEAD + (index * ROW), across) }, height)
      end

      def linear(longest)
        scale = (WIDTH - LEFT - RIGHT).fdiv([longest, 1e-12].max)
        ->(value) { (LEFT + (value * scale)).round(1) }
      end

      def frame(title, rows, height)
        <<~SVG
          <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 #{WIDTH} #{height}" role="img" font-family="sans-serif" font-size="13">
          <title>#{CGI.escapeHTML(title)}</title>
          <text x="0" y="20" font-size="15" fill="currentColor">#{CGI.escapeHTML(title)}</text>
          #{rows.join("\n")}
          </svg>
        SVG
      end

      def row(bar, top, across)
        middle = top + (ROW / 2)
        points = bar.points.map { |value| %(<circle cx="#{across[value]}" cy="#{middle}" r="3" fill="#d55e00"/>) }
        farthest = [bar.value, *bar.points].max
        <<~SVG.chomp
          <text x="#{LEFT - 8}" y="#{middle + 4}" text-anchor="end" fill="currentColor">#{CGI.escapeHTML(bar.label.to_s)}</text>
          <rect x="#{LEFT}" y="#{top + 4}" width="#{(across[bar.value] - LEFT).round(1)}" height="#{ROW - 8}" fill="#5b8fc9"/>
          #{points.join}<text x="#{(across[farthest] + 8).round(1)}" y="#{middle + 4}" fill="currentColor">#{CGI.escapeHTML(bar.text)}</text>
        SVG
      end
    end
  end
end
