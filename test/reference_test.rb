# frozen_string_literal: true

require "minitest/autorun"
require_relative "support/walk"

# The reference is followed as the guide is: what can run on this machine alone is run, and what is a file or a piece of
# a Rakefile is read by the program that it is for.
class ReferenceTest < Minitest::Test
  # The others have neither commands nor files.
  PAGES = Dir.glob("docs/reference/*.md", base: Walk::ROOT).sort.select do |page|
    File.read(File.join(Walk::ROOT, page)).match?(/^ {4}\S/)
  end

  PAGES.each do |page|
    define_method("test_#{page.gsub(/\W/, "_")}_can_be_followed") { Walk.new(self, page, reference: true).follow }
  end

  def test_a_command_is_not_understood_whose_program_does_not_take_it
    bad = ["rakuda --polcy fifo build", "rakuda --policy fifos", "rakudactl sim last --policy nonsense", "rakudactl stroy a",
           "rakudactl runs && rakudactl report --jsn", "rakudactl bench run no-such-io", "rakudactl bench rn fio",
           "rakudactl bench run fio --file-size 3", "rakudactl bench suite ci --cache cold", "make no-such-target",
           "rakudactl bench compare copyfile --engines rakuda,mke"]
    assert_empty(bad.select { |command| Understood.new.faults(command).empty? })
  end

  # In running text and in tables, too.
  def test_commands_in_the_text_are_understood
    spans = Dir.glob("docs/reference/*.md", base: Walk::ROOT).sort.flat_map do |page|
      text = File.read(File.join(Walk::ROOT, page)).gsub(/^ {4}.*/, "").gsub("\\|", "|")
      text.scan(/`((?:rakuda|rakudactl) [^`]+)`/).flatten.map { |command| [page, command.gsub(/\s+/, " ")] }
    end
    spans = spans.uniq(&:last).reject { |_, command| Understood::FORM.match?(command) }
    assert_operator spans.size, :>, 30
    assert_empty(spans.flat_map { |page, command| Understood.new.faults(command).map { |fault| "#{page}: #{fault}" } })
  end
end
