# frozen_string_literal: true

require "json"
require_relative "example_helper"

# examples/everything: rounds, tasks placed by information, files read while in memory and a stream, in one run, and all
# of it in the record and the report.
class EverythingExampleTest < ExampleTest
  SMALL = %w[TILES=4 SWEEPS=60].freeze

  def test_one_run_has_all_of_it_and_its_report_shows_it
    outcome = make_example("everything", "-j2", "--policy", "lifo", *SMALL)
    assert_includes outcome.output, File.read(path("work/stats.txt"))
    assert_match(/^blocks of 4k +4 writes, each +[\d.]+ MB/, outcome.output)
    assert_equal "240", File.read(path("work/count.txt")).strip
    assert_equal [8, 4], [Dir[path("work/disks/*.json")].size, Dir[path("work/tiles/*.sum")].size]
    check_record
    check_page
    check_second_run
  end

  private

  def check_record
    events = File.readlines(Dir[path(".rakuda/runs/*/journal.jsonl")].first).map { |line| JSON.parse(line) }
    names = events.select { |event| event["event"] == "task_defined" }.to_h { |event| event.values_at("task", "name") }
    chosen = events.select { |event| event["event"] == "node_chosen" }.map { |event| names[event["task"]] }
    (0...4).each { |i| assert_includes chosen, "work/tiles/#{i}.raw" }
    counted = events.select { |event| event["event"] == "round_ended" && event["kind"] == "counted" }
    assert_equal [2] * 4, (counted.map { |event| event["workers"] })
    report = JSON.parse(control("report", "--json"))
    assert_equal([["sweeps", true, 240]], report["streams"].map { |stream| stream.values_at("name", "balanced", "records") })
    ways = report["placements"].map { |way| way.values_at("tasks", "where", "prefer") }
    assert_equal [4, [[4, "mem_available > 64MiB", "-load1"]]], [report["placed"], ways]
    assert_match(/^placement +4 tasks by what is known of nodes$/, control("report", "--text"))
  end

  def check_page
    page = File.read(control("report").strip)
    ['<h2 id="streams">Streams</h2>', "240 records", "in = out", '<h2 id="rounds">Synchronised rounds</h2>',
     'href="#streams"', 'href="#rounds"', "<title>stream sweeps (", '<path class="edge stream-edge"',
     '<table class="sortable" id="streams-table">', 'href="#placements"',
     '<td class="name">mem_available &gt; 64MiB</td>'].each do |part|
      assert page.include?(part), "#{part} is not on the page"
    end
    assert_equal tells_what_is_in_memory?, page.include?("<dt>Input in memory</dt>")
    refute_match(/metadata/i, page[/<dl class="cards">.*?<\/dl>/m])
  end

  # cachestat(2), Linux 6.5 and later: with it a descriptor that there is not is the only mistake.
  def tells_what_is_in_memory?
    syscall(451, -1, 0, 0, 0)
  rescue Errno::EBADF
    true
  rescue SystemCallError
    false
  end

  # The disks are measured anew, and nothing else.
  def check_second_run
    before = state_of("work/tiles")
    outcome = make_example("everything", "-j2", *SMALL)
    assert_equal before, state_of("work/tiles")
    assert_equal 8, outcome.lines.grep(/^fio /).size
    assert_empty outcome.lines.grep(/^(ruby|head|cksum|wc) /)
  end

  def control(*words)
    out, err, status = Open3.capture3(File.join(ROOT, "bin/rakudactl"), *words, chdir: path("."))
    assert status.success?, err
    out
  end
end
