# frozen_string_literal: true

require_relative "example_helper"

# examples/copyfile: copies and copies of copies are equal to the inputs, and a difference is found.
class CopyfileExampleTest < ExampleTest
  SMALL = %w[n=5 size=64KiB].freeze
  COMMANDS = /(^| )(cp|yes|sha256sum) /

  def test_copies_are_equal_and_a_second_run_does_nothing
    outcome = make_example("copyfile", "-j4", *SMALL)
    assert_includes outcome.output, "5 files of 65536 bytes: inputs, copies and copies of copies are equal"
    5.times do |i|
      input, a, b = %w[input a b].map { |folder| File.binread(path("work", folder, format("%05d.dat", i))) }
      assert_equal 65_536, input.bytesize
      assert_equal [input, input], [a, b]
    end
    assert_equal 5, Dir.glob(path("work/input/*")).map { |file| Digest::SHA256.file(file).hexdigest }.uniq.size
    assert_empty half_written_files
    assert_second_run_does_nothing("copyfile", "-j4", *SMALL, commands: COMMANDS)
  end

  def test_a_copy_that_differs_is_found
    make_example("copyfile", "-j4", *SMALL, "copy")
    change(path("work/b/00003.dat"), "x", 100, mode: "r+")
    outcome = run_example("copyfile", "-j4", *SMALL)
    assert_equal 1, outcome.status, outcome.output
    assert_match(%r{copies differ: work/input/00003\.dat$}, outcome.output)
    refute_path_exists path("work/checksums.txt")
  end

  def test_a_copy_made_again_is_checked_again
    make_example("copyfile", "-j4", *SMALL)
    File.delete(path("work/a/00002.dat"))
    outcome = make_example("copyfile", "-j4", *SMALL)
    assert_equal 2, outcome.lines.grep(/(^| )cp /).size, outcome.output
  end

  def test_a_size_that_is_none_is_a_clear_error
    outcome = run_example("copyfile", "size=big")
    assert_equal 1, outcome.status
    assert_match(/size=big: expected a number and one of KiB/, outcome.output)
  end
end
