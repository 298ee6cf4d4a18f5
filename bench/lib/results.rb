# frozen_string_literal: true

module Peers
  # What was measured for one workload: readings per tool, one a round, and what is computed from them.
  # A ratio is formed within a round, between runs that follow each other, and the median is taken of the ratios; so a
  # slow minute of the machine touches both sides. It does not print.
  class Results
    attr_reader :work

    def initialize(work)
      @work = work
      @seconds = Hash.new { |hash, tool| hash[tool] = [] }
      @peaks = {}
      @notes = {}
    end

    def add(tool, seconds) = @seconds[tool] << seconds

    def add_peak(tool, bytes) = @peaks[tool] = bytes

    # Says why a tool has no (more) readings.
    def note(tool, text) = @notes[tool] = text

    def noted(tool) = @notes[tool]

    # Tools in the order of their medians, those without one last.
    def tools = (@seconds.keys | @notes.keys).sort_by { |tool| [median(tool) || Float::INFINITY, tool] }

    def median(tool) = middle(@seconds[tool])

    def range(tool) = @seconds[tool].minmax

    # Median over the rounds of tool's time by `other`'s, or nil.
    def ratio(tool, other)
      middle(@seconds[tool].zip(@seconds[other]).filter_map { |mine, theirs| mine / theirs if theirs })
    end

    def difference(tool, other)
      middle(@seconds[tool].zip(@seconds[other]).filter_map { |mine, theirs| mine - theirs if theirs })
    end

    def rate(tool) = median(tool) && (work.tasks / median(tool))

    def peak(tool) = @peaks[tool]

    private

    def middle(values)
      return if values.empty?

      sorted = values.sort
      (sorted[(sorted.size - 1) / 2] + sorted[sorted.size / 2]) / 2.0
    end
  end

  # Prints results as tables of fixed columns.
  class Table
    COLUMNS = "%-9s %9s  %-19s %8s %8s %8s %9s %8s  %s"

    def initialize(output)
      @output = output
    end

    def show(results)
      @output.puts "", "#{results.work.letter}  #{results.work.title}"
      @output.puts format(COLUMNS, "tool", "median s", "[min-max]", "x make", "x floor", "x rakuda", "tasks/s", "peak MB", "").rstrip
      results.tools.each { |tool| @output.puts row(results, tool).rstrip }
    end

    private

    def row(results, tool)
      return format("%-9s %9s  %s", tool, "-", results.noted(tool)) unless results.median(tool)

      format(COLUMNS, tool, number(results.median(tool), 3), "[#{results.range(tool).map { |s| number(s, 3) }.join("-")}]",
             *%w[make floor rakuda].map { |other| number(results.ratio(tool, other), 2) },
             number(results.rate(tool), 0), number(results.peak(tool)&.fdiv(1e6), 1), results.noted(tool))
    end

    def number(value, digits) = value ? format("%.#{digits}f", value) : "-"
  end

  # What Rakuda is to reach, and whether it did in this run.
  class Goals
    TEXT = "%-4s %-50s %-24s %s"

    # One goal: letter, words, the measured figure (nil: cannot be said), the limit, and the figure's format.
    GOALS = [
      ["A", "at most 1.15 x make", ->(r) { r.ratio("rakuda", "make") }, 1.15, "%.2f x"],
      ["B", "at most 1.10 x make", ->(r) { r.ratio("rakuda", "make") }, 1.10, "%.2f x"],
      ["C", "at most serial rake", ->(r) { r.ratio("rakuda", "rake") }, 1.00, "%.2f x"],
      ["D", "at most 1.50 x make", ->(r) { r.ratio("rakuda", "make") }, 1.50, "%.2f x"],
      ["E", "at most 2 x rake in time", ->(r) { r.ratio("rakuda", "rake") }, 2.00, "%.2f x"],
      ["E", "at most 2 x rake in peak memory", ->(r) { peak_ratio(r) }, 2.00, "%.2f x"],
      ["G", "at most 0.1 s above rake", ->(r) { r.difference("rakuda", "rake") }, 0.10, "%+.3f s"]
    ].freeze

    def self.peak_ratio(results)
      mine, theirs = results.peak("rakuda"), results.peak("rake")
      mine.fdiv(theirs) if mine && theirs
    end

    # @param results [Hash{String => Results}] by letter
    def self.show(output, results)
      output.puts "", "Goals, in this run"
      GOALS.each do |letter, words, figure, limit, digits|
        value = results[letter] && figure.call(results[letter])
        verdict = value ? verdict(value, limit) : "not measured"
        output.puts format(TEXT, letter, words, value ? format(digits, value) : "-", verdict).rstrip
      end
    end

    def self.verdict(value, limit) = value <= limit ? "reached" : "NOT reached"
    private_class_method :verdict
  end
end
