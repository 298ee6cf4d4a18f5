# frozen_string_literal: true

require "fileutils"
require "json"
require "minitest/autorun"
require "open3"
require "tmpdir"

# `--enforce memory`: a command that has more than its task asks for is killed with all that it has started, and what is
# said names the task, what it had and the bound.
class EnforceTest < Minitest::Test
  ROOT = File.expand_path("..", __dir__)
  RAKUDA = File.join(ROOT, "bin", "rakuda")
  CONTROL = File.join(ROOT, "bin", "rakudactl")
  # 200 MiB that are written to, held until someone ends it.
  GREEDY = %(ruby --disable-all -e 'x = "a" * (200 << 20); $stdout.puts x.size; $stdout.flush; IO.pipe[0].read')
  RAKEFILE = <<~RUBY.freeze
    needs memory: "80M"
    task(:greedy) { sh %q(#{GREEDY}) }
    needs memory: "80M"
    task(:family) { sh %q(sh -c "#{GREEDY.gsub('"', '\\"').gsub("$", "\\$")} & wait") }
    needs memory: "80M"
    task(:modest) { sh "echo modest" }
    task(:free) { sh %q(ruby --disable-all -e 'x = "a" * (200 << 20); puts x.size') }
    task default: %i[modest greedy family free]
  RUBY
  WHY = /killed: it had \d+ MiB of memory, and its task asks for 80 MiB/

  def test_who_takes_more_than_it_asks_for_is_killed_and_told
    Dir.mktmpdir("rakuda-enforce") do |dir|
      File.write(File.join(dir, "Rakefile"), RAKEFILE)
      _, err, status = Open3.capture3(RAKUDA, "-j", "4", "-q", "--keep-going", "--enforce", "memory", chdir: dir)
      refute_predicate status, :success?
      %w[greedy family].each { |task| assert_match(/task #{task} failed after [^:]+: #{WHY.source}/, err) }
      refute_match(/task (modest|free) failed/, err)
      told, = Open3.capture2(CONTROL, "-C", dir, "story", "greedy")
      assert_match(WHY, told)
      journal = File.readlines(Dir[File.join(dir, ".rakuda/runs/*/journal.jsonl")].first).map { |line| JSON.parse(line) }
      ended = journal.select { |event| event["event"] == "command_ended" }
      assert_equal [0, 0, 9, 9], ended.map { |event| event["status"] }.sort
      assert_equal(2, ended.count { |event| event["error"]&.match?(WHY) })
    end
  end
end
