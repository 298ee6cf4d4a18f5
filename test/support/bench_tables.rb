# frozen_string_literal: true

require "rakuda/bench/page"
require "rakuda/bench/report"
require "rexml/document"

# For tests that hold the tables of a page against the text of the same result and against the result itself. A figure
# is a number with how far it may be off: half of its last digit.
module BenchTables
  Figure = Struct.new(:value, :within) do
    def same?(other) = (value - other.value).abs <= within + other.within + (value.abs * 1e-9)
  end

  SCALES = { "TB" => 1e12, "GB" => 1e9, "MB" => 1e6, "kB" => 1e3, "B" => 1.0, "s" => 1.0, "ms" => 1e-3, "us" => 1e-6 }.freeze
  # What of a table stands where in a result: those of a figure with repetitions, and those of a workflow or job.
  REPEATED = { "overall" => %w[bw_last_done bw ops_per_s], "median" => %w[median_bw median_ops_per_s],
               "min" => %w[min_bw min_ops_per_s], "max" => %w[max_bw max_ops_per_s], "at 95 %" => %w[ci95],
               "first done" => %w[bw_first_done], "n" => %w[reps] }.freeze
  MAKESPAN = { "median" => "median", "min" => "min", "max" => "max", "at 95 %" => "ci95" }.freeze

  # @return [Array<Figure>] the numbers of a text in their units; of names, such as write-4k, there are none
  def figures(text, scale = nil)
    text.scan(%r{(?<![\w.-])(\d+(?:\.(\d+))?)(?:(?: ([TGMk]?B|[mu]?s)\b)|(?![\w.]))}).map do |number, digits, unit|
      factor = scale || SCALES.fetch(unit, 1.0)
      Figure.new(number.to_f * factor, 0.5 * factor / (10**digits.to_s.size))
    end
  end

  # @return [Array<Array<Hash{String => String}>>] rows of each table of a piece of HTML
  def tables(html)
    html.scan(%r{<table>.*?</table>}m).map do |text|
      cells = ->(row) { row.elements.map { |cell| cell.text.to_s } }
      heads, *rows = REXML::XPath.match(REXML::Document.new(text), "//tr").map(&cells)
      rows.map { |row| heads.zip(row).to_h }
    end
  end

  def scale(row) = row["unit"] && SCALES.fetch(row["unit"].delete_suffix("/s"), 1.0)

  # Cells that say their own unit, and those whose unit is that of the row.
  def figures_of(row)
    row.flat_map { |head, cell| figures(head) + figures(cell) + (scale(row) ? figures(cell, scale(row)) : []) }
  end

  # All that the text tells of a result stands in its tables, and what stands there is what the result has.
  def assert_tables_tell(result)
    html = Rakuda::Bench::Page.html([result])[%r{<article.*</article>}m]
    beside = html.scan(%r{<(?:h4|li)>(.*?)</}).flatten
    shown = tables(html).flatten.flat_map { |row| figures_of(row) } + beside.flat_map { |words| figures(words) }
    told = Rakuda::Bench::Report.lines(result) - Rakuda::Bench::Page.rates(result)
    told.each do |line|
      figures(line).each { |one| assert shown.any? { |other| one.same?(other) }, "#{one.value} of #{line}: not in the tables" }
    end
    rows = tables(html).first
    result["derived"].is_a?(Array) ? assert_repeated(result, rows) : assert_makespan(result, rows.first)
  end

  def assert_repeated(result, rows)
    assert_equal(result["derived"].map { |one| one["name"] }, rows.map { |row| row["figure"] })
    result["derived"].zip(rows) do |one, row|
      REPEATED.each do |head, names|
        value = one.values_at(*names).compact.first
        next if value.nil? || (one["reps"].to_i < 2 && !%w[overall n].include?(head) && row[head].to_s.empty?)

        assert_cell(value, row, head)
      end
    end
  end

  def assert_makespan(result, row)
    assert_equal "makespan", row["figure"]
    summary = result["derived"]["makespan_s"]
    MAKESPAN.each { |head, name| assert_cell(summary[name], row, head) if summary[name] }
    assert_equal result["rounds"].count { |round| !round["fault"] }.to_s, row["n"]
  end

  def assert_cell(value, row, head)
    found = figures(row.fetch(head), head == "n" ? 1.0 : scale(row))
    wanted = Array(value).map { |one| Figure.new(one, 0) }
    assert_equal wanted.size, found.size, "#{head} of #{row}"
    wanted.zip(found) { |one, other| assert one.same?(other), "#{head} is #{one.value}, and #{row} says #{other.value}" }
  end
end
