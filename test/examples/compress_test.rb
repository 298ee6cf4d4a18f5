# frozen_string_literal: true

require_relative "example_helper"

# examples/compress: every file comes back as it was, and a damaged one is found.
class CompressExampleTest < ExampleTest
  SMALL = %w[FILES=6 SIZE=20000].freeze
  COMMANDS = /(^| )(gzip|xz|zstd) (-\d+ -c|-d -c)/

  def test_table_holds_the_ratios_and_a_second_run_does_nothing
    outcome = make_example("compress", "-j4", *SMALL)
    rows = File.readlines(path("work/ratios.txt"), chomp: true).map { |line| line.split(/\s{2,}/) }
    assert_equal %w[ratio text table noise], rows.shift
    assert_equal 9, rows.size
    rows.each do |name, text, table, noise|
      assert_includes outcome.output, name
      assert_in_delta 1.0, noise.to_f, 0.02
      assert_operator text.to_f, :>, 1.5
      assert_operator table.to_f, :>, 2
    end
    xz = Dir.glob(path("work/compressed/text_*.xz-6.xz"))
    assert_equal 2, xz.size
    assert_equal format("%.3f", 40_000.0 / xz.sum { |file| File.size(file) }), rows.find { |row| row[0] == "xz -6" }[1]
    assert_empty half_written_files
    assert_second_run_does_nothing("compress", "-j4", *SMALL, commands: COMMANDS)
  end

  def test_table_is_the_same_in_any_order
    sums = [[COMMAND, "-j1"], [COMMAND, "-j4"], [%w[rake], "-j1"]].map.with_index do |(command, jobs), i|
      make_example("compress", jobs, *SMALL, "WORK=work#{i}", command: command)
      sha256("work#{i}", "ratios.txt")
    end
    assert_equal 1, sums.uniq.size
  end

  def test_a_damaged_file_is_found
    make_example("compress", "-j4", *SMALL)
    damaged = path("work/compressed/noise_002.zstd-1.zst")
    change(damaged, "damaged", 1000, mode: "r+b")
    outcome = run_example("compress", "-j4", *SMALL)
    assert_equal 1, outcome.status, outcome.output
    assert_match(/noise_002\.zstd-1\.zst/, outcome.output)
  end
end
