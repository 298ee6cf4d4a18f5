# frozen_string_literal: true

require "cgi"
require "fileutils"
require "json"
require "open3"
require "rakuda/bench/errors"
require "rakuda/bench/facets"
require "rakuda/bench/plots"
require "rakuda/bench/programs"
require "rakuda/bench/ratios"
require "rakuda/bench/report"
require "rakuda/bench/scaling"
require "rakuda/bench/tables"

module Rakuda
  module Bench
    # Results as one page that needs nothing else: a list of all, then by benchmark what they say together, the figures
    # of each, and the plots, which stand beside the page as files, too. It computes nothing.
    module Page
      CONVERTER = "rsvg-convert"

      STYLE = <<~CSS
        :root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; --line: #8884; --soft: #666; --bad: #b3261e }
        @media (prefers-color-scheme: dark) { :root { --soft: #aaa; --bad: #ff8a80 } }
        body { max-width: 80rem; margin: 1.5rem auto; padding: 0 1rem }
        h1, h2, h3, h4 { line-height: 1.25; margin: 0 0 .5rem }
        h2 { margin-top: 2.5rem; padding-bottom: .25rem; border-bottom: 2px solid var(--line) }
        h3 { font-size: 1.05rem; margin-top: 1.75rem }
        h4 { font-size: .875rem; margin-top: 1rem }
        p, ul { margin: .25rem 0 }
        .of, .notes { color: var(--soft); font-size: .875rem; overflow-wrap: anywhere }
        .notes { padding-left: 1.25rem }
        .bad { color: var(--bad) }
        .wide { overflow-x: auto; margin: .5rem 0 }
        table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums }
        th, td { text-align: right; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid var(--line); white-space: nowrap }
        th { font-weight: 600; vertical-align: bottom }
        .wide th:first-child, .wide td:first-child { position: sticky; left: 0; background: Canvas }
        .words { text-align: left }
        .contents td { white-space: normal; text-align: left; vertical-align: top }
        .plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 34rem), 1fr)); gap: 1rem; margin-top: 1.5rem }
        figure { margin: 0; overflow-x: auto }
        svg { width: 100%; min-width: 34rem; height: auto }
        pre { overflow-x: auto; font-size: .875rem }
      CSS

      # Columns of words; all others are numbers.
      WORDS = ["", "figure", "engine", "unit", "value", "difference", "result"].freeze

      module_function

      # Writes `index.html`, and an SVG and a PNG for each plot.
      # @param results [Array<Hash>]
      # @param say [#call] told why there are no PNG
      # @return [String] path of the page
      def write(results, folder, say)
        FileUtils.mkdir_p(folder)
        plots = results.group_by { |result| result["benchmark"] }.transform_values { |group| plots_of(group) }
        all = plots.values.reduce({}, :merge)
        all.each { |name, svg| File.write(File.join(folder, "#{name}.svg"), svg) }
        pictures(all.keys, folder, say)
        path = File.join(folder, "index.html")
        File.write(path, html(results, plots))
        path
      end

      # Sweeps of one benchmark may have the same name.
      # @return [Hash{String => String}] name => SVG
      def plots_of(group)
        Scaling.groups(group).each_with_object(Plots.of(group)) do |sweep, all|
          Scaling.plots(sweep).each do |name, svg|
            taken = all.keys.count { |one| one.match?(/\A#{Regexp.escape(name)}(-\d+)?\z/) }
            all[taken.zero? ? name : "#{name}-#{taken + 1}"] = svg
          end
        end
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

      # @param plots [Hash{String => Hash{String => String}}] benchmark => name => SVG
      def html(results, plots = {})
        numbered = results.group_by { |result| result["benchmark"] }.values.flatten.each.with_index(1).to_a
        sections = numbered.group_by { |result, _| result["benchmark"] }
                           .map { |name, group| section(name, group, plots.fetch(name, {})) }
        <<~HTML
          <!doctype html>
          <html lang="en"><head><meta charset="utf-8"/><meta name="viewport" content="width=device-width, initial-scale=1"/>
          <title>I/O benchmarks</title><style>#{STYLE}</style></head><body>
          <h1>I/O benchmarks</h1>
          #{contents(numbered)}
          #{sections.join("\n")}
          #{machines(results).join("\n")}
          </body></html>
        HTML
      end

      # A line for each result.
      def contents(numbered)
        rows = numbered.map do |result, number|
          name = [result["benchmark"], result["size"], Report.engine(result)].compact.join(", ")
          "<tr><td><a href=\"#result-#{number}\">#{escape(name)}</a></td><td>#{escape(Tables.first(result))}</td>" \
            "<td>#{validity(result)}</td></tr>"
        end
        "<table class=\"contents\"><tbody>#{rows.join("\n")}</tbody></table>"
      end

      # With the first reason; all of them stand with the result.
      def validity(result)
        return "valid" if result["valid"]

        reason, *more = result["reasons"]
        said = [reason, ("and #{more.size} more" unless more.empty?)].compact.join("; ")
        "<span class=\"bad\">not valid</span>: #{escape(said)}"
      end

      def section(name, numbered, plots)
        figures = plots.values.map { |svg| "<figure>#{svg}</figure>" }
        figures = ["<div class=\"plots\">#{figures.join("\n")}</div>"] unless figures.empty?
        articles = numbered.map { |result, number| article(result, number) }
        "<section><h2>#{escape(name)}</h2>\n#{(together(numbered.map(&:first)) + articles + figures).join("\n")}</section>"
      end

      # What results of one benchmark say together.
      def together(results)
        Ratios.groups(results).flat_map { |group| comparison(group) } +
          Report.apart_lines(results).map { |line| of(line) } +
          Scaling.groups(results).flat_map { |sweep| Tables.sweep(sweep) }.map { |table| table(table) }
      end

      def comparison(group)
        first = group.results.first
        [of("#{first["size"]}, #{Facets.line(first)}"), *Tables.comparison(group).map { |table| table(table) }]
      end

      def article(result, number)
        head = [result["size"], Report.engine(result)].compact.join(", ")
        verdict = result["valid"] ? "valid" : "<span class=\"bad\">not valid</span>"
        reasons = (result["reasons"] || []).map { |reason| "not valid: #{reason}" }
        notes = (result["notes"] || []).map { |note| "note: #{note}" }
        "<article id=\"result-#{number}\"><h3>#{escape("#{result["benchmark"]}, #{head}")}: #{verdict}</h3>\n" \
          "#{of(Facets.line(result))}\n#{Tables.of(result).map { |table| table(table) }.join("\n")}" \
          "#{list(reasons, "bad")}#{list(rates(result) + notes, "notes")}</article>"
      end

      # A command for the simulator, or why there is none.
      def rates(result)
        result["schema"] == "rakuda-bench-micro/1" && !(result["derived"] || []).empty? ? Report.rates_line(result) : []
      end

      def of(words) = "<p class=\"of\">#{escape(words)}</p>"

      def list(lines, kind)
        lines.empty? ? "" : "<ul class=\"#{kind}\">#{lines.map { |line| "<li>#{escape(line)}</li>" }.join}</ul>"
      end

      # @param table [Tables::Table]
      def table(table)
        heads = table.heads
        rows = table.rows.map { |row| "<tr>#{heads.map { |head| cell("td", head, row[head]) }.join}</tr>" }
        title = table.title ? "<h4>#{escape(table.title)}</h4>" : ""
        "#{title}<div class=\"wide\"><table><thead><tr>#{heads.map { |head| cell("th", head, head) }.join}</tr></thead>\n" \
          "<tbody>#{rows.join("\n")}</tbody></table></div>#{list(table.notes || [], "notes")}"
      end

      def cell(tag, head, text)
        "<#{tag}#{" class=\"words\"" if WORDS.include?(head)}>#{escape(text)}</#{tag}>"
      end

      # Each machine and file system once, with what was measured there.
      def machines(results)
        results.select { |result| result["machine"] }.group_by { |result| Facets.place(result).values_at("machine", "fs") }
               .map do |place, group|
          names = group.map { |result| result["benchmark"] }.uniq.join(", ")
          "<section><h2>Machine #{escape(place.compact.join(", "))}</h2>#{of(names)}" \
            "<details><summary>what is known of it</summary>" \
            "<pre>#{escape(JSON.pretty_generate(known(group)))}</pre></details></section>"
        end
      end

      # A kernel knows its libraries, and other results the system: the first that says something counts.
      def known(group) = group.map { |result| result["machine"] }.reduce { |all, more| more.merge(all) }

      def escape(text) = CGI.escapeHTML(text.to_s)
    end
  end
end
