# frozen_string_literal: true

require "minitest/autorun"
require "tmpdir"
require "rakuda/bench/report"

# The pictures beside a page.
class BenchPageTest < Minitest::Test
  FIGURES = { "read-4k" => 7e6, "write-4k" => 3e6 }.map do |name, rate|
    { "name" => name, "bw" => rate, "time_s" => 1.0, "start_skew" => 0.0 }
  end
  RESULT = { "schema" => "rakuda-bench-micro/1", "benchmark" => "fio", "family" => "micro", "size" => "tiny", "workers" => 2,
             "valid" => true, "reasons" => [], "machine" => {}, "derived" => FIGURES, "steps" => {} }.freeze
  SIGNATURE = "\x89PNG\r\n\x1A\n".b

  def setup = @folder = Dir.mktmpdir

  def teardown = FileUtils.rm_rf(@folder)

  # @return [Array<String>] what was said
  def page
    said = []
    Rakuda::Bench::Report.stub(:rates_line, []) { Rakuda::Bench::Report.page([RESULT], @folder, said.method(:push)) }
    said
  end

  def test_each_plot_is_there_as_svg_and_as_png
    assert_empty page
    assert_equal %w[fio-bandwidth.png fio-bandwidth.svg index.html], Dir.children(@folder).sort
    picture = File.binread(File.join(@folder, "fio-bandwidth.png"))
    assert_equal SIGNATURE, picture[0, 8]
    # Twice as wide as the SVG.
    assert_equal 2 * Rakuda::Bench::Plots::WIDTH, picture[16, 4].unpack1("N")
  end

  def test_without_the_converter_the_page_is_whole_and_its_package_is_named
    path = ENV.fetch("PATH")
    ENV["PATH"] = @folder
    assert_match(/plots as SVG alone: no rsvg-convert in PATH \(Debian: librsvg2-bin\)/, page.join)
    assert_equal %w[fio-bandwidth.svg index.html], Dir.children(@folder).sort
  ensure
    ENV["PATH"] = path
  end
end
