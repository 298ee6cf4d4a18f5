# frozen_string_literal: true

require "fileutils"
require "minitest/autorun"
require "open3"
require "tmpdir"

# `rakudactl log -f`: what a task prints comes while it runs, and the command ends with the task.
class LogFollowTest < Minitest::Test
  ROOT = File.expand_path("..", __dir__)
  RAKUDA = File.join(ROOT, "bin", "rakuda")
  CONTROL = File.join(ROOT, "bin", "rakudactl")
  RAKEFILE = <<~'RUBY'
    task(:first) { sh "until [ -e begin ]; do sleep 0.05; done", verbose: false }
    task(:slow => :first) { sh "echo one; until [ -e go ]; do sleep 0.05; done; echo two >&2", verbose: false }
    task(:last => :slow) { sh "until [ -e end ]; do sleep 0.05; done; echo never", verbose: false }
    task default: :last
  RUBY

  def setup
    @dir = Dir.mktmpdir("rakuda-follow")
    File.write(File.join(@dir, "Rakefile"), RAKEFILE)
  end

  def teardown
    FileUtils.rm_rf(@dir)
  end

  def test_lines_come_while_the_task_runs_and_it_ends_with_the_task
    run = Process.spawn(RAKUDA, "-j", "2", "-q", chdir: @dir, out: File::NULL, err: File::NULL)
    sleep 0.05 until Open3.capture3(CONTROL, "-C", @dir, "status").last.success?
    Open3.popen2(CONTROL, "-C", @dir, "log", "--follow", "slow") do |_, out, control|
      touch("begin")
      assert_equal "one\n", out.gets
      touch("go")
      assert_equal "two\n", out.read, "it ends with the task, not with the run"
      assert_predicate control.value, :success?
    end
    touch("end")
    Process.wait(run)
    told, status = Open3.capture2(CONTROL, "-C", @dir, "log", "-f", "slow")
    assert_equal ["one\ntwo\n", true], [told, status.success?]
    _, err, status = Open3.capture3(CONTROL, "-C", @dir, "log", "-f", "slwo")
    assert_equal [false, true], [status.success?, err.include?("no task slwo in run")]
    out, err, status = Open3.capture3(CONTROL, "-C", @dir, "log", "-f", "first")
    assert_equal ["", true], [out, status.success?]
    assert_match(/\Arakudactl: the commands of first printed nothing in run \S+\n\z/, err)
  ensure
    %w[begin go end].each { |name| touch(name) }
  end

  private

  def touch(name)
    FileUtils.touch(File.join(@dir, name))
  end
end
