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

  def test_what_nodes_share_and_how_files_come_to_them_is_read
    assert_equal "shared", configuration("").filesystem
    local = configuration("FILESYSTEM: local\nSTAGE_CACHE: 10G\nSTAGE_HOME: ['*.txt', logs/*]\nSTAGE_OUTPUTS: home")
    assert_equal "local", local.filesystem
    assert_equal({ "cache_bytes" => 10 << 30, "all_home" => true, "home" => ["*.txt", "logs/*"] }, local.staging)
    assert_equal({ "cache_bytes" => 0, "all_home" => false, "home" => [] }, configuration("").staging)
    ["FILESYSTEM: afs", "STAGE_CACHE: much", "STAGE_OUTPUTS: away", "STAGE_HOME: {a: b}"].each do |line|
      assert_raises(Rakuda::ConfigurationError, line) { configuration(line) }
    end
  end

  def test_wrong_value_names_its_origin
    error = assert_raises(Rakuda::ConfigurationError) { configuration("FAILED_TARGET: burn") }
    assert_match(/\AFAILED_TARGET=burn \(.*\): expected rename, delete, leave\z/, error.message)
  end

  def test_variable_that_may_be_the_rakefiles_own_is_left_to_it
    _, err = capture_io { assert_equal "rename", configuration("", { "FAILED_TARGET" => "burn" })["FAILED_TARGET"] }
    assert_equal "rakuda: FAILED_TARGET=burn (command line): expected rename, delete, leave; not used by rakuda\n", err
  end

  def test_values_of_the_wrong_kind_are_refused
    ["NCORE: abc", "NCORE: -1", "NCORE: 1.5", "RETRY: 99999999999", "LOG_DIR: 12", "LOG_DIR: [a]", "LOG_DIR: 2024-01-01",
     "- a", "a: [", "QUEUE_PRIORITY: best"].each do |line|
      assert_raises(Rakuda::ConfigurationError, line) { configuration(line) }
    end
    error = assert_raises(Rakuda::ConfigurationError) { Rakuda::Configuration.new("/nonexistent/conf", {}, {}) }
    assert_equal "/nonexistent/conf: No such file or directory", error.message
  end

  def test_environment_steers_only_what_is_promised
    wanted = { "RETRY" => "", "FAILED_TARGET" => "", "NCORE" => "1", "LOG_DIR" => "x", "QUEUE_PRIORITY" => "nonsense" }
    before = wanted.to_h { |key, _| [key, ENV.fetch(key, nil)] }
    ENV.update(wanted)
    out, err = capture_io do
      found = configuration("")
      assert_equal [0, nil, nil], [found.retries, found.cores, found["LOG_DIR"]]
    end
    assert_equal ["", ""], [out, err]
  ensure
    ENV.update(before)
  end
end
