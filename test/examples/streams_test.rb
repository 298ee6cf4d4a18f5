# frozen_string_literal: true

require "json"
require_relative "example_helper"

# examples/streams: simulations and analyses joined by a stream; the same table whatever the jobs, and as a program.
class StreamsExampleTest < ExampleTest
  SMALL = %w[TEMPERATURES=1.0,2.3,5.0 SWEEPS=120].freeze

  def test_magnetisation_falls_with_temperature_and_all_lines_are_there
    outcome = make_example("streams", "-j4", *SMALL)
    rows = File.readlines(path("work/stats.txt")).map { |line| line.split.map(&:to_f) }
    assert_equal [[1.0, 80], [2.3, 80], [5.0, 80]], (rows.map { |row| row.first(2) })
    magnetisation = rows.map { |row| row[3] }
    assert_operator magnetisation.first, :>, 0.95
    assert_operator magnetisation.last, :<, 0.4
    assert_equal "360", File.read(path("work/count.txt")).strip
    assert_equal 5, File.readlines(path("work/first.txt")).size
    assert_includes outcome.output, File.read(path("work/stats.txt"))
    assert_path_exists path("work/magnetisation.svg")
    refute_match(/^1\.0 \d+ -/, outcome.output)
  end

  def test_table_is_the_same_one_after_the_other_and_as_a_program
    tables = %w[-j1 -j4].map do |jobs|
      make_example("streams", jobs, *SMALL, "WORK=work#{jobs}")
      File.read(path("work#{jobs}/stats.txt"))
    end
    root = File.expand_path("../..", __dir__)
    environment = { "TEMPERATURES" => "1.0,2.3,5.0", "SWEEPS" => "120", "RAKUDA_OPTIONS" => "-j 2" }
    out, status = Open3.capture2e(environment, "ruby", "-I", "#{root}/lib", "#{root}/examples/streams/megascript.rb",
                                  chdir: path("."))
    assert status.success?, out
    assert_equal 1, [*tables, File.read(path("work/stats.txt"))].uniq.size, out
    plots = %w[work-j1 work-j4 work].map { |work| File.read(path("#{work}/magnetisation.svg")) }
    assert_equal 1, plots.uniq.size, "the program draws another plot than the Rakefile"
  end
end
