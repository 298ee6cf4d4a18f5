# frozen_string_literal: true

require "fileutils"
require "tmpdir"

# Runs the Ruby tests: each folder of `test/` that holds `*_test.rb` is a part, in a process of its own, so that what
# one folder does to the process (signals, the current directory, rake's application) cannot reach another. So is a file
# that COMPUTING names: else its folder would be alone at the end. Parts run side by side: those that compute beside
# those that wait most of the time, of each kind the long ones first. What a part prints is shown as a whole when it has
# ended.
#
# usage: ruby test/run.rb [FILE_OR_FOLDER ...] [-- MINITEST_OPTION ...]
#
# In the environment:
#
# - SHARDS=N: N parts at a time; with 1 the output is shown as it comes.
# - WITHOUT=testbed leaves out test/testbed (WITHOUT=a,b leaves out test/a and test/b), and says so.
# - BESIDE=COMMAND: a shell command that runs as one more part, beside all others from the beginning on.
#
# A file with a line `# Runs alone: WHY.` is a part of its own, and runs when no other does: a test that compares
# durations.
#
# It fails when a part fails, and also when a part ends without minitest's closing line: a test that calls `exit!` would
# otherwise pass for success. It does not know what the tests are about.
class TestRun
  ROOT = File.expand_path("..", __dir__)
  # Of two cores: half of them compute, and the others wait for the most part.
  SHARDS = 4
  # About what a part takes beside three others, in seconds: only the order is made of it. A part that is not here comes
  # first of those that compute. The last of them, test/bench, builds a program, and waits while BESIDE compiles.
  COMPUTING = {
    "test" => 390, "test/e2e" => 350, "test/iobench/runner_test.rb" => 150, "test/iobench" => 130, "test/examples" => 65,
    "test/near" => 55, "test/installation" => 45, "test/bench" => 30
  }.freeze
  WAITING = {
    "test/cluster/sites" => 275, "test/cluster/gfarm" => 250, "test/cluster/ssh" => 230, "test/cluster/slurm" => 175,
    "test/cluster" => 170, "test/testbed" => 95, "test/cluster/staging" => 70
  }.freeze
  ALONE = /^# Runs alone: /
  # Where one sees what a part has printed so far.
  LOGS = "tmp/test"
  CLOSING_LINE = /^(\d+) runs, (\d+) assertions, (\d+) failures, (\d+) errors, (\d+) skips$/
  # What minitest says of failures stands between these two lines; up to TOLD_LINES_MAX lines of it stand once more at
  # the end.
  TOLD = /^Finished in .*?$(.*)^\d+ runs, /m
  TOLD_LINES_MAX = 60
  LOAD_ALL = <<~'RUBY'
    $stdout.sync = true
    split = ARGV.index("--")
    ARGV.slice!(0..split).tap(&:pop).each { |file| require File.expand_path(file) }
  RUBY

  # Files that run in one process, or a command.
  Part = Struct.new(:name, :files, :command) do
    def to_s = files ? "#{name} (#{files.size} files)" : name
  end

  def initialize(arguments)
    split = arguments.index("--") || arguments.size
    @wanted = arguments[0...split]
    @options = arguments[(split + 1)..] || []
    @totals = Array.new(5, 0)
    @faults = []
    @telling = Mutex.new
  end

  # @return [Boolean] whether every test passed
  def call
    Dir.chdir(ROOT)
    # Who runs this in the background of a script has them ignored, and so would all that the tests start.
    %w[INT QUIT HUP].each { |signal| trap(signal, "DEFAULT") }
    abort "no test found" if files.empty?
    alone, others = parts
    FileUtils.mkdir_p(LOGS)
    beside = command_beside.map { |part| Thread.new { run(part, shown: false) } }
    run_side_by_side(others)
    beside.each(&:join)
    alone.each { |part| run(part) }
    puts format("all Ruby tests: %d runs, %d assertions, %d failures, %d errors, %d skips", *@totals)
    @faults.sort.each { |fault, told| puts "FAILED: #{fault}", told }
    @faults.empty?
  end

  private

  def files
    @files ||= if @wanted.empty?
                 Dir.glob("test/**/*_test.rb").reject { |file| left_out.any? { |folder| file.start_with?(folder) } }
               else
                 @wanted.flat_map { |path| File.directory?(path) ? Dir.glob("#{path}/**/*_test.rb") : [path] }
               end
  end

  def left_out
    @left_out ||= ENV.fetch("WITHOUT", "").split(",").map do |name|
      abort "WITHOUT=#{name}: there is no folder test/#{name}" unless File.directory?("test/#{name}")
      puts "left out, since WITHOUT says so: test/#{name}"
      "test/#{name}/"
    end
  end

  def shards
    Integer(ENV.fetch("SHARDS", SHARDS)).tap { |shards| abort "SHARDS=#{shards}: at least 1 is expected" if shards < 1 }
  rescue ArgumentError
    abort "SHARDS=#{ENV.fetch("SHARDS")}: a number of parts that run at a time is expected"
  end

  # What is no test of Ruby: one, or none. No test sees the setting.
  def command_beside
    [ENV.delete("BESIDE").to_s].reject(&:empty?).map { |command| Part.new(command, nil, command) }
  end

  # Those that run alone, and the others.
  def parts
    alone, others = files.sort.partition { |file| File.read(file).match?(ALONE) }
    folders = others.group_by { |file| COMPUTING.key?(file) ? file : File.dirname(file) }
                    .map { |name, tests| Part.new(name, tests) }
    [alone.map { |file| Part.new(file, [file]) }, folders.sort_by { |part| [-seconds(part), part.name] }]
  end

  def seconds(part) = COMPUTING[part.name] || WAITING[part.name] || Float::INFINITY

  # Every other one takes what computes, and of the other kind when nothing of its own is left.
  def run_side_by_side(parts)
    kinds = parts.partition { |part| WAITING.key?(part.name) }
    taking = Mutex.new
    runners = Array.new([shards, parts.size].min) do |number|
      own, other = kinds.rotate(number % kinds.size)
      Thread.new do
        while (part = taking.synchronize { own.shift || other.shift }) do run(part, shown: parts.size == 1 || shards == 1) end
      end
    end
    runners.each(&:join)
  end

  # @param shown [Boolean] whether its output is shown as it comes
  def run(part, shown: true)
    tell("== #{part}#{" begins; its output is in #{log_of(part)} meanwhile" unless shown}")
    started = now
    text, status = Dir.mktmpdir("mpi") do |folder|
      # Open MPI 4 removes the folder that runs of one user share, and fails when another run of it makes that just
      # then.
      own = { "OMPI_MCA_orte_tmpdir_base" => folder }
      text = IO.popen(own, command_of(part), err: %i[child out]) { |output| shown ? echo(output, $stdout) : keep(part, output) }
      [text, Process.last_status]
    end
    tell("== #{part}", text) unless shown
    tell(format("== %s: %.0f s", part.name, now - started))
    @telling.synchronize { count(part, text, status) }
  end

  def command_of(part)
    part.command ? ["sh", "-c", part.command] : ["ruby", "-Ilib", "-Itest", "-e", LOAD_ALL, *part.files, "--", *@options]
  end

  # Says it as a whole, whoever else has something to say.
  def tell(*texts)
    @telling.synchronize do
      $stdout.puts(*texts)
      $stdout.flush
    end
  end

  def count(part, text, status)
    told = part.command ? text.lines.last(TOLD_LINES_MAX) : text[TOLD, 1].to_s.lines.first(TOLD_LINES_MAX)
    @faults << ["#{part.name}: #{ending(status)}", told.join] unless status.success?
    return if part.command

    closing = text.scan(CLOSING_LINE).last&.map(&:to_i)
    return @faults << ["#{part.name}: ended without minitest's closing line", ""] unless closing

    @totals = @totals.zip(closing).map(&:sum)
  end

  def log_of(part) = "#{LOGS}/#{part.name.delete_prefix("test/").gsub(/[^\w.]+/, "-")[0, 60]}.log"

  def keep(part, output)
    File.open(log_of(part), "w") { |log| echo(output, log) }
  end

  # Passes the output on as it comes, also within a line, so that one sees where it hangs; returns all of it.
  def echo(output, to)
    text = +""
    loop do
      chunk = output.readpartial(1 << 16)
      text << chunk
      to.write(chunk)
      to.flush
    end
  rescue EOFError
    text.force_encoding(Encoding::UTF_8).scrub
  end

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  def ending(status)
    status.signaled? ? "killed by signal #{status.termsig}" : "exit status #{status.exitstatus}"
  end
end

exit TestRun.new(ARGV).call
