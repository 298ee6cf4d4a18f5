# frozen_string_literal: true

require "minitest/autorun"
require_relative "../bench/sim/paper.rb"

# The simulator's figures beside the paper's, as docs/design/simulator.md has them: they are what the simulator says
# now.
class PaperTest < Minitest::Test
  TEXT = File.read(File.expand_path("../docs/design/simulator.md", __dir__))
  # Rows of tables, and paragraphs, whose lines are wrapped.
  PAGE = TEXT.lines(chomp: true) + TEXT.split(/\n\n+/).map { |paragraph| paragraph.tr("\n", " ") }

  # Figures 16 and 17 with three numbers of nodes of twelve, since each takes a second.
  def test_every_cell_of_the_page_is_what_the_simulator_says
    lines = Paper.new([1, 4, 12]).tables.join("\n").lines(chomp: true)
    assert_operator lines.size, :>, 70
    assert_empty lines - PAGE, "bench/sim/paper prints what is to stand there"
  end
end
