# frozen_string_literal: true

require "json"
require "minitest/autorun"
require_relative "../hosts_case"

# Routes of streams between two sites: head, host1 and host2 on one, host3 and host4 on the other. How many copies of a
# message pass which line.
class StreamRoutesTest < ClusterHostsCase
  def testbed_settings = { HOSTS: 4, GFARM: 0, SLURM: 0, WAN_MS: 5 }

  RAKEFILE = <<~'RUBY'
    stream :s, from: "w", to: %w[r1 r2 r3]
    task(:w) { sh "seq 10000" }
    %w[r1 r2 r3].each { |r| file(r) { |t| sh "cat > #{t.name}" } }
    task default: %w[r1 r2 r3]
  RUBY

  def setup
    super
    write("hosts.toml", <<~TOML)
      [[group]]
      name = "near"
      hosts = ["host1 1", "host2 1"]

      [[group]]
      name = "far"
      hosts = ["host3 1", "host4 1"]
    TOML
  end

  # Edges between and within groups, from the report.
  def copies(route)
    FileUtils.rm_rf(["r1", "r2", "r3", ".rakuda"].map { |name| File.join(@folder, name) })
    write("Rakefile", RAKEFILE)
    @testbed.run!("head", RAKUDA, "-q", "-F", "hosts.toml", "--stream-route", route, chdir: @folder)
    assert_equal [(1..10_000).to_a], %w[r1 r2 r3].map { |name| read(name).lines.map(&:to_i) }.uniq
    stream = JSON.parse(ctl("report", "--json")).fetch("streams").first
    assert stream.fetch("balanced")
    [stream.dig("route", "route"), *%w[between_groups within_groups].map { |line| stream.dig("copies", line, "edges") }]
  end

  def test_a_line_between_sites_is_passed_once_over_representatives
    assert_equal ["direct", 2, 1], copies("direct")
    assert_equal ["relay", 1, 2], copies("relay")
    assert_equal ["conventional", 2, 1], copies("conventional")
    assert_equal ["relay", 1, 2], copies("auto")
    assert_includes ctl("report", "--text"), "  route relay (chosen by cost)\n"
    refused = @testbed.run("head", RAKUDA, "--stream-route", "fast", chdir: @folder)
    assert_equal 1, refused.status
    assert_includes refused.err, "auto, relay, direct"
  end
end
