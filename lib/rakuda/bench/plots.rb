# frozen_string_literal: true

require "cgi"
require "rakuda/bench/engines"
require "rakuda/bench/facets"
require "rakuda/bench/figures"
require "rakuda/bench/micro_figures"
require "rakuda/bench/ratios"
require "rakuda/bench/scaling"
require "rakuda/bench/splits"

module Rakuda
  module Bench
    # Plots of results as SVG: bars, a point for every round or repetition, the 95 % interval of the median as a line.
    # They compute nothing that is not in a result.
    module Plots
      WIDTH = 760
      LEFT = 240
      RIGHT = 110
      ROW = 26
      HEAD = 40

      # One bar: its label, its length, single values, what stands behind it, and the interval of the median, or nil.
      Bar = Struct.new(:label, :value, :points, :text, :interval)
      # So far below the bars there is an axis with this many parts.
      AXIS = 24
      # Letters of a label that fit beside the bars.
      LABEL_LETTERS = 34
      PARTS_OF_AXIS = 4

      module_function

      # @param results [Array<Hash>]
      # @return [Hash{String => String}] name => SVG
      def of(results)
        plots = {}
        given = results.reject { |result| result["schema"] == "rakuda-bench-failure/1" }
        given.group_by { |result| result["benchmark"] }.each do |name, group|
          case group.first["schema"]
          when "rakuda-bench-workflow/1"
            plots.merge!("#{name}-makespan" => makespans(name, group), "#{name}-parts" => rounds_split(name, group))
          when "rakuda-bench-mapreduce/1"
            plots.merge!("#{name}-makespan" => makespans(name, group), "#{name}-parts" => parts(name, group))
          else plots.merge!(rates(name, group), Spread.of(name, group))
          end
        end
        plots.compact
      end

      def makespans(name, group)
        bars = group.zip(labels(group)).filter_map do |result, label|
          time = result.dig("derived", "makespan_s") or next
          points = Ratios.makespans(result).values
          Bar.new(label, time["median"], points, Figures.seconds(time["median"]), time["ci95"])
        end
        title = "#{name}: makespan, median, every round, and the median's 95 % interval"
        draw(title, bars, unit: Figures.method(:seconds)) unless bars.empty?
      end

      # The engine, and what tells a result from the others that are drawn with it.
      # @return [Array<String>]
      def labels(group)
        group.zip(Facets.telling(group)).map { |result, telling| telling.empty? ? Engine.label_of(result).to_s : telling }
      end

      # The parts of the time that follow each other, with their colours.
      PARTS = { "startup_s" => ["start", "#999999"], "map_s" => ["map", "#5b8fc9"], "shuffle_s" => ["shuffle", "#e69f00"],
                "reduce_s" => ["reduce", "#009e73"], "tail_s" => ["end", "#cc79a7"] }.freeze

      # Where the time of a job went, a bar for each engine.
      def parts(name, group)
        all = group.select { |result| result.dig("derived", "makespan_s") }
        rows = labels(all).zip(all.map { |result| PARTS.keys.map { |part| result["derived"][part] } })
        stack("#{name}: where the time went, medians of rounds", PARTS.values, rows)
      end

      # Likewise of a workflow: slots on average.
      def rounds_split(name, group)
        all = group.select { |result| result.dig("derived", "makespan_s") }
        rows = labels(all).zip(all.map { |result| Splits.rounds(result) }).select(&:last)
        stack("#{name}: what an average slot did, medians of rounds", Splits::ROUND.zip(COLOURS), rows)
      end

      COLOURS = %w[#999999 #5b8fc9 #e69f00 #cc79a7].freeze

      # @param legend [Array<Array(String, String)>] name and colour of each part
      # @param rows [Array<Array(String, Array<Float>)>] label, and seconds of each part
      # @return [String, nil]
      def stack(title, legend, rows)
        longest = rows.map { |_, values| values.sum }.max or return
        scale = (WIDTH - LEFT - RIGHT).fdiv([longest, 1e-12].max)
        words = legend.map.with_index do |(word, colour), index|
          left = LEFT + (index * 90)
          %(<rect x="#{left}" y="#{HEAD}" width="12" height="12" fill="#{colour}"/>) +
            %(<text x="#{left + 16}" y="#{HEAD + 11}" fill="currentColor">#{word}</text>)
        end
        bars = rows.map.with_index do |(label, values), index|
          stacked(label, values, legend.map(&:last), HEAD + ROW + (index * ROW), scale)
        end
        frame(title, words + bars, HEAD + (ROW * (rows.size + 1)) + 10)
      end

      def stacked(label, values, colours, top, scale)
        left = LEFT
        bars = values.zip(colours).map do |value, colour|
          width = (value * scale).round(1)
          left += width
          %(<rect x="#{(left - width).round(1)}" y="#{top + 4}" width="#{width}" height="#{ROW - 8}" fill="#{colour}"/>)
        end
        label_text(label, top + 17) + bars.join
      end

      def rates(name, group)
        all = group.zip(Facets.telling(group)).flat_map do |result, telling|
          (result["derived"] || []).map { |one| [one, telling, repetitions(result)[one["name"]]] }
        end
        by_unit = all.group_by { |one, _, _| one["ops_per_s"] && !one["bw_last_done"] ? "operations" : "bandwidth" }
        by_unit.to_h do |unit, ones|
          plain = unit == "operations" ? ->(value) { "#{value.round} /s" } : ->(value) { "#{Figures.bytes(value)}/s" }
          title = "#{name}: #{unit}, all together, every repetition, and the median's 95 % interval"
          ["#{name}-#{unit}", draw(title, ones.map { |one| rate_bar(one, unit, plain) }, unit: plain)]
        end
      end

      def rate_bar((one, telling, values), unit, plain)
        key = unit == "operations" ? "ops_per_s" : "bw"
        value = one[key] || one["bw_last_done"]
        values ||= one.values_at("min_#{key}", "max_#{key}").compact
        Bar.new([one["name"], *telling].reject(&:empty?).join(", "), value, values, plain[value], one["ci95"])
      end

      # @return [Hash{String => Array<Numeric>}] what each repetition reached, by name of the figure
      def repetitions(result)
        return MicroFigures.repetitions(result["steps"]) if result.key?("steps")

        (result["phases"] || []).group_by { |phase| phase["name"] }
                                .transform_values { |ones| ones.size > 1 ? ones.map { |one| one["bw_last_done"] } : [] }
      end

      # @param logarithmic [Boolean] from a tenth of the least value on, with a mark at each power of ten
      # @param unit [#call, nil] makes a text of a value of the axis; without it there is none
      def draw(title, bars, logarithmic: false, unit: nil)
        values = bars.flat_map { |bar| [bar.value, *bar.points, *bar.interval] }
        across = logarithmic ? Scaling.axis([values.min / 10, values.max], LEFT, WIDTH - RIGHT) : linear(values.max)
        bottom = HEAD + (ROW * bars.size)
        rows = bars.each_with_index.map { |bar, index| row(bar, HEAD + (index * ROW), across) }
        ticks = logarithmic ? decades(values.min / 10, values.max) : parts_of(values.max)
        rows += axis(ticks, bottom, across, unit) if unit
        frame(title, rows, bottom + (unit ? AXIS : 0) + 10)
      end

      def axis(ticks, top, across, unit)
        line = %(<path d="M#{LEFT} #{top + 4}H#{WIDTH - RIGHT}" fill="none" stroke="currentColor"/>)
        [line] + ticks.map do |value|
          %(<path d="M#{across[value]} #{top + 4}v4" stroke="currentColor"/>) +
            %(<text x="#{across[value]}" y="#{top + 20}" text-anchor="middle" font-size="11" fill="currentColor">) +
            "#{CGI.escapeHTML(value.zero? ? "0" : unit.call(value))}</text>"
        end
      end

      # From 0 to the greatest value.
      def parts_of(greatest) = (0..PARTS_OF_AXIS).map { |part| greatest * part / PARTS_OF_AXIS.to_f }

      # The powers of ten between the two.
      def decades(least, greatest)
        (Math.log10(least).ceil..Math.log10(greatest).floor).map { |exponent| 10.0**exponent }
      end

      def linear(longest)
        scale = (WIDTH - LEFT - RIGHT).fdiv([longest, 1e-12].max)
        ->(value) { (LEFT + (value * scale)).round(1) }
      end

      def frame(title, rows, height)
        <<~SVG
          <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 #{WIDTH} #{height}" role="img" font-family="sans-serif" font-size="13">
          <title>#{CGI.escapeHTML(title)}</title>
          <text x="8" y="20" font-size="15" fill="currentColor">#{CGI.escapeHTML(title)}</text>
          #{rows.join("\n")}
          </svg>
        SVG
      end

      # What the bar is worth stands at the right edge, beside no single point.
      def row(bar, top, across)
        middle = top + (ROW / 2)
        points = bar.points.map { |value| %(<circle cx="#{across[value]}" cy="#{middle}" r="3" fill="#d55e00"/>) }
        low, high = bar.interval&.map(&across)
        interval = low ? %(<path d="M#{low} #{middle}H#{high}" stroke="currentColor" stroke-width="2"/>) : ""
        <<~SVG.chomp
          #{label_text(bar.label.to_s, middle + 4)}
          <rect x="#{LEFT}" y="#{top + 4}" width="#{(across[bar.value] - LEFT).round(1)}" height="#{ROW - 8}" fill="#5b8fc9"/>
          #{interval}#{points.join}<text x="#{WIDTH - RIGHT + 12}" y="#{middle + 4}" fill="currentColor">#{CGI.escapeHTML(bar.text)}</text>
        SVG
      end

      # Long labels are drawn smaller, so that they end where the bar begins and begin within the picture.
      def label_text(label, bottom)
        fitting = label.size > LABEL_LETTERS ? %( textLength="#{LEFT - 12}" lengthAdjust="spacingAndGlyphs") : ""
        %(<text x="#{LEFT - 8}" y="#{bottom}" text-anchor="end"#{fitting} fill="currentColor">#{CGI.escapeHTML(label)}</text>)
      end
    end
  end
end

require "rakuda/bench/spread"
