# frozen_string_literal: true

require "fileutils"
require "minitest/autorun"
require_relative "../support/engines"
require_relative "../support/run_processes"
require_relative "../support/scratch_folder"
require_relative "../support/waiting"

# Streams over spools whose hub is struck while the writers are in the middle: one that stands still for a moment loses
# nothing, and after one that was killed the next run makes all.
class SpooledStreamsTest < Minitest::Test
  include ScratchFolder
  include Waiting

  HALF = 50_000
  RAKEFILE = <<~RUBY.freeze
    stream :s, from: %w[w1 w2], to: %w[a b], replay: :MODE
    %w[w1 w2].each do |w|
      task(w) { sh "seq -f '\#{w} %.0f' #{HALF}; echo x > begun.\#{w}; until test -e go; do sleep 0.05; done; " \\
                   "seq -f '\#{w} %.0f' #{HALF + 1} #{2 * HALF}" }
    end
    %w[a b].each { |r| file(r) { |t| sh "exec cat > \#{t.name}" } }
    task default: %w[a b]
  RUBY

  def test_a_journal_survives_what_happens_to_the_hub = strike("journal")

  def test_what_enters_when_its_writers_have_ended_survives_what_happens_to_the_hub = strike("atomic")

  private

  def strike(mode)
    File.write(path("Rakefile"), RAKEFILE.sub("MODE", mode))
    status = while_writers_wait do |hub|
      Process.kill(:STOP, hub)
      File.write(path("go"), "")
      # Nothing tells of its end: for this time it does not look at what the others do.
      sleep 0.5
      Process.kill(:CONT, hub)
    end
    assert_predicate status, :success?, printed
    assert_made
    FileUtils.rm(%w[a b go begun.w1 begun.w2].map { |name| path(name) })
    status = while_writers_wait do |hub|
      Process.kill(:KILL, hub)
      File.write(path("go"), "")
    end
    refute_predicate status, :success?
    refute_empty printed.strip
    assert_predicate Process.wait2(start).last, :success?, printed
    assert_made
    assert_empty Dir.glob(path(".rakuda/spools/*"))
  end

  def start = Process.spawn(Engines::REAL, RAKUDA, "-j4", "-q", chdir: @folder, %i[out err] => path("printed"))

  def printed = File.read(path("printed"))

  # @yieldparam hub [Integer] its process
  # @return [Process::Status] of the run
  def while_writers_wait
    pid = start
    wait_for("both writers to be in the middle", -> { printed }) { %w[w1 w2].all? { |w| File.size?(path("begun.#{w}")) } }
    yield RunProcesses.of(pid).fetch(:hub)
    Process.wait2(pid).last
  end

  # One after the other: what all writers have printed, in the order of their numbers.
  def assert_made
    all = %w[w1 w2].flat_map { |writer| (1..2 * HALF).map { |number| "#{writer} #{number}\n" } }.join
    %w[a b].each { |reader| assert all == File.read(path(reader)), "#{reader}: #{File.size(path(reader))} bytes" }
  end
end
