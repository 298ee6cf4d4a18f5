# frozen_string_literal: true

# What users get wrong, and what is only large or odd: each a clear message and the right exit status, or it simply
# works. Runs the real command. A full disk and a read-only folder are real: small tmpfs mounts (needs root).

require "minitest/autorun"
require "open3"
require "pty"
require "tmpdir"
require "fileutils"
require_relative "../support/engines"

# Bad, large and odd Rakefiles.
class BadInputTest < Minitest::Test
  RAKUDA = File.expand_path("../../bin/rakuda", __dir__)

  def setup
    @directory = Dir.mktmpdir("rakuda-bad")
  end

  def teardown
    system("umount", mount_point, err: File::NULL) if File.directory?(mount_point)
    FileUtils.rm_rf(@directory)
  end

  def test_unknown_task_is_named_and_a_near_one_suggested
    run_rakuda("task :build", "biuld")
    assert_failed "Don't know how to build task 'biuld' (See the list of available tasks with `rakuda --tasks`)"
    assert_includes @err, "Did you mean?  build"
  end

  def test_a_mistake_that_the_engine_finds_is_told_in_one_line
    run_rakuda("task(:default) { puts 1 }", "-F", "nofile")
    assert_equal 1, @status.exitstatus
    assert_match(/\Arakuda: failed to read the host file \S+nofile: No such file or directory.*\n\z/, @err)
    assert_includes @err, "; -F (HOSTFILE) expects a file with lines such as `host1 8`"
    File.mkfifo(File.join(@directory, "pipe"))
    run_rakuda("task(:default) { puts 1 }", "-F", "pipe")
    assert_match(/\Arakuda: failed to read the host file \S+pipe: it is no ordinary file.*\n\z/, @err)
    File.write(File.join(@directory, "hosts"), "host1 many cores\n")
    run_rakuda("task(:default) { puts 1 }", "-F", "hosts")
    assert_equal [1, 1], [@status.exitstatus, @err.lines.size], @err
    refute_match(/Error|refused/, @err)
  end

  # The display has something to say to the engine when it is taken away.
  def test_a_mistake_that_the_engine_finds_is_told_on_a_terminal_too
    File.write(File.join(@directory, "Rakefile"), "task(:default) { puts 1 }\n")
    said = +""
    begin
      PTY.spawn(RAKUDA, "-F", "nofile", chdir: @directory) do |output, _, pid|
        loop { said << output.readpartial(4096) }
      rescue Errno::EIO
        @status = Process.wait2(pid).last
      end
    end
    assert_match(/rakuda: failed to read the host file \S+nofile: /, said)
    refute_match(/ended unexpectedly|Error/, said)
    assert_equal 1, @status.exitstatus
  end

  # Whoever opens a named pipe waits for the other side, and hears no signal meanwhile.
  def test_named_pipes_in_the_place_of_notes_hold_up_no_run
    run_rakuda("file('a') { sh 'echo a > a' }\nfile('bad') { sh 'echo b > bad; exit 3' }", "-q", "a")
    %w[unfinished unfinished.lock failed_files doubts history.jsonl history.jsonl.new recovery.lock].each do |name|
      pipe = File.join(@directory, ".rakuda", name)
      FileUtils.rm_f([pipe, File.join(@directory, "a")])
      File.mkfifo(pipe)
      run_in(@directory, "-q", "a", limit: 60)
      assert_predicate @status, :success?, "#{name}: #{@err}"
      run_in(@directory, "-q", "bad", limit: 60)
      assert_failed "Command failed with status (3)"
      FileUtils.rm_f(pipe)
    end
  end

  def test_a_wrong_host_file_is_told_with_its_line
    File.write(File.join(@directory, "hosts"), "host1 2\nhost2 x\n")
    run_rakuda("task(:default) { sh 'hostname' }", "-F", "hosts")
    assert_failed "#{@directory}/hosts:2: `x` for the number of cores: expected a whole number"
    group = "[[group]]\nname = \"far\"\nleader = \"host1\"\nhosts = [\"host[[3-4]] 2\"]\n"
    File.write(File.join(@directory, "hosts.toml"), "hosts = [\"host1 2\"]\n\n#{group}")
    run_again("-F", "hosts.toml", "-q")
    assert_failed "#{@directory}/hosts.toml:5: the leader `host1` is no host of its group"
  end

  def test_a_launch_template_that_fails_is_told_in_its_words
    run_rakuda("task(:default) { puts 1 }", "-q", "--launch", "echo {agent} > /dev/null; echo no such queue >&2; exit 3")
    assert_equal [3, ""], [@status.exitstatus, @out]
    assert_includes @err, "  the launch template ended with status 3: no such queue\n"
    run_again("-q", "--launch", "mpirun {agnt}")
    assert_equal 3, @status.exitstatus
    assert_includes @err, "starts no agent: expected {agent}"
  end

  def test_slurm_without_an_allocation_is_told_with_what_to_give
    run_rakuda("task(:default) { puts 1 }", "--cluster", "slurm")
    assert_equal [1, "rakuda: --cluster slurm: this is not within a Slurm allocation (SLURM_JOB_ID is not set); " \
                     "say how many nodes to ask for: --nodes N\n"], [@status.exitstatus, @err]
  end

  def test_cycle_is_named_whole_before_anything_runs
    run_rakuda(<<~'RUBY', "-j", "2")
      task(:first) { puts "ran" }
      task default: %i[first a]
      task a: :b
      task b: :c
      task c: :a
    RUBY
    assert_failed "Circular dependency detected: TOP => default => a => b => c => a"
    refute_includes @out, "ran"
  end

  def test_missing_source_is_named_with_the_chain_of_tasks
    run_rakuda(<<~'RUBY')
      task default: "prog"
      file "prog" => "main.c" do sh "cp main.c prog" end
    RUBY
    assert_failed "Don't know how to build task 'main.c'"
    assert_includes @err, "Tasks: TOP => default => prog"
  end

  def test_rule_whose_source_is_missing_is_named_with_its_place
    rakefile = <<~'RUBY'
      rule ".o" => [".c", "common.h"] do |t| sh "cp #{t.source} #{t.name}" end
      rule ".o" => ".f"
      rule ".c" => ->(name) { name.sub(".c", ".y") } do |t| sh "cp #{t.source} #{t.name}" end
      file("prog" => "main.o") { touch "prog" }
    RUBY
    File.write(File.join(@directory, "common.h"), "")
    reason = "Don't know how to build task 'main.o' (See the list of available tasks with `rakuda --tasks`)"
    rules = ["Rakefile:1: the rule applies to 'main.o', but its source 'main.c' does not exist",
             "Rakefile:3: the rule applies to 'main.c', but its source 'main.y' does not exist; no task and no rule makes it",
             "Rakefile:2: the rule applies to 'main.o', but its source 'main.f' does not exist; no task and no rule makes it"]
    [%w[prog], %w[-n prog], %w[main.o]].each do |words|
      run_rakuda(rakefile, *words)
      assert_failed [reason, *rules].join("\n")
    end
    # Each of several failures is told in a line.
    run_again("--failure", "continue", "prog", "main.o")
    assert_includes @err, "rakuda: #{[reason, *rules].join("; ")}\n"
    # What is there, or made by a task, is not called missing.
    run_rakuda(rakefile + %(file("main.y") { touch "main.y" }\n), "prog")
    assert_predicate @status, :success?, @err
    # No rule applies.
    run_rakuda(rakefile, "main.x")
    assert_failed "Don't know how to build task 'main.x'"
    refute_includes @err, "applies"
  end

  def test_list_of_tasks_that_is_empty_says_why
    lists = "has a description (`desc`): `rakuda -AT` lists all 2, and `rakuda -P` what they need"
    { ["task :a\ntask :b", "-T"] => "no task #{lists}",
      ["desc 'x'\ntask :a\ntask :b", "-T", "b"] => "no task whose name matches b #{lists}",
      ["task :a", "-AT", "z"] => "the Rakefile defines no task whose name matches z",
      ["", "-D"] => "the Rakefile defines no task" }.each do |(rakefile, *words), reason|
      run_rakuda(rakefile, *words)
      assert_equal [0, "", "rakuda: #{reason}\n"], [@status.exitstatus, @out, @err]
      run_again("-q", *words)
      assert_equal ["", ""], [@out, @err]
    end
    run_rakuda("task :a", "-AT")
    assert_equal ["rakuda a  # \n", ""], [@out, @err]
  end

  def test_syntax_error_is_shown_with_file_and_line
    run_rakuda("task :default do\n  puts 1\n")
    assert_failed "Rakefile:2: syntax error"
  end

  def test_no_rakefile_says_what_was_looked_for
    run_rakuda(nil)
    assert_failed "No Rakefile found (looking for: rakefile, Rakefile, rakefile.rb, Rakefile.rb)"
  end

  def test_command_not_found_is_named
    run_rakuda("task(:default) { sh \"no-such-program --fast\" }", "-j", "2")
    assert_failed "Command failed with status (127): [no-such-program --fast"
  end

  def test_killed_command_fails_its_task
    run_rakuda("task(:default) { sh \"kill -9 $$\" }", "-j", "2")
    assert_failed "Command failed with status"
  end

  def test_target_that_is_not_made_is_warned_of_with_its_place
    run_rakuda("file(\"x\") { }\ntask default: \"x\"\n", "-j", "2")
    assert_predicate @status, :success?
    assert_match(/task x ended well but its file does not exist \(.*Rakefile:1/, @err)
  end

  def test_odd_task_names_work
    names = ["new\nline", "späße/日本", "quo'te \"and\" $HOME `x`; *", "-n", "bytes\xff".b]
    Dir.mkdir(File.join(@directory, "späße"))
    run_rakuda(<<~'RUBY', "-j", "2")
      names = ["new\nline", "späße/日本", "quo'te \"and\" $HOME `x`; *", "-n", "bytes\xff".b]
      names.each { |name| file(name) { |t| File.write(t.name, "made") } }
      task default: names
    RUBY
    assert_predicate @status, :success?, @err
    names.each { |name| assert_equal "made", File.read(File.join(@directory.b, name.b)), name.inspect }
    run_again("-j", "2")
    assert_equal "", @err
  end

  # With more jobs, and as many prerequisites of one task: test/parallel_test.rb.
  def test_chain_of_thirty_thousand_works_with_one_job
    run_rakuda(<<~'RUBY', "-j", "1", "--progress", "off")
      task(:t0) { puts "first" }
      (1..30_000).each { |n| task "t#{n}" => "t#{n - 1}" }
      task(default: "t30000") { puts "last" }
    RUBY
    assert_equal ["first\nlast\n", ""], [@out, @err]
  end

  def test_failure_deep_in_a_chain_is_reported
    run_rakuda(<<~'RUBY', "-j", "2")
      task(:t0) { raise "deep" }
      (1..20_000).each { |n| task "t#{n}" => "t#{n - 1}" }
      task default: "t20000"
    RUBY
    assert_failed "deep"
    assert_includes @err, "Tasks: TOP => default => t20000 =>"
  end

  def test_full_disk_is_told_and_nothing_half_written_is_kept
    mount("size=64k")
    run_rakuda(<<~'RUBY', "-j", "2")
      file("small/x") { sh "head -c 1000000 /dev/zero > small/x" }
      task default: "small/x"
    RUBY
    assert_failed "Command failed with status (1)"
    assert_includes @err, "No space left on device"
    refute File.exist?(File.join(mount_point, "x")), "a half-written target was kept"
  end

  def test_run_goes_on_without_a_record_where_the_disk_is_full
    mount("size=16k")
    File.binwrite(File.join(mount_point, "filler"), "x" * 16_384) rescue nil
    File.write(File.join(@directory, "Rakefile"), "task(:default) { sh \"echo done\" }\n")
    FileUtils.cp(File.join(@directory, "Rakefile"), mount_point) rescue nil
    run_in(mount_point, "-j", "2", "-f", File.join(@directory, "Rakefile"))
    assert_includes @out, "done"
    assert_predicate @status, :success?
    assert_includes @err, "without a record"
  end

  def test_unwritable_directory_is_told
    mount("size=64k")
    File.write(File.join(mount_point, "Rakefile"), "file(\"x\") { sh \"touch x\" }\ntask default: \"x\"\n")
    system("mount", "-o", "remount,ro", mount_point, exception: true)
    run_in(mount_point, "-j", "2")
    assert_failed "Command failed with status (1): [touch x"
    assert_includes @err, "Read-only file system"
  end

  def test_the_one_value_that_is_known_is_named_alone
    run_rakuda("task :default", "--enforce", "cpu")
    assert_failed "--enforce cpu: expected memory"
  end

  def test_unknown_policy_is_refused_with_the_known_ones
    run_rakuda("task :default", "--policy", "best")
    assert_equal 1, @status.exitstatus
    assert_match(/fifo.*lifo.*lifo_hrf.*rank_hrf/m, @err)
  end

  private

  def mount_point = File.join(@directory, "small")

  def mount(options)
    flunk "this test mounts a tmpfs and needs root" unless Process.uid.zero?
    Dir.mkdir(mount_point)
    system("mount", "-t", "tmpfs", "-o", options, "tmpfs", mount_point, exception: true)
  end

  def run_rakuda(rakefile, *arguments)
    File.write(File.join(@directory, "Rakefile"), rakefile) if rakefile
    run_in(@directory, *arguments)
  end

  def run_again(*arguments) = run_in(@directory, *arguments)

  # @param limit [Integer] in seconds; what takes longer hangs
  def run_in(directory, *arguments, limit: 600)
    words = ["timeout", "-s", "KILL", limit.to_s, RAKUDA, *arguments]
    @out, @err, @status = Open3.capture3({ "HOME" => @directory, **Engines::WITHOUT_PROGRESS }, *words, chdir: directory)
  end

  def assert_failed(message)
    assert_equal 1, @status.exitstatus, @err
    assert_includes @err, message
  end
end
