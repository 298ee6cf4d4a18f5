# frozen_string_literal: true

# What `needs outputs:` and `needs inputs:` declare: whether it is there after the action, and what of it goes where
# between hosts that share nothing.

require "json"
require "minitest/autorun"
require "support/near_hosts"
require "support/rakefile_run"

class SecondaryFilesTest < Minitest::Test
  include NearHosts
  include RakefileRun

  def setup
    @engine_environment = Engines::REAL
  end

  def secondary(events)
    names = events.select { |event| event["event"] == "task_defined" }.to_h { |event| event.values_at("task", "name") }
    ended = events.select { |event| event["event"] == "attempt_ended" && event["secondary"] }
    ended.to_h { |event| [names.fetch(event["task"]), event["secondary"].map(&:first)] }
  end

  def test_what_is_declared_is_noted_and_what_is_missing_fails_the_attempt_with_its_place
    rakefile = <<~'RUBY'
      needs outputs: %w[ref.fa.bwt ^.s?]
      file("ref.fa.amb") { |t| sh "touch ref.fa.amb ref.fa.bwt ref.fa.sa ref.fa.other", verbose: false }
      needs outputs: "^.d", retry: 1
      rule(".o") do |t|
        sh "echo >> tries; touch #{t.name}; test $(wc -l < tries) = 1 || touch #{t.name.ext("d")}", verbose: false
      end
      needs outputs: "written.*"
      file("written") { |t| File.write("written.idx", t.name); File.write(t.name, "") }
      task default: %w[ref.fa.amb x.o written]
    RUBY
    rakuda(rakefile, "-j1", "-q") do |run|
      assert_equal 0, run.status, run.err
      events = File.readlines(Dir[File.join(run.folder, ".rakuda/runs/*/journal.jsonl")].first).map { |line| JSON.parse(line) }
      expected = { "ref.fa.amb" => %w[ref.fa.bwt ref.fa.sa], "x.o" => %w[x.d], "written" => %w[written.idx] }
      assert_equal expected, secondary(events)
      first = events.find { |event| event["outcome"] == "failed" }
      assert_equal ['its action ended well, but there is no x.d (outputs: "^.d", needs at Rakefile:3)', true],
                   first.values_at("message", "retried")
    end
    missing = "needs outputs: %w[made.* there]\nfile('made') { touch 'made' }\ntask(default: 'made')"
    rakuda(missing, "-q", files: { "there" => "" }) do |run|
      reason = 'task made: its action ended well, but no file matches made.* (outputs: "made.*", needs at Rakefile:1)'
      assert_equal 1, run.status
      assert_includes run.err, "Rakuda::TargetNotMade: #{reason}"
      assert_path_exists File.join(run.folder, "made._fail_")
      report, = Open3.capture2(File.expand_path("../../bin/rakudactl", __dir__), "report", "--text", chdir: run.folder)
      assert_includes report, "no file matches made.*"
    end
    rakuda(missing, "-n", "-q") { |run| assert_equal [0, ""], [run.status, run.err] }
  end

  PAIR = <<~'RUBY'
    desc "allow=host1"
    needs outputs: %w[^.b* idx/all.txt], inputs: []
    file("ref.fa.amb" => "in") do |t|
      sh "cat in > ref.fa.amb; mkdir -p idx; echo one > ref.fa.bwt; echo two > idx/all.txt; echo none > ref.left"
    end
    desc "allow=host2"
    needs inputs: %w[^.bwt idx/*.txt tables/*]
    file("found" => "ref.fa.amb") { sh "(cat ref.fa.bwt idx/all.txt tables/b; ls ref.* tool tables/* 2> /dev/null; true) > found" }
    task default: "found"
  RUBY

  def test_exactly_what_is_declared_goes_between_hosts
    near_hosts do |run|
      { "in" => "x", "tool" => "", "tables/a" => "", "tables/b" => "three\n" }.each { |name, content| run.write(name, content) }
      result = run.rakuda(PAIR)
      assert_equal [0, ""], [result.status, result.err]
      assert_equal "one\ntwo\nthree\nref.fa.amb\nref.fa.bwt\ntables/a\ntables/b\n", run.read("found")
      assert_equal({ "ref.fa.amb" => %w[idx/all.txt ref.fa.bwt] }, secondary(run.events))
      assert_equal %w[idx/all.txt in ref.fa.amb ref.fa.bwt ref.left], run.files("host1")
      assert_equal %w[found in tables/a tables/b tool], run.files
      run.remove("found")
      again = run.rakuda(PAIR)
      assert_equal [0, ""], [again.status, again.err]
      assert_equal 1, run.events.count { |event| event["event"] == "attempt_ended" }, "what goes with it is known"
    end
  end

  def test_ruby_code_may_write_what_is_declared
    near_hosts do |run|
      run.write("in", "x\n")
      result = run.rakuda(<<~'RUBY')
        desc "allow=host1"
        needs outputs: %w[.idx .txt]
        file("a" => "in") { |t| sh "cat in > a; cat in in > a.idx"; File.write("a.txt", "text\n") }
        needs outputs: ".txt"
        file("b" => "in") { |t| File.write("b", "b\n"); File.write("b.txt", "of b\n") }
        desc "allow=host2"
        file("end" => %w[a b]) { sh "cat a a.idx a.txt b b.txt > end" }
        task default: "end"
      RUBY
      assert_equal [0, ""], [result.status, result.err]
      assert_equal "x\nx\nx\ntext\nb\nof b\n", run.read("end")
    end
  end

  def test_without_guesses_only_what_is_named_goes_and_with_them_what_looks_like_it
    rakefile = <<~'RUBY'
      desc "allow=host1"
      file("a.fits" => "in") { sh "cat in > a.fits; cat in > a_area.fits" }
      desc "allow=host2"
      file("end" => "a.fits") { sh "ls a_area.fits table > end 2> /dev/null; true" }
      task default: "end"
    RUBY
    near_hosts do |run|
      %w[in table].each { |name| run.write(name, "x") }
      assert_equal 0, run.rakuda(rakefile).status
      assert_equal "a_area.fits\ntable\n", run.read("end")
      assert_equal({ "a.fits" => %w[a_area.fits] }, secondary(run.events))
    end
    near_hosts do |run|
      %w[in table].each { |name| run.write(name, "x") }
      assert_equal 0, run.rakuda(rakefile, "--no-guess-files").status
      assert_equal ["", {}], [run.read("end"), secondary(run.events)]
    end
  end

  def test_what_is_declared_and_is_not_there_is_named_between_hosts
    near_hosts do |run|
      run.write("in", "x")
      result = run.rakuda("needs outputs: '.idx'\nfile('a' => 'in') { sh 'cat in > a' }\ntask(default: 'a')")
      assert_equal 1, result.status
      assert_includes result.err, 'task a: its action ended well, but there is no a.idx (outputs: ".idx", needs at Rakefile:1)'
      assert_empty run.files("host1").grep("a") + run.files("host2").grep("a"), "it is not good"
      result = run.rakuda("needs inputs: '.idx'\nfile('b' => 'in') { sh 'cat in > b' }\ntask(default: 'b')")
      assert_equal 1, result.status
      assert_includes result.err, 'cannot stage in what b reads: no file matches ".idx" (inputs, needs at Rakefile:1); correct it'
    end
  end
end
