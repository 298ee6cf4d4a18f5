# frozen_string_literal: true

require "minitest/autorun"
require "rakuda"
require "rakuda/command_options"

class CommandOptionsTest < Minitest::Test
  def translate(options)
    Rakuda::CommandOptions.translate(options)
  end

  def test_paths_get_modes_by_stream
    assert_equal({ "redirects" => [[0, { "file" => ["a", "r", 0o644] }], [1, { "file" => ["b", "w", 0o644] }]] },
                 translate(in: "a", out: "b"))
    assert_equal({ "redirects" => [[1, { "file" => ["b", "a", 0o600] }]] }, translate(1 => ["b", "a", 0o600]))
  end

  def test_copies_of_the_parents_streams_come_before_files
    assert_equal({ "redirects" => [[2, { "fd" => 1 }], [1, "null"]] }, translate(out: "/dev/null", err: :out))
    assert_equal({ "redirects" => [[1, "null"], [2, { "fd" => 1 }]] }, translate(out: "/dev/null", err: [:child, :out]))
  end

  def test_several_streams_share_one_file
    assert_equal({ "redirects" => [[1, { "file" => ["b", "w", 0o644] }], [2, { "fd" => 1 }]] }, translate(%i[out err] => "b"))
  end

  def test_what_only_a_local_process_can_do_is_left_to_it
    IO.pipe do |_, writer|
      assert_nil translate(out: writer)
      assert_nil translate(3 => writer)
    end
    assert_nil translate(pgroup: true)
    assert_nil translate(rlimit_core: 0)
    assert_nil translate(out: :err, err: :out)
  end
end
