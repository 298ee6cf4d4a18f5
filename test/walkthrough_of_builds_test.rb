# frozen_string_literal: true

require "minitest/autorun"
require_relative "support/walk"

# Pages of the guide that need make, compilers or the I/O kernels are followed to the letter.
class WalkthroughOfBuildsTest < Minitest::Test
  Walk::BUILDING.each do |page|
    define_method("test_#{page.gsub(/\W/, "_")}_can_be_followed") { Walk.new(self, page).follow }
  end
end
