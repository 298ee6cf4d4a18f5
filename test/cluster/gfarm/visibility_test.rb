# frozen_string_literal: true

require "json"
require "minitest/autorun"
require_relative "../gfarm_case"

# A host that is late to see what another one has made: its kernel remembers that there was no such file, or has an old
# one.
class ClusterVisibilityTest < ClusterGfarmCase
  # host2 looks at `mid` before it is made.
  RAKEFILE = <<~'RUBY'
    shared = ENV.fetch("SHARED")
    task default: "end"
    desc "allow=host1"
    file("mid" => "src") { sh "touch #{shared}/begun; until test -e #{shared}/go; do sleep 0.05; done; seq 1 20000 > mid" }
    desc "allow=host2"
    file("end" => "mid") { sh "sort -n -r mid > end && echo end made on $(hostname)" }
  RUBY

  def setup
    super
    write("src", "")
    mount_on_host2("-o negative_timeout=86400")
  end

  def teardown
    passed? ? mount_on_host2 : super
  end

  def test_a_file_that_its_reader_does_not_see_yet_is_waited_for
    printed, status = running(RAKEFILE, "VISIBLE_WITHIN=120") do |so_far|
      wait_for("the first task", so_far) { File.exist?("#{@shared}/begun") }
      refute sees_mid?
      go
      wait_for("the reader to begin", so_far) { begun?("end") }
      refute sees_mid?, "it has begun, and its host remembers that there is no such file"
      # The kernel forgets what it remembers of this mount.
      @testbed.run!("host2", "mount", "-i", "-o", "remount", "/srv/gfarm", chdir: "/")
    end
    assert status.success?, printed
    assert_whole
    assert_equal 1, printed.scan("end made on host2").size, printed
  end

  def test_commands_are_not_started_when_their_host_never_sees_the_file
    write("mid", "old\n")
    write("src", "younger\n")
    @testbed.run!("host2", "sh", "-c", "cp mid /tmp/old && mount --bind /tmp/old mid", chdir: @folder)
    go
    printed, status = running(RAKEFILE, "VISIBLE_WITHIN=1") { nil }
    assert_equal 1, status.exitstatus, printed
    assert_includes printed, "could not be started: node host2 does not see mid as it was made, after 1 s: expected 108894 bytes,"
    assert_match(/ns, found 4 bytes, modified at \d+ ns; see whether/, printed)
    refute_includes printed, "end made on host2"
    refute @testbed.run("head", "test", "-e", "end", chdir: @folder).success?
  ensure
    @testbed.run!("host2", "umount", "#{@folder}/mid", chdir: "/")
  end

  # The first attempt leaves half of `end`, which head puts away; then host2 still remembers the name.
  def test_a_target_that_was_put_away_elsewhere_can_be_made_anew
    mount_on_host2("-o entry_timeout=3")
    printed, status = running(<<~RUBY, "--retry", "1") { nil }
      task default: "end"
      desc "allow=host2"
      file("end") { sh "seq 1 20000 | sort -n -r > end && echo tried && echo >> #{@shared}/tries && test $(wc -l < #{@shared}/tries) -gt 1" }
    RUBY
    assert status.success?, printed
    assert_equal 2, printed.scan(/^tried$/).size, printed
    assert_whole
    again, status = running('file("end") { sh "exit 3" }', "end") { nil }
    assert status.success?, again
  end

  # What the run before has put away counts as well, though a process of its own did it when its hub had died.
  def test_a_target_that_the_run_before_has_put_away_can_be_made_anew
    mount_on_host2("-o entry_timeout=3")
    rakefile = <<~RUBY
      task default: "end"
      desc "allow=host2"
      file "end" do
        sh "seq 1 20000 | sort -n -r > end; touch #{@shared}/begun; until test -e #{@shared}/go; do sleep 0.05; done"
      end
    RUBY
    printed, status = running(rakefile) do |so_far|
      wait_for("the command", so_far) { File.exist?("#{@shared}/begun") }
      @testbed.run!("head", "pkill", "-KILL", "-x", "rakudad", chdir: "/")
    end
    refute status.success?, printed
    assert_includes printed, "renamed unfinished target 'end' to 'end._fail_'"
    go
    printed, status = running(rakefile) { nil }
    assert status.success?, printed
    assert_whole
  end

  private

  def mount_on_host2(options = "")
    @testbed.run!("host2", "sh", "-c", "umount /srv/gfarm && gfarm2fs #{options} /srv/gfarm", chdir: "/")
  end

  def sees_mid? = @testbed.run("host2", "test", "-e", "#{@folder}/mid", chdir: "/").success?

  # Whether an attempt of a task has begun, by the journal.
  def begun?(name)
    lines = @testbed.run("head", "sh", "-c", "cat .rakuda/runs/*/journal.jsonl", chdir: @folder).out.lines
    events = lines.select { |line| line.end_with?("}\n") }.map { |line| JSON.parse(line) }
    task = events.find { |event| event["event"] == "task_defined" && event["name"] == name }
    events.any? { |event| event["event"] == "attempt_started" && event["task"] == task&.fetch("task") }
  end
end
