# frozen_string_literal: true

require "minitest/autorun"
require "fileutils"
require "open3"
require "rakuda"
require "tempfile"
require "tmpdir"

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

  def test_the_word_off_is_a_value_though_yaml_reads_it_as_false
    found = configuration("PROGRESS: off\nUI: off")
    assert_equal ["off", false], [found["PROGRESS"], found.on?("UI")]
    assert_match(/^PROGRESS +off +\(/, found.lines.join("\n"))
    error = assert_raises(Rakuda::ConfigurationError) { configuration("FAILED_TARGET: off") }
    assert_match(/FAILED_TARGET.*rename, delete, leave/, error.message)
  end

  def test_files_are_read_from_the_weakest_to_the_strongest
    Dir.mktmpdir do |home|
      user = File.join(home, ".config/rakuda/rakuda.yaml")
      assert_nil Rakuda::Configuration.user_file("HOME" => home)
      FileUtils.mkdir_p([File.dirname(user), project = File.join(home, "project")])
      File.write(user, "RETRY: 1\nNCORE: 3\nFAILED_TARGET: leave")
      File.write(pwrake = File.join(project, "pwrake_conf.yaml"), "RETRY: 2\nFAILED_TARGET: delete")
      File.write(own = File.join(project, "rakuda.yaml"), "RETRY: 4")
      assert_equal user, Rakuda::Configuration.user_file("HOME" => home, "XDG_CONFIG_HOME" => "relative")
      assert_nil Rakuda::Configuration.user_file("HOME" => home, "XDG_CONFIG_HOME" => project)
      assert_nil Rakuda::Configuration.user_file({})
      assert_equal [pwrake, own], Rakuda::Configuration.project_files(project)
      found = Rakuda::Configuration.new([user, pwrake, own], {}, {})
      values = %w[RETRY NCORE FAILED_TARGET].map { |key| [found[key], found.origin(key)] }
      assert_equal [[4, own], [3, user], ["delete", pwrake]], values
    end
  end

  def test_command_reads_the_files_of_user_and_project
    Dir.mktmpdir do |home|
      FileUtils.mkdir_p([File.join(home, ".config/rakuda"), work = File.join(home, "work")])
      File.write(user = File.join(home, ".config/rakuda/rakuda.yaml"), "RETRY: 1\nRUNS_KEPT: 7")
      File.write(File.join(work, "rakuda.yaml"), "RETRY: 2")
      File.write(File.join(work, "other.yaml"), "RETRY: 3")
      File.write(File.join(work, "Rakefile"), "")
      command = [File.expand_path("../bin/rakuda", __dir__), "--show-conf"]
      environment = { "HOME" => home, "XDG_CONFIG_HOME" => nil, "RETRY" => nil }
      shown = Open3.capture2e(environment, *command, chdir: work).first.squeeze(" ")
      ["RETRY 2 (#{work}/rakuda.yaml)", "RUNS_KEPT 7 (#{user})"].each { |line| assert_includes shown, line }
      shown = Open3.capture2e(environment, *command, "--config", "other.yaml", chdir: work).first.squeeze(" ")
      ["RETRY 3 (#{work}/other.yaml)", "RUNS_KEPT 7 (#{user})"].each { |line| assert_includes shown, line }
    end
  end

  # Rakefiles have variables of these names.
  def test_what_options_say_of_a_run_can_be_said_in_a_file_and_not_by_a_variable
    text = "OUTPUT: line\nON_END: notify\nSTRICT: yes\nUI: false\nOVERSUBSCRIBE: no\nSTREAM_ROUTE: relay"
    settings = configuration(text, { "OUTPUT" => "out.csv", "STRICT" => "very" })
    assert_equal %w[line notify relay], (%w[OUTPUT ON_END STREAM_ROUTE].map { |key| settings[key] })
    assert_equal [true, false, false], (%w[STRICT UI OVERSUBSCRIBE].map { |key| settings.switch(key) })
    assert_nil configuration("").switch("OVERSUBSCRIBE")
    error = assert_raises(Rakuda::ConfigurationError) { configuration("OUTPUT: lines") }
    assert_match(/OUTPUT=lines .*: expected line, task, none/, error.message)
    assert_match(/expected true or false/, assert_raises(Rakuda::ConfigurationError) { configuration("STRICT: very") }.message)
    assert_match(/expected a command line/, assert_raises(Rakuda::ConfigurationError) { configuration("ON_FAIL: ' '") }.message)
  end

  def test_origin_is_shown
    assert_includes configuration("FAILED_TARGET: delete", { "RETRY" => "3" }).lines.join("\n").squeeze(" "),
                    "RETRY 3 (command line)"
  end

  def test_command_shows_what_is_passed_to_hosts
    Dir.mktmpdir do |home|
      command = [File.expand_path("../bin/rakuda", __dir__), "--show-conf"]
      environment = { "HOME" => home, "XDG_CONFIG_HOME" => nil, "PASS_ENV" => nil, "ENV1" => "hoge", "ENV2" => "a\nb",
                      "ENV3" => nil, "ENV4" => nil }
      File.write(File.join(home, "Rakefile"), "")
      shown = Open3.capture2e(environment, *command, "PASS_ENV=ENV1 ENV2,ENV3", chdir: home).first
      passed = ["  ENV1: hoge\n", "  ENV2: \"a\\nb\"\n", "  (ENV3 is not set, so it is not passed)\n"]
      assert_equal passed, shown.lines.drop_while { |line| !line.start_with?("PASS_ENV") }[1..3], shown
      File.write(File.join(home, "rakuda.yaml"), "PASS_ENV: {ENV1: other, ENV4: 4}")
      shown = Open3.capture2e(environment, *command, chdir: home).first.squeeze(" ")
      assert_includes shown, "PASS_ENV ENV1 ENV4 (#{home}/rakuda.yaml)\n ENV1: hoge\n ENV4: 4\n"
    end
  end

  def test_unknown_key_is_warned_of_with_the_nearest
    _, err = capture_io { configuration("FAILED_TARGT: delete") }
    assert_match(/unknown key FAILED_TARGT \(nearest known key: FAILED_TARGET\)/, err)
    _, err = capture_io { configuration("RETRY: 1\n\npolicy: fifo") }
    assert_match(/:3: unknown key policy \(nearest known key: QUEUE_PRIORITY\)/, err)
    _, err = capture_io { configuration("COLOUR_OF_CAMELS: brown") }
    assert_match(/unknown key COLOUR_OF_CAMELS \(known are BASEDIR, .*HOSTFILE.*WORK_DIR\)/, err)
  end

  def test_pwrakes_queue_names_become_policies
    assert_equal "lifo_hrf", configuration("QUEUE_PRIORITY: LIHR").policy
    assert_equal "fifo", configuration("QUEUE_PRIORITY: FIFO").policy
  end

  def test_what_nodes_share_and_how_files_come_to_them_is_read
    assert_equal "shared", configuration("").filesystem
    local = configuration("FILESYSTEM: local\nSTAGE_CACHE: 10G\nSTAGE_HOME: ['*.txt', logs/*]\nSTAGE_OUTPUTS: home")
    assert_equal "local", local.filesystem
    assert_equal({ "cache_bytes" => 10 << 30, "all_home" => true, "home" => ["*.txt", "logs/*"], "guess_files" => true },
                 local.staging)
    none = { "cache_bytes" => 0, "all_home" => false, "home" => [], "guess_files" => false }
    assert_equal none, configuration("GUESS_FILES: no").staging
    ["FILESYSTEM: afs", "STAGE_CACHE: much", "STAGE_OUTPUTS: away", "STAGE_HOME: {a: b}", "GUESS_FILES: 3"].each do |line|
      assert_raises(Rakuda::ConfigurationError, line) { configuration(line) }
    end
  end

  def test_wrong_value_names_its_line
    error = assert_raises(Rakuda::ConfigurationError) { configuration("# ours\nRETRY: 1\nFAILED_TARGET: burn") }
    assert_match(/\AFAILED_TARGET=burn \(.+:3\): expected rename, delete, leave\z/, error.message)
    error = assert_raises(Rakuda::ConfigurationError) { configuration("RETRY: 1\n\"RETRY\": many") }
    assert_match(/\ARETRY=many \(.+:2\): expected a whole number /, error.message)
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
    assert_equal "failed to read the settings in /nonexistent/conf: No such file or directory", error.message
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
