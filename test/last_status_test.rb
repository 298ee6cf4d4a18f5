# frozen_string_literal: true

# `$?` set from outside, also while threads make objects.

require "minitest/autorun"
require "open3"

class LastStatusTest < Minitest::Test
  LIB = File.expand_path("../lib", __dir__)

  def test_status_and_process_are_as_set
    run_ruby('Rakuda::LastStatus.set(3 << 8, 4711); p $?.exitstatus, $?.pid; kept = $?; Rakuda::LastStatus.set(9, 1); p $?.termsig
              Rakuda::LastStatus.restore(nil); p $?.termsig; Rakuda::LastStatus.restore(kept); p $?.exitstatus') do |out|
      assert_equal %w[3 4711 9 9 3], out.split
    end
  end

  # In a process of its own: when memory is given away twice, Ruby aborts, or a status is something else.
  def test_status_is_whole_while_threads_make_objects
    run_ruby(<<~'RUBY') { |out| assert_equal "0\n", out }
      2.times { Thread.new { loop { [__FILE__, 254] } } }
      wrong = 100_000.times.count do |i|
        Rakuda::LastStatus.set((i % 256) << 8, 77)
        !($?.is_a?(Process::Status) && $?.exitstatus == i % 256)
      end
      p wrong
    RUBY
  end

  private

  def run_ruby(code)
    out, err, status = Open3.capture3("ruby", "-I", LIB, "-r", "rakuda/last_status", "-e", code)
    assert status.success?, "#{status}: #{err[0, 500]}"
    yield out
  end
end
