# frozen_string_literal: true

require "fileutils"
require "json"
require "minitest/autorun"
require "open3"
require_relative "../support/run_processes"
require_relative "../support/scratch_folder"
require_relative "../support/terminal"

# `rakudactl top` on a pseudo-terminal of 80 x 24, beside a run that waits for a gate.
class TopTest < Minitest::Test
  include ScratchFolder

  CTL = File.expand_path("../../bin/rakudactl", __dir__)
  RAKEFILE = <<~'RUBY'
    %w[a b c].each { |n| file("map/#{n}.bam") { |t| sh "mkdir -p map; echo #{n} > #{t.name}" } }
    task(bad1: "map/a.bam") { sh "echo no reference; exit 3" }
    task(bad2: "map/a.bam") { sh "echo second; exit 4" }
    task(slow: %w[map/a.bam map/b.bam map/c.bam]) { sh "until [ -e gate ]; do sleep 0.01; done" }
    task(later: :slow) { puts "later" }
    task default: %w[bad1 bad2 slow later]
  RUBY

  def setup
    super
    File.write(path("Rakefile"), RAKEFILE)
    @pid = Process.spawn(RAKUDA, "-j2", "--failure", "continue", chdir: @folder, %i[out err] => File::NULL)
    told = nil
    # Then nothing changes any more: `slow` alone is left, and waits.
    waits = ->(now) { now.values_at("done", "failed") == [3, 2] && now["tasks"].any? { |task| task["commands"]&.any? } }
    told = status until told && waits.call(told)
  end

  def teardown
    open_gate
    _, status = Process.wait2(@pid)
    assert_equal 1, status.exitstatus, "the run was not touched: it failed by itself"
    super
  end

  def open_gate
    FileUtils.touch(path("gate"))
  end

  def status
    out, = Open3.capture3(CTL, "status", "--json", chdir: @folder)
    JSON.parse(out)["runs"][0] unless out.empty?
  end

  def top(*words, **options, &block)
    Terminal.run(CTL, "top", *words, directory: @folder, **options, &block)
  end

  def test_it_shows_the_run_and_leaves_without_touching_it
    screens = []
    terminal = top do |now|
      screens << now.lines
      # The second failure is chosen with a key, then it leaves.
      now.type("j") if screens.last.include?("failed 1 of 2: bad1: status 3")
      now.type("q") if screens.last.include?("failed 2 of 2: bad2: status 4")
    end
    assert terminal.status.success?
    # A terminal hands a screen out in parts when it likes; what a failure has printed is drawn last.
    first = screens.find { |lines| ["failed 1 of 2: bad1: status 3", "  no reference"].all? { |line| lines.include?(line) } }
    refute_nil first, screens.last.join("\n")
    assert_match(%r{\A3/\d done, 1 running, 0 queued, 2 failed}, first[1])
    assert_equal 24, first.size
    assert_operator first.map(&:size).max, :<=, 80
    assert(first.any?(/\A *[\d.]+ m?s +slow +until \[ -e g/), first.join("\n"))
    assert(first.any?(%r{\Amap/\*\.bam +3/3 +0 +0 }), first.join("\n"))
    # Tasks of rules of which nothing has begun count, too: together they are what the head says.
    totals = first.filter_map { |line| line[%r{ \d+/(\d+) +\d+ +\d+ }, 1]&.to_i }
    assert_equal first[1][%r{/(\d+) done}, 1].to_i, totals.sum, first.join("\n")
    assert_equal [""], terminal.lines, "the screen is as it was"
    assert_equal 1, status["running"], "and the run goes on"
  end

  # Keys are pressed once what the one before has done is on the screen.
  def test_keys_show_the_help_and_look_for_tasks
    steps = [[/\Aq leave/, "?"], [/any key closes it\z/, "x"], [/\Aq leave/, "/bad2"],
             [%r{\A/bad2_}, "\r"], [%r{\A/bad2: 0 running, 0 done, 1 failed, 0 not begun}, "\e"], [/\Aq leave/, "/later\r"],
             [%r{\A/later: 0 running, 0 done, 0 failed, 1 not begun}, "\e"], [/\Aq leave/, "/map\r"],
             [%r{\A/map: 0 running, 3 done, 0 failed, 0 not begun}, "\e"], [/\Aq leave/, "q"]]
    seen = []
    terminal = top do |now|
      next if steps.empty? || now.lines.none?(steps[0][0])

      seen << now.lines
      now.type(steps.shift[1])
    end
    assert terminal.status.success?
    assert_empty steps
    assert_includes seen[1].join("\n"), "Page Down, f   further running tasks"
    assert_includes seen[4], "failed 1 of 1: bad2: status 4"
    assert(seen[4].any?(/\A *[\d.]+ m?s +bad2 +status 4/), seen[4].join("\n"))
    refute(seen[4].any?(/until \[ -e g/), "what is not looked for is not shown")
    assert(seen[5].any?(/\A *[\d.]+ m?s +map\/[abc]\.bam +done/), "what has ended last has the rows that are left")
    assert(seen[6].any?(/\A *- +later +waiting/), seen[6].join("\n"))
    assert_equal 3, seen[8].grep(/\A *[\d.]+ m?s +map\/[abc]\.bam +done/).size, "what is done is found, too"
  end

  def test_the_end_of_the_run_is_shown_and_a_signal_gives_the_terminal_back
    killed = false
    terminal = top do |now|
      open_gate if now.lines.any?(/\A3\/\d done/)
      next if killed || now.lines.none?("has ended: failed; 5 done, 2 failed")

      killed = true
      Process.kill(:TERM, now.pid)
    end
    assert terminal.status.success?
    assert terminal.bytes.end_with?("\e[?25h\e[?1049l"), terminal.bytes[-40..]
  end

  def test_without_a_terminal_it_says_so_and_prints_text
    out, errors, status = Open3.capture3(CTL, "top", chdir: @folder)
    assert status.success?
    assert_match(/\Arakudactl: top needs a terminal.*ssh -t/, errors)
    assert_match(%r{^3/\d done, 1 running.*^map/\*\.bam +3/3 .*^failed 1 of 2: bad1: status 3$.*^  no reference$}m, out)
    out, errors, = Open3.capture3({ "TERM" => "dumb" }, CTL, "top", "--text", chdir: @folder)
    assert_match(/^failed 1 of 2/, out)
    assert_empty errors
  end

  def test_where_nothing_goes_on_it_says_so
    Dir.mktmpdir do |folder|
      Dir.mkdir(File.join(folder, ".rakuda"))
      _, errors, status = Open3.capture3(CTL, "top", chdir: folder)
      assert_equal 3, status.exitstatus
      assert_match(/no run is going on/, errors)
    end
  end
end
