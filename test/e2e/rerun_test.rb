# frozen_string_literal: true

# `--rerun-on`: what was made otherwise than it would be now is made again, and `why` says what has changed. Runs the
# real commands.

require "fileutils"
require "json"
require "minitest/autorun"
require "open3"
require "tmpdir"
require_relative "../support/engines"

# Runs, changes something that no modification time tells, and runs again.
class RerunTest < Minitest::Test
  BIN = File.expand_path("../../bin", __dir__)

  RAKEFILE = <<~'RUBY'
    LEVEL = "-O1"
    needs params: { level: LEVEL }
    file("out" => %w[a b]) { |t| sh "cat #{t.prerequisites.join(" ")} > #{t.name} # #{LEVEL}" }
    task default: "out"
  RUBY

  def setup
    @directory = Dir.mktmpdir("rakuda-rerun")
    write("Rakefile", RAKEFILE)
    %w[a b c].each { |name| write(name, "#{name}\n") }
  end

  def teardown
    FileUtils.rm_rf(@directory)
  end

  def test_a_changed_action_is_run_again_once_and_why_names_it
    run_rakuda
    write("Rakefile", "# moved down\n#{RAKEFILE.sub("{ |t| sh ", "{ |t| # why\n\n  sh  ")}")
    refute_made("--rerun-on", "command")
    write("Rakefile", RAKEFILE.sub("cat", "cat -u"))
    refute_made("--rerun-on", "inputs,content")
    assert_equal "out would run: its action has changed\n", why("command")
    assert_equal [{ "kind" => "command" }], reasons("command")
    assert_made("--rerun-on", "command")
    assert_match(/\Aout ran in \S+: its action has changed$/, why(nil, "--run", "last"))
    refute_made("--rerun-on", "command")
  end

  def test_a_changed_parameter_is_a_reason_and_a_value_that_is_not_declared_is_none
    run_rakuda
    write("Rakefile", RAKEFILE.sub("-O1", "-O2"))
    assert_equal "out would run: its parameter level has changed (was \"-O1\", is \"-O2\")\n", why("command")
    assert_equal [{ "kind" => "command", "path" => "level", "detail" => "was \"-O1\", is \"-O2\"" }], reasons("command")
    assert_made("--rerun-on", "command")
    refute_made("--rerun-on", "command")
    write("Rakefile", RAKEFILE.sub(/^needs.*\n/, ""))
    assert_equal "out would run: its parameter level has changed (gone, was \"-O2\")\n", why("command")
    assert_made("--rerun-on", "command")
    write("Rakefile", RAKEFILE.sub(/^needs.*\n/, "").sub("-O1", "-O3"))
    refute_made("--rerun-on", "command")
  end

  def test_all_actions_of_a_task_are_compared
    more = ->(word) { "file('out') { |t| sh \"echo #{word} >> out\" }\n" }
    write("Rakefile", RAKEFILE + more["more"])
    run_rakuda
    refute_made("--rerun-on", "command")
    write("Rakefile", RAKEFILE + more["less"])
    assert_made("--rerun-on", "command")
    write("Rakefile", RAKEFILE)
    assert_equal "out would run: its action has changed\n", why("command")
  end

  # With a place in a file, too: what stands there need not be what was evaluated.
  def test_an_action_whose_source_is_not_to_be_had_is_neither_the_same_nor_another
    rakefile = lambda do |word|
      { "evaluated" => "word = '#{word}'; eval %(file('out') { sh \"echo \#{word} > out\" }), binding, __FILE__, __LINE__",
        "a method" => "def make(*) = sh('echo #{word} > out')\nfile('out', &method(:make))" }
    end
    rakefile["one"].each do |kind, text|
      write("Rakefile", "#{text}\ntask default: 'out'")
      run_rakuda("-B")
      write("Rakefile", "#{rakefile["other"][kind]}\ntask default: 'out'")
      _, err = run_rakuda("--rerun-on", "command")
      assert_match(/of 1 target not all that is compared is in its record; the rest is taken as unchanged$/, err, kind)
      assert_equal "one\n", File.read(path("out")), kind
    end
  end

  def test_a_record_of_an_earlier_version_is_told_and_taken_as_it_is
    run_rakuda
    journal = Dir[path(".rakuda/runs/*/journal.jsonl")].first
    text = File.read(journal)
    assert_match(/"source":"\h{32}"/, text)
    File.write(journal, text.sub(/"source":"\h{32}"/, '"text":"0123456789abcdef"').sub(/,"params":\[\[.*?\]\]/, ""))
    write("Rakefile", RAKEFILE.sub("cat", "cat -u"))
    before = File.stat(path("out")).mtime
    _, err = run_rakuda("--rerun-on", "command")
    assert_equal "rakuda: --rerun-on command: of 1 target not all that is compared is in its record; " \
                 "the rest is taken as unchanged\n", err
    assert_equal before, File.stat(path("out")).mtime
  end

  def test_prerequisites_that_came_or_went_are_a_reason
    run_rakuda
    write("Rakefile", RAKEFILE.sub("%w[a b]", "%w[a c]"))
    refute_made("--rerun-on", "content,env")
    assert_equal "out would run: prerequisite b is new or gone (gone); prerequisite c is new or gone (new)\n", why("inputs")
    assert_made("--rerun-on", "inputs")
    refute_made("--rerun-on", "inputs")
  end

  def test_a_content_that_changed_while_the_time_did_not_is_a_reason
    run_rakuda("--rerun-on", "content")
    keep_time("a") { write("a", "A\n") }
    refute_made("--rerun-on", "command,inputs")
    assert_equal "out would run: the content of a has changed\n", why("content")
    assert_made("--rerun-on", "content")
    keep_time("b") { write("b", "longer than it was\n") }
    assert_made("--rerun-on", "content")
    refute_made("--rerun-on", "content")
  end

  def test_a_file_that_was_touched_back_and_has_its_content_is_no_reason
    run_rakuda("--rerun-on", "content")
    keep_time("a") { write("a", "a\n") }
    refute_made("--rerun-on", "content")
  end

  def test_a_content_that_was_made_in_this_run_with_an_old_time_is_seen
    write("Rakefile", RAKEFILE.sub("task", <<~'RUBY'.chomp))
      file("a" => "source") { |t| sh "cp -p old a; cat source >> a; touch -d @1000 a" }
      task
    RUBY
    File.delete(path("a"))
    write("source", "1\n")
    write("old", "old\n")
    run_rakuda("--rerun-on", "content")
    write("source", "2\n")
    run_rakuda("--rerun-on", "content")
    assert_equal "old\n2\nb\n", File.read(path("out"))
  end

  def test_a_chosen_variable_that_changed_is_a_reason_and_its_value_is_not_in_the_record
    run_rakuda("--rerun-on", "env", "--rerun-env", "FLAVOUR,OTHER", environment: { "FLAVOUR" => "sweet-secret" })
    more = ["--rerun-on", "env", "--rerun-env", "FLAVOUR,OTHER"]
    refute_made(*more, environment: { "FLAVOUR" => "sweet-secret" })
    refute_made(*more, environment: { "FLAVOUR" => "sweet-secret", "THIRD" => "1" })
    out, = run_rakuda(*more, "-n", "-q", environment: { "OTHER" => "" })
    assert_match(/^out: the environment variable FLAVOUR has changed; the environment variable OTHER has changed$/, out)
    assert_made(*more, environment: { "FLAVOUR" => "bitter" })
    refute_match(/sweet|bitter/, Dir[path(".rakuda/runs/*/journal.jsonl")].map { |file| File.read(file) }.join)
  end

  def test_targets_without_a_record_are_counted_and_left_alone
    write("out", "made by hand\n")
    _, err = run_rakuda("--rerun-on", "command,content")
    assert_equal "rakuda: --rerun-on command,content: 1 target has no record of how it was made; it is taken as up to date\n", err
    assert_equal "made by hand\n", File.read(path("out"))
  end

  def test_targets_whose_record_lacks_what_is_compared_are_counted
    run_rakuda
    _, err = run_rakuda("--rerun-on", "content")
    assert_equal "rakuda: --rerun-on content: of 1 target not all that is compared is in its record; " \
                 "the rest is taken as unchanged\n", err
  end

  def test_a_pipe_among_the_prerequisites_is_not_read
    File.mkfifo(path("pipe"))
    File.utime(Time.at(1_000_000), Time.at(1_000_000), path("pipe"))
    write("Rakefile", RAKEFILE.sub("%w[a b]", "%w[a b pipe]").sub("prerequisites", "prerequisites.first(2)"))
    run_rakuda("--rerun-on", "content")
    refute_made("--rerun-on", "content")
    keep_time("a") { write("a", "A\n") }
    assert_made("--rerun-on", "content")
  end

  def test_an_action_that_is_faster_than_the_digests_of_what_it_reads_is_recorded_with_them
    File.open(path("a"), "w") { |file| 40.times { file.write("x" * 1_000_000) } }
    File.utime(Time.at(1_000_000), Time.at(1_000_000), path("a"))
    write("Rakefile", RAKEFILE.sub("cat", "true"))
    write("out", "")
    run_rakuda("-B", "--rerun-on", "content")
    contents = Dir[path(".rakuda/runs/*/journal.jsonl")].flat_map { |file| File.readlines(file) }
                                                        .filter_map { |line| JSON.parse(line)["contents"] }
    names = contents.map { |pairs| pairs.map(&:first) }
    assert_equal [%w[a b]], names
    refute_made("--rerun-on", "content")
  end

  def test_the_texts_of_many_actions_are_compared
    actions = Array.new(600) { |i| "file('f#{i}') { |t| File.write(t.name, 'x') }\n" }
    default = "task default: (0...600).map { |i| \"f\#{i}\" } + ['out']"
    write("Rakefile", "#{actions.join}file('out' => 'a') { |t| system 'cp a out' }\n#{default}\n")
    run_rakuda("--rerun-on", "command")
    write("Rakefile", File.read(path("Rakefile")).sub("cp a out", "cp b out"))
    assert_made("--rerun-on", "command")
    assert_equal "b\n", File.read(path("out"))
  end

  def test_the_configuration_may_ask_for_it_and_a_wrong_word_is_told
    run_rakuda
    write("Rakefile", RAKEFILE.sub("-O1", "-O2"))
    write("pwrake_conf.yaml", "RERUN_ON: [command, inputs]\n")
    assert_made
    _, err, status = Open3.capture3(File.join(BIN, "rakuda"), "--rerun-on", "comand", chdir: @directory)
    assert_equal ["rakuda: --rerun-on comand: expected command,inputs,content,env\n", 1], [err, status.exitstatus]
  end

  def test_more_than_rakes_rule_runs_and_never_less
    run_rakuda("--rerun-on", "command,inputs,content,env")
    FileUtils.touch(path("a"), mtime: Time.now + 10)
    assert_made("--rerun-on", "command,inputs,content,env")
    File.delete(path("out"))
    assert_made("--rerun-on", "command,inputs,content,env")
  end

  private

  def path(name)
    File.join(@directory, name)
  end

  # Files are old, so that nothing runs because of its time.
  def write(name, text)
    File.write(path(name), text)
    File.utime(Time.at(1_000_000), Time.at(1_000_000), path(name)) unless name == "out"
  end

  def keep_time(name)
    before = File.stat(path(name))
    yield
    File.utime(before.atime, before.mtime, path(name))
  end

  def run_rakuda(*words, environment: {})
    environment = Engines::WITHOUT_PROGRESS.merge(environment)
    out, err, status = Open3.capture3(environment, File.join(BIN, "rakuda"), *words, chdir: @directory)
    assert_equal 0, status.exitstatus, err
    [out, err]
  end

  def made?(words, environment)
    before = File.stat(path("out")).mtime if File.exist?(path("out"))
    run_rakuda(*words, environment: environment)
    File.stat(path("out")).mtime != before
  end

  def assert_made(*words, environment: {})
    assert made?(words, environment), "it was not made again"
  end

  def refute_made(*words, environment: {})
    refute made?(words, environment), "it was made again"
  end

  def why(what, *words)
    words = ["--rerun-on", what, *words] if what
    out, err, status = Open3.capture3(File.join(BIN, "rakudactl"), "-C", @directory, "why", *words, "out")
    assert_equal [0, ""], [status.exitstatus, err]
    out
  end

  def reasons(what)
    JSON.parse(why(what, "--json")).fetch("reasons")
  end
end
