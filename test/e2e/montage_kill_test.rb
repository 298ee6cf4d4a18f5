# frozen_string_literal: true

# The main job, killed in the middle: rakuda itself or the hub dies by SIGKILL while Montage's tools run; no process is
# left, the next run finishes, and the mosaic is the same to the bit as that of an undisturbed run.

require "minitest/autorun"
require "tmpdir"
require "digest"
require_relative "../support/run_processes"
require_relative "../support/waiting"

# kill -9 during a small mosaic.
class MontageKillTest < Minitest::Test
  include Waiting

  ROOT = File.expand_path("../..", __dir__)
  COMMAND = [File.join(ROOT, "bin/rakuda"), "-j", "2", "N=3", "PIX=128", "-f",
             File.join(ROOT, "examples/montage/Rakefile")].freeze

  def setup
    @directory = Dir.mktmpdir("rakuda-montage")
    add_held_tool
  end

  def teardown
    FileUtils.rm_rf(@directory)
  end

  def test_mosaic_is_the_same_after_rakuda_and_after_the_hub_were_killed
    expected = mosaic_of("undisturbed")
    refute_nil expected
    # Somewhere else each time: after this many projected or corrected tiles.
    { 1 => :hub, 5 => :starter, 9 => :hub }.each do |tiles, victim|
      name = "#{victim}#{tiles}"
      kill_in_the_middle(name, victim, after: tiles)
      assert_empty processes_in(work(name)), "a process is left"
      assert_equal expected, mosaic_of(name), name
      assert_empty(Dir["#{work(name)}/**/*.fits"].select { |file| File.zero?(file) })
    end
  end

  private

  def work(name) = File.join(@directory, name)

  # A run that is to be killed cannot be over before: its mAdd, of which each mosaic is the end, waits for that.
  def add_held_tool
    Dir.mkdir(held = File.join(@directory, "held"))
    File.write(File.join(held, "mAdd"), "#!/bin/sh\nwhile :; do sleep 1; done\n", perm: 0o755)
    @held = { "PATH" => "#{held}:#{ENV.fetch("PATH")}" }
  end

  def start(name, environment = {})
    log = "#{work(name)}.log"
    Process.spawn(environment, *COMMAND, "WORK=#{work(name)}", chdir: @directory, out: log, err: %i[child out])
  end

  def mosaic_of(name)
    _, status = Process.wait2(start(name))
    assert_predicate status, :success?, File.read("#{work(name)}.log")
    Digest::SHA256.file("#{work(name)}/mosaic.fits").hexdigest
  end

  def kill_in_the_middle(name, victim, after:)
    starter = start(name, @held)
    wait_until(name) { Dir["#{work(name)}/{projected,differences,corrected}/*.fits"].size >= after }
    processes = RunProcesses.of(starter)
    Process.kill(:KILL, processes.fetch(victim))
    _, status = Process.wait2(starter)
    refute_predicate status, :success?
    wait_until(name) { processes_in(work(name)).empty? && processes.values.none? { |pid| RunProcesses.alive?(pid) } }
  end

  # Processes that name the work directory: Montage's tools, shells and rakuda itself.
  def processes_in(directory)
    all_processes.select { |pid| arguments(pid).include?(directory) }
  end

  def all_processes = Dir.children("/proc").grep(/\A\d+\z/).map(&:to_i)

  def arguments(pid)
    File.binread("/proc/#{pid}/cmdline").tr("\0", " ")
  rescue SystemCallError
    ""
  end

  def wait_until(name, &block)
    wait_for("it at #{caller(1, 1).first}", -> { File.read("#{work(name)}.log") }, &block)
  end
end
