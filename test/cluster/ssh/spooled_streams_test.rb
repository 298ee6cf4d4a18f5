# frozen_string_literal: true

require "json"
require "minitest/autorun"
require_relative "../hosts_case"

# Streams over spools on hosts that share the run's folder: each member runs where there is room, and what has ended
# well is not run again when another host is lost.
class SpooledStreamsTest < ClusterHostsCase
  COUNT = 100_000

  # Each says where it runs, and how often it has. Readers wait before they read.
  MEMBERS = <<~RUBY.freeze
    stream :s, from: %w[w1 w2], to: %w[a b], replay: :MODE
    %w[w1 w2].each { |w| task(w) { sh "hostname >> by.\#{w}; seq -f '\#{w} %.0f' #{COUNT}" } }
    %w[a b].each do |r|
      file(r) { |t| sh "hostname >> by.\#{r}; hostname > begun.\#{r}; until test -e go; do sleep 0.05; done; cat > \#{t.name}" }
    end
    task default: %w[a b]
  RUBY

  # One after the other: what all writers have printed, in the order of their numbers.
  ALL = %w[w1 w2].flat_map { |writer| (1..COUNT).map { |number| "#{writer} #{number}\n" } }.join.freeze

  def ran(task) = read("by.#{task}").split

  def assert_made(printed, status)
    assert_equal 0, status, printed
    %w[a b].each { |reader| assert_equal ALL, read(reader) }
    assert_empty Dir.glob("#{@folder}/.rakuda/spools/*")
    streams = JSON.parse(ctl("report", "--json")).fetch("streams")
    assert(streams.all? { |stream| stream["balanced"] }, streams.inspect)
  end

  def test_members_that_fit_on_no_host_are_spread_and_read_what_others_wrote_elsewhere
    write("hosts", "host1 1\nhost2 1\n")
    write("go", "")
    %w[journal atomic].each do |mode|
      FileUtils.rm_f(%w[a b].map { |name| File.join(@folder, name) })
      result = rakuda(MEMBERS.sub("MODE", mode), "-q")
      assert_made(result.err, result.status)
    end
    assert_equal %w[host1 host2], %w[w1 w2 a b].flat_map { |task| ran(task) }.uniq.sort
  end

  def test_what_has_ended_well_is_not_run_again_when_a_host_is_lost
    write("hosts", "host1 1\nhost2 1\nhost3 1\n")
    lost = nil
    printed, status = while_command_waits(RAKUDA, "-F", "hosts", "-q", begun: 2, rakefile: MEMBERS.sub("MODE", "journal")) do
      lost = ran("a").last
      @testbed.run!(lost, "pkill", "-KILL", "-x", "rakuda-agent", chdir: "/")
      wait_for("it to run elsewhere", -> { read("by.a") }) { ran("a").last != lost }
      write("go", "")
    end
    assert_made(printed, status.exitstatus)
    assert_includes printed, "node #{lost} was lost"
    assert_equal([1, 1, 2], %w[w1 w2 a].map { |task| ran(task).size })
  end
end
