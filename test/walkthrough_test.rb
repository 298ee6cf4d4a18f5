# frozen_string_literal: true

require "minitest/autorun"
require "tmpdir"
require_relative "support/walk"

# README and the guide are followed to the letter, but for what is to be built (walkthrough_of_builds_test.rb).
class WalkthroughTest < Minitest::Test
  PAGES = ["README.md", *Dir.glob("docs/guide/*.md", base: Walk::ROOT).sort] - Walk::BUILDING

  PAGES.each do |page|
    define_method("test_#{page.gsub(/\W/, "_")}_can_be_followed") { Walk.new(self, page).follow }
  end

  # What a page may not do, and what is said then.
  HIDDEN = {
    "<!-- setup\ntouch in\n-->\n\n    $ cat in\n" => /no reader sees this/,
    "<!-- until: touch in -->\n\n    $ cat in\n" => /does more than to wait/,
    "<!-- until: echo > in -->\n\n    $ cat in\n" => /does more than to wait/,
    "Its text:\n\n<!-- file: in -->\n\n    text\n" => /does not say that this is the file in/,
    "<!-- folder -->\n\n    $ true\n\n## Next\n\n<!-- folder -->\n\n    $ true\n" => /a folder begins/,
    "<!-- files of: README.md#a-first-rakefile -->\n\n    $ cat ode.txt\n" => /no link leads to what this takes/,
    "    $ rakudad --version\n    ...\n" => /not found/
  }.freeze

  def test_page_cannot_need_what_its_reader_does_not_see
    Dir.mktmpdir("rakuda-page") do |folder|
      HIDDEN.each do |text, said|
        File.write(page = File.join(folder, "page.md"), "# A page\n\n#{text}")
        refusal = assert_raises(Minitest::Assertion, text) { Walk.new(self, page).follow }
        assert_match said, refusal.message
      end
    end
  end
end
