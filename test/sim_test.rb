# frozen_string_literal: true

require "json"
require "minitest/autorun"
require "open3"
require "tmpdir"

# `rakudactl sim` as users meet it: its words, what it prints and writes. What the model does is tested in crates/sim.
class SimTest < Minitest::Test
  COMMAND = File.expand_path("../bin/rakudactl", __dir__)
  FIELDS = %w[workload policy locality steal seed makespan_s accumulated_s utilisation local_share cache_hit network_bytes
              lower_bound_s].freeze

  def test_every_combination_is_a_line_of_json_and_again_the_same
    words = %w[copyfile --policy fifo,lifo --locality on,off --repeat 2 --seed 7 --json]
    output = sim(*words)
    lines = output.lines.map { |line| JSON.parse(line) }
    combinations = lines.map { |line| line.values_at("policy", "locality") }
    assert_equal [["fifo", true], ["fifo", false], ["lifo", true], ["lifo", false]], combinations
    lines.each do |line|
      assert_empty FIELDS - line.keys
      assert_operator line["lower_bound_s"], :<=, line["makespan_s"]
      %w[by_rule files_by_rule].each { |key| assert_equal %w[A B], line["local_share"][key].keys }
    end
    assert_equal output, sim(*words)
  end

  # 2 x 4 files of 100 MiB; from disk, to disk, from memory, to disk.
  def test_sizes_and_speeds_are_those_that_are_given
    sizes = %w[--nodes 2 --files 8 --file-size 100 --memory 450M --system 50 --rates 100,200,10,10,50 --policy lifo --json]
    assert_in_delta 4 * (1 + 2 + 0.5 + 2), JSON.parse(sim("copyfile", *sizes)).fetch("makespan_s"), 0.1
    overlapped = JSON.parse(sim("copyfile", *sizes, "--overlapped", "--duplex-disks"))
    assert_in_delta 4 * (2 + 2), overlapped.fetch("makespan_s"), 0.1
    _, errors, ended = Open3.capture3(COMMAND, "sim", "copyfile", "--rates", "1,2")
    assert_equal 2, ended.exitstatus
    assert_includes errors, "expected 5 whole numbers"
  end

  def test_curves_scaling_and_the_log_are_written
    Dir.mktmpdir do |folder|
      sim("-C", folder, "layers", "--tasks", "200", "--nodes", "2", "--plot", "curves.svg", "--log", "log.txt")
      assert_match(/\A<svg .*first.*fourth.*<\/svg>\n\z/m, File.read("#{folder}/curves.svg"))
      log = File.readlines("#{folder}/log.txt")
      assert_equal 200, log.grep(/ start /).size
      assert_equal 200, log.grep(/ ended \d+ Succeeded/).size
      sim("-C", folder, "layers", "--tasks", "200", "--nodes", "1,2", "--plot", "scaling.svg")
      assert_includes File.read("#{folder}/scaling.svg"), "lower bound"
    end
  end

  def test_what_is_no_workload_is_refused_in_one_line
    Dir.mktmpdir do |folder|
      File.write("#{folder}/broken.json", "{")
      { "missing.json" => [/cannot read .*missing\.json/, 2], "broken.json" => [/broken\.json: not a workflow in WfFormat/, 1],
        "norun" => [/./, 3] }.each do |name, (message, status)|
        _, errors, ended = Open3.capture3(COMMAND, "-C", folder, "sim", name)
        assert_equal [status, 1], [ended.exitstatus, errors.lines.size], errors
        assert_match message, errors
      end
    end
  end

  private

  def sim(*words)
    folder = words.first == "-C" ? words.shift(2) : []
    output, errors, status = Open3.capture3(COMMAND, *folder, "sim", *words)
    assert status.success?, errors
    output
  end
end
