# frozen_string_literal: true

require "minitest/autorun"
require "rakuda/bench/plots"
require "rexml/document"
require "tmpdir"
require_relative "../../bench/lib/information/figures"

# Bars of measurements, and those of bench/information beside the paper's values.
class BenchPlotsTest < Minitest::Test
  Plots = Rakuda::Bench::Plots

  def widths(svg) = REXML::XPath.match(REXML::Document.new(svg), "//rect").map { |it| it.attributes["width"].to_f }

  def test_bars_are_as_long_as_their_values_or_as_their_magnitudes
    bars = [10, 100, 1000].map { |value| Plots::Bar.new("x", value, [], "") }
    short, middle, long = widths(Plots.draw("t", bars))
    assert_in_delta 10, middle / short, 0.5
    assert_in_delta 10, long / middle, 0.5
    short, middle, long = widths(Plots.draw("t", bars, logarithmic: true))
    assert_in_delta short, middle - short, 0.2
    assert_in_delta short, long - middle, 0.2
  end

  def test_figures_have_what_was_measured_beside_what_the_paper_says
    Dir.mktmpdir do |folder|
      figures = Information::Figures.new
      figures.data([[16, 32, { "cached" => 2.5, "slapd" => nil }], [64, 32, { "cached" => 6.12 }]])
      figures.providers([])
      assert_equal ["#{folder}/data.svg"], figures.write(folder)
      words = REXML::XPath.match(REXML::Document.new(File.read("#{folder}/data.svg")), "//text").map(&:text)
      assert_equal ["16 x 32 KB, cached", "2.5 ms", "64 x 32 KB, cached", "6.12 ms", "64 x 32 KB, paper: cached", "500 ms",
                    "64 x 32 KB, paper: uncached", "900 ms", "1 ms", "10 ms", "100 ms"], words.drop(1)
      assert_includes words.first, "(logarithmic)"
    end
  end
end
