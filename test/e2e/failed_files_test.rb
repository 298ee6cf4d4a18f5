# frozen_string_literal: true

# The `._fail_` of targets: gone when the target is made, or when one asks for it; a user's own file of such a name
# stays.

require "minitest/autorun"
require "open3"
require_relative "../support/rakefile_run"

class FailedFilesTest < Minitest::Test
  include RakefileRun

  RAKUDACTL = File.expand_path("../../bin/rakudactl", __dir__)
  RAKEFILE = <<~'RUBY'
    %w[one two].each do |name|
      file(name) { |t| sh "echo #{ENV["BAD"] ? "half" : "whole"} > #{t.name}; #{ENV["BAD"] ? "exit 3" : ":"}", verbose: false }
    end
    file("folder") { |t| mkdir t.name, verbose: false; touch "folder/part", verbose: false; raise "cannot" if ENV["BAD"] }
    file("twice") { |t| sh "echo x >> tries; echo x > twice; test $(wc -l < tries) -eq 2", verbose: false }
    task all: %w[one two folder]
  RUBY

  def setup
    @engine_environment = Engines::REAL
  end

  # A folder in which all three have failed.
  def failed(*options)
    rakuda(RAKEFILE, "--failure", "continue", *options, "all", environment: { "BAD" => "1" }) do |run|
      assert_equal 1, run.status, run.err
      assert_equal %w[folder._fail_ one._fail_ two._fail_], left(run.folder)
      yield run.folder
    end
  end

  def left(folder)
    Dir.children(folder).grep(/_fail_/).sort
  end

  def again(folder, *words)
    out, status = Open3.capture2e(@engine_environment, RAKUDA, *words, chdir: folder)
    assert status.success?, out
  end

  def clean(folder, *words)
    out, err, status = Open3.capture3(@engine_environment, RAKUDACTL, "clean", *words, chdir: folder)
    assert status.success?, err
    out.lines(chomp: true).grep(/_fail_/).map { |line| line.sub("#{File.realpath(folder)}/", "") }.sort
  end

  def test_the_next_good_making_of_a_target_removes_what_a_failure_has_left_of_it
    failed do |folder|
      again(folder, "one")
      assert_equal %w[folder._fail_ two._fail_], left(folder)
      again(folder, "all")
      assert_empty left(folder)
      refute_path_exists File.join(folder, ".rakuda/failed_files")
    end
    rakuda(RAKEFILE, "--retry", "1", "twice") { |run| assert_equal [0, []], [run.status, left(run.folder)], run.err }
  end

  def test_clean_removes_what_no_run_makes_any_more
    failed do |folder|
      assert_empty clean(folder)
      names = %w[folder._fail_ one._fail_ two._fail_]
      assert_equal(names.map { |name| "would remove #{name}" }, clean(folder, "--failed", "--dry-run"))
      assert_equal names, left(folder)
      assert_equal(names.map { |name| "removed #{name}" }, clean(folder, "--failed"))
      assert_empty left(folder)
      assert_empty clean(folder, "--failed")
    end
  end

  def test_a_file_of_the_users_stays_whatever_its_name_is
    failed do |folder|
      File.write(File.join(folder, "one._fail_"), "what I have made of it")
      File.write(File.join(folder, "notes._fail_"), "mine")
      File.write(File.join(folder, "twice._fail_"), "mine")
      assert_equal ["left one._fail_: it is not what a run left there", "removed folder._fail_", "removed two._fail_"],
                   clean(folder, "--failed")
      again(folder, "all", "twice", "--retry", "1") if File.write(File.join(folder, "tries"), "x\n")
      assert_equal %w[notes._fail_ one._fail_ twice._fail_], left(folder)
    end
  end

  def test_without_a_record_nothing_is_known_and_nothing_removed
    failed("--no-record") do |folder|
      again(folder, "--no-record", "all")
      assert_equal 3, left(folder).size
      refute_path_exists File.join(folder, ".rakuda")
    end
  end
end
