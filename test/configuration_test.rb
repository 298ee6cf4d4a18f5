# frozen_string_literal: true

require "minitest/autorun"
require "rakuda"
require "tempfile"

class ConfigurationTest < Minitest::Test
  def configuration(yaml, variables = {}, options = {})
    Tempfile.create("conf") do |file|
      file.write(yaml)
      file.close
      return Rakuda::Configuration.new(file.path, variables, options)
    end
  end

  def test_later_origins_win
    before = ENV.fetch("RETRY", nil)
    assert_equal "1", configuration("RETRY: '1'")["RETRY"]
    ENV["RETRY"] = "2"
    assert_equal "2", configuration("RETRY: 1")["RETRY"]
    assert_equal "3", configuration("RETRY: 1", { "RETRY" => "3" })["RETRY"]
    assert_equal 4, configuration("RETRY: 1", { "RETRY" => "3" }, { "RETRY" => 4 }).retries
  ensure
    ENV["RETRY"] = before
  end

  def test_origin_is_shown
    assert_includes configuration("FAILED_TARGET: delete", { "RETRY" => "3" }).lines.join("\n").squeeze(" "),
                    "RETRY 3 (command line)"
  end

  def test_unknown_key_is_warned_of_with_the_nearest
    _, err = capture_io { configuration("FAILED_TARGT: delete") }
    assert_match(/unknown key FAILED_TARGT \(nearest known key: FAILED_TARGET\)/, err)
  end

  def test_pwrakes_queue_names_become_policies
    assert_equal "lifo_hrf", configuration("QUEUE_PRIORITY: LIHR").policy
    assert_equal "fifo", configuration("QUEUE_PRIORITY: FIFO").policy
  end

  def test_wrong_value_names_its_origin
    error = assert_raises(Rakuda::ConfigurationError) { configuration("", { "FAILED_TARGET" => "burn" }) }
    assert_equal "FAILED_TARGET=burn (command line): expected rename, delete, leave", error.message
  end
end
