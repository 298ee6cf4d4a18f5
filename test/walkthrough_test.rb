# frozen_string_literal: true

require "minitest/autorun"
require_relative "support/walk"

# README and the guide are followed to the letter, but for what is to be built (walkthrough_of_builds_test.rb).
class WalkthroughTest < Minitest::Test
  PAGES = ["README.md", *Dir.glob("docs/guide/*.md", base: Walk::ROOT).sort] - Walk::BUILDING

  PAGES.each do |page|
    define_method("test_#{page.gsub(/\W/, "_")}_can_be_followed") { Walk.new(self, page).follow }
  end
end
