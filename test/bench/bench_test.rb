# frozen_string_literal: true

require "minitest/autorun"
require "open3"

# The measurements on one machine run to their ends in the small, so that they are not found broken on the day they are
# needed. Their figures mean nothing here and are not looked at.
class BenchTest < Minitest::Test
  ROOT = File.expand_path("../..", __dir__)
  TOOLS = "floor,make,rake,xargs"

  def test_small_comparison_runs_and_every_tool_does_its_work
    output, status = Open3.capture2e(File.join(ROOT, "bench/peers"), "--scale", "0.001", "--rounds", "1", "--tools", TOOLS)
    assert status.success?, output
    assert_equal %w[A B C D E G], output.scan(/^([A-G])  \S/).flatten
    refute_match(/exit status|started \d+ of|was written|missing|killed/, output)
    assert_includes output, "Goals, in this run"
  end

  def test_unknown_workload_is_refused_by_name
    output, status = Open3.capture2e(File.join(ROOT, "bench/peers"), "--only", "Z")
    refute status.success?
    assert_includes output, "Z is none of A B C D E G"
  end

  def test_start_lags_are_measured_by_each_gate_and_the_other_programs_that_are_here
    output = run_script("sync", "--workers", "1,2", "--rounds", "2", "--runs", "1")
    cell = /\d+\.\d \[\d+\.\d-\d+\]/
    # Lag, overhead by the programs' notes, and for ours what `rakudactl sync` says of it.
    tables = { "rakuda, preload gate" => 3, "rakuda, exec gate" => 3, "rakuda, exec gate, static" => 3, "rakuda, no gate" => 3,
               "xargs -P" => 2 }
    tables.each { |way, count| assert_equal count, output.scan(/^#{Regexp.escape(way)} +#{cell} +#{cell} /).size, output }
    assert_match(/^rounds with a late worker: /, output)
    assert_match(/^  a start lag of at most .*: (?:yes|no), /, output)
  end

  def test_agents_that_are_made_up_are_served_to_the_end
    # bench/agents itself builds the program for speed, which takes longer than all that is looked at here.
    output, status = Open3.capture2e("make", "-s", "agents", chdir: ROOT)
    assert status.success?, output
    swarm = File.join(ENV.fetch("CARGO_TARGET_DIR", File.join(ROOT, "target")), "debug/examples/agents")
    words = %w[--agents 3 --tasks 20 --rounds 1 --idle 0.2 --period 200]
    { [] => "", %w[--groups 2] => " behind 2 leaders" }.each do |more, behind|
      output = run_script("lib/agents.rb", "--swarm", swarm, *words, *more)
      assert_match(/^3 agents#{behind} \(3 of 3 ended by the hub\)$/, output)
      ["joined", "tasks", "idle", "idle, information", "tasks, information", "rounds"].each do |what|
        assert_equal 1, output.scan(/^  #{what} {2,}.*\d/).size, output
      end
      assert_match(/^  round 0 +instant .* of 3, lag \d+\.\d+ ms to within \d+\.\d+ ms$/, output)
    end
  end

  private

  def run_script(name, *words)
    output, status = Open3.capture2e("timeout", "-s", "KILL", "900", "ruby", File.join(ROOT, "bench", name), *words)
    assert status.success?, output
    output
  end
end
