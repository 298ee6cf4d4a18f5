# frozen_string_literal: true

require "minitest/autorun"
require "open3"

# The form of the C of gate/ is clang-format's; what the C does is tested in gate_test.rb, on other systems, too.
class GateFormTest < Minitest::Test
  GATE = File.expand_path("../gate", __dir__)

  def test_its_form_is_that_of_clang_format
    out, status = Open3.capture2e("clang-format", "--dry-run", "--Werror", *Dir[File.join(GATE, "**/*.{c,h}")])
    assert status.success?, out
  end
end
