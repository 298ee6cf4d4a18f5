# frozen_string_literal: true

require "fileutils"
require "json"
require "minitest/autorun"
require "open3"
require "support/testbed"

# examples/everything/on-testbed: the whole example over two sites in one command, which leaves a report and no testbed.
# It brings up a testbed of its own. It runs in a copy of the example, so that nobody's results are touched.
class ClusterEverythingTest < Minitest::Test
  ROOT = File.expand_path("../../..", __dir__)
  # Hosts see this checkout; /tmp is each host's own.
  PLACE = File.join(ROOT, "tmp", "everything.#{Process.pid}")
  EXAMPLE = File.join(PLACE, "examples/everything")
  LIMIT = 5 * Integer(Testbed::LIMIT)

  def setup
    %w[everything/Rakefile everything/rakuda.yaml everything/on-testbed streams].each do |name|
      FileUtils.mkdir_p(File.dirname(File.join(PLACE, "examples", name)))
      FileUtils.cp_r(File.join(ROOT, "examples", name), File.join(PLACE, "examples", name), preserve: true)
    end
    %w[bin testbed].each { |name| File.symlink(File.join(ROOT, name), File.join(PLACE, name)) }
  end

  def teardown
    FileUtils.rm_rf(PLACE)
  end

  def test_one_command_runs_it_over_two_sites_and_its_report_shows_all
    name = Testbed.name_of(Process.pid, "e")
    out, err, status = Open3.capture3({ "NAME" => name }, "timeout", LIMIT.to_s, "./on-testbed", "TILES=4", "SWEEPS=60",
                                      chdir: EXAMPLE)
    assert_predicate status, :success?, err + out
    refute_path_exists File.join(Testbed::STATES, name), "it is taken down"
    assert_match(/^blocks of 64k +16 writes, each +[\d.]+ MB/, out)
    assert_match(/^stream sweeps: .*240 records, in = out/, out)
    check_text(out)
    check_record
    page = File.read(out.lines.last.chomp)
    ["Synchronised rounds</h2>", "Streams</h2>", "Placed by what is known of nodes</h2>", "between groups"].each do |part|
      assert page.include?(part), "#{part} is not on the page"
    end
  end

  private

  def check_text(out)
    assert_match(/^placement +4 tasks by what is known of nodes$/, out)
    assert_match(/^synchronised rounds$/, out)
    %w[host1 host2 host3 host4].each { |host| assert_match(/^#{host} +2 +\d+ /, out) }
  end

  # The simulations are at one site and their readers at the other; workers write on all four hosts.
  def check_record
    events = File.readlines(Dir[File.join(EXAMPLE, ".rakuda/runs/*/journal.jsonl")].first).map { |line| JSON.parse(line) }
    nodes = events.select { |event| event["event"] == "node_joined" }.to_h { |event| event.values_at("node", "name") }
    names = events.select { |event| event["event"] == "task_defined" }.to_h { |event| event.values_at("task", "name") }
    ran = events.select { |event| event["event"] == "attempt_started" }.group_by { |event| names[event["task"]] }
    ran.transform_values! { |attempts| nodes[attempts.last["node"]] }
    assert_empty(ran.select { |task, _| task.start_with?("ising:") }.values - %w[host1 host2])
    assert_empty(ran.values_at("work/stats.txt", "work/count.txt") - %w[host3 host4])
    counted = events.select { |event| event["event"] == "round_ended" && event["kind"] == "counted" }
    assert_equal [8] * 4, (counted.map { |event| event["workers"] })
  end
end
