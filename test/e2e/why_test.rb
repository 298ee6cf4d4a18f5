# frozen_string_literal: true

# `rakudactl why TARGET`: why a target would run now, down to the root causes. Runs the real commands.

require "fileutils"
require "json"
require "minitest/autorun"
require "open3"
require "tmpdir"
require_relative "../support/aged_files"

# Questions before a run.
class WhyTest < Minitest::Test
  include AgedFiles

  RAKUDACTL = File.expand_path("../../bin/rakudactl", __dir__)

  RAKEFILE = <<~'RUBY'
    task default: "app"
    file("app" => %w[a.o b.o]) { |t| sh "cat #{t.prerequisites.join(" ")} > app" }
    rule(".o" => ".c") { |t| sh "cp #{t.source} #{t.name}" }
  RUBY

  def setup
    @directory = Dir.mktmpdir("rakuda-why")
    write("Rakefile", RAKEFILE, 0)
    { "a.c" => 100, "a.o" => 10, "b.o" => 110, "b.c" => 100, "app" => 5 }.each { |name, age| write(name, "", age) }
  end

  def teardown
    FileUtils.rm_rf(@directory)
  end

  def test_reasons_are_followed_down_to_their_roots
    assert_equal <<~TEXT, why("default")
      default has no action of its own: app would run
        app would run: b.o would run
          b.o would run: prerequisite b.c is newer by 10 s
    TEXT
  end

  def test_json_has_the_reasons_of_the_target_alone
    assert_equal({ "version" => 1, "target" => "app", "would_run" => true,
                   "reasons" => [{ "kind" => "runs", "path" => "b.o" }] }, JSON.parse(why("--json", "app")))
    assert_equal({ "version" => 1, "target" => "a.o", "would_run" => false, "reasons" => [] }, JSON.parse(why("--json", "a.o")))
  end

  def test_what_is_up_to_date_is_told_to_be
    assert_equal "a.o would not run: it is up to date\n", why("a.o")
    assert_equal "a.c would not run: it has no action, and nothing that it needs would run\n", why("a.c")
  end

  def test_options_of_the_run_count
    FileUtils.mv(path("Rakefile"), path("other.rake"))
    assert_equal "a.o would run: forced (-B)\n", why("-f", "other.rake", "a.o", "--", "-B")
  end

  def test_what_is_forced_says_so_also_further_up
    reasons = JSON.parse(why("--json", "app", "--", "-B"))["reasons"].map { |reason| reason.values_at("kind", "path") }
    assert_equal [["forced", nil], ["runs", "a.o"], ["runs", "b.o"]], reasons
  end

  def test_a_target_that_nobody_can_make_is_rakes_error_and_the_status_says_so
    out, err, status = ask("nosuch")
    assert_equal ["", 1], [out, status.exitstatus]
    assert_match(/Don't know how to build task 'nosuch'/, err)
  end

  def test_long_chains_are_cut_and_that_is_told
    write("Rakefile", <<~'RUBY', 0)
      (1..50).each { |i| file("f#{i}" => "f#{i - 1}") { |t| touch t.name } }
    RUBY
    write("f0", "", 1000)
    lines = why("f50").lines(chomp: true)
    assert_equal "f50 would run: missing", lines.first
    (1..50).each { |i| write("f#{i}", "", 1000 - i) }
    write("f0", "", 0)
    lines = why("f50").lines(chomp: true)
    assert_equal ["f50 would run: f49 would run", 21, "(and more, which are left out here; `rakuda -n` names them all)"],
                 [lines.first, lines.size, lines.last]
  end

  private

  def ask(*words)
    Open3.capture3(RAKUDACTL, "-C", @directory, "why", *words)
  end

  def why(*words)
    out, err, status = ask(*words)
    assert_equal [0, ""], [status.exitstatus, err]
    out
  end
end
