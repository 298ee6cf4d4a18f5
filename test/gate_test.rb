# frozen_string_literal: true

# The C of gate/: warnings are errors, and its own checks hold under the sanitizers.

require "minitest/autorun"
require "open3"
require "tmpdir"

class GateTest < Minitest::Test
  GATE = File.expand_path("../gate", __dir__)
  WARNINGS = %w[-std=c11 -Wall -Wextra -Wshadow -Wconversion -Werror].freeze

  def test_its_checks_hold_under_the_sanitizers
    Dir.mktmpdir do |folder|
      program = File.join(folder, "gate_test")
      flags = %w[-D_GNU_SOURCE -g -O1 -fsanitize=address,undefined -fno-sanitize-recover=all]
      succeed("gcc", *WARNINGS, *flags, "-o", program, File.join(GATE, "test/gate_test.c"))
      # What the environments hold is kept on purpose.
      out = succeed({ "ASAN_OPTIONS" => "detect_leaks=0" }, "timeout", "-s", "KILL", "300", program)
      assert_match(/\A\d{2,} checks\n\z/, out)
    end
  end

  def test_library_and_helper_need_no_other_library
    Dir.mktmpdir do |folder|
      flags = WARNINGS + %w[-O2 -ffreestanding -fno-stack-protector -nostdlib]
      library, helper = %w[gate.so gate].map { |name| File.join(folder, name) }
      succeed("gcc", *flags, "-fPIC", "-shared", "-o", library, File.join(GATE, "preload.c"))
      succeed("gcc", *flags, "-static", "-o", helper, File.join(GATE, "exec.c"))
      refute_match(/NEEDED/, succeed("objdump", "-p", library))
      assert_equal %w[environ], succeed("nm", "-D", "--undefined-only", library).split.last(1)
      assert_equal "hello\n", succeed(helper, "/bin/echo", "echo", "hello")
      assert_equal 127, Open3.capture2e(helper, "/nothere", "nothere")[1].exitstatus
      assert_equal 126, Open3.capture2e(helper, folder, "folder")[1].exitstatus
      assert_equal 2, Open3.capture2e(helper)[1].exitstatus
      assert_equal "hello\n", succeed({ "LD_PRELOAD" => library }, "/bin/echo", "hello")
    end
  end

  private

  def succeed(*words)
    out, status = Open3.capture2e(*words)
    assert status.success?, "#{words.join(" ")}: #{out}"
    out
  end
end
