# frozen_string_literal: true

require "json"
require "minitest/autorun"
require_relative "../gfarm_case"

# `rakudactl bench` in a folder whose file server hangs: a process that has a file open there cannot be killed, since
# the kernel waits for an answer when it closes the file. The command ends all the same, and the next one says what
# still runs.
class ClusterHangingBenchTest < ClusterGfarmCase
  BUILT = File.expand_path("../../../iobench/build", __dir__)
  WORKFLOW = { "name" => "w", "workflow" => { "specification" => {
    "tasks" => [{ "id" => "a", "name" => "a", "parents" => [], "inputFiles" => [], "outputFiles" => ["a"] }],
    "files" => [{ "id" => "a", "sizeInBytes" => 5 }]
  } } }.freeze

  def setup
    super
    File.write("#{@shared}/w.json", JSON.generate(WORKFLOW))
    programs = "#{@shared}/iobench"
    FileUtils.mkdir_p(programs)
    (Dir.children(BUILT) - %w[io-task]).each { |name| FileUtils.ln_s(File.join(BUILT, name), File.join(programs, name)) }
    # A task with a file open until there is a `go`.
    File.write("#{programs}/io-task", <<~SH, perm: 0o755)
      #!/bin/sh
      exec 3>held
      touch #{@shared}/begun
      until test -e #{@shared}/go; do sleep 0.05; done
      exec 3>&-
      exec #{BUILT}/io-task "$@"
    SH
    @environment = { "IOBENCH" => programs }
  end

  def bench(*words)
    @testbed.run("head", RAKUDACTL, "bench", *words, "--dir", "#{@folder}/work", chdir: @shared, environment: @environment)
  end

  def test_a_command_ends_although_what_it_started_does_not_and_the_next_one_names_that
    err = "#{@shared}/err"
    pid = @testbed.start("head", RAKUDACTL, "bench", "compare", "w.json", "--engines", "make", "--rounds", "5", "--dir",
                         "#{@folder}/work", chdir: @shared, environment: @environment, out: err, err: err)
    wait_for("the task", -> { File.read(err) }) { File.exist?("#{@shared}/begun") }
    hanging do
      Process.kill(:TERM, pid)
      assert_equal 143, Process.wait2(pid).last.exitstatus, File.read(err)
      told = /^rakudactl bench: killed, and still there after 30 s, as where a file server does not answer: \d+ \(sh io-task /
      assert_match(told, File.read(err))
      result = bench("run", "metadata")
      assert_equal 2, result.status, result.out + result.err
      assert_match(/work: an earlier command was ended, and what it had started is still there: \d+ \(sh io-task /, result.err)
    end
    File.write("#{@shared}/go", "")
    result = nil
    wait_for("the folder", -> { result.out + result.err }) { (result = bench("run", "metadata")).success? }
    assert_match(/work: removed what a run that was killed has left/, result.err)
    refute_predicate @testbed.run("head", "test", "-e", "#{@folder}/work", chdir: "/"), :success?
  end

  private

  def hanging
    @testbed.run!("head", "pkill", "-STOP", "-x", "gfarm2fs", chdir: "/")
    yield
  ensure
    @testbed.run!("head", "pkill", "-CONT", "-x", "gfarm2fs", chdir: "/")
  end
end
