# frozen_string_literal: true

# Runs the Ruby tests: each folder of `test/` that holds `*_test.rb` in a process of its own, so that what one folder
# does to the process (signals, the current directory, rake's application) cannot reach another.
#
# usage: ruby test/run.rb [FILE_OR_FOLDER ...] [-- MINITEST_OPTION ...]
#
# WITHOUT=testbed in the environment leaves out test/testbed (WITHOUT=a,b leaves out test/a and test/b), and says so.
#
# It fails when a process fails, and also when a process ends without minitest's closing line: a test that calls `exit!`
# would otherwise pass for success. It does not know what the tests are about.
class TestRun
  ROOT = File.expand_path("..", __dir__)
  CLOSING_LINE = /^(\d+) runs, (\d+) assertions, (\d+) failures, (\d+) errors, (\d+) skips$/
  # What minitest says of failures stands between these two lines; so many lines of it are said once more at the end.
  TOLD = /^Finished in .*?$(.*)^\d+ runs, /m
  TOLD_LINES_MAX = 60
  LOAD_ALL = <<~'RUBY'
    $stdout.sync = true
    split = ARGV.index("--")
    ARGV.slice!(0..split).tap(&:pop).each { |file| require File.expand_path(file) }
  RUBY

  def initialize(arguments)
    split = arguments.index("--") || arguments.size
    @wanted = arguments[0...split]
    @options = arguments[(split + 1)..] || []
    @totals = Array.new(5, 0)
    @faults = []
  end

  # @return [Boolean] whether every test passed
  def call
    Dir.chdir(ROOT)
    # Who runs this in the background of a script has them ignored, and so would all that the tests start.
    %w[INT QUIT HUP].each { |signal| trap(signal, "DEFAULT") }
    groups = files.group_by { |file| File.dirname(file) }
    abort "no test found" if groups.empty?
    groups.sort.each { |folder, tests| run(folder, tests.sort) }
    puts format("all Ruby tests: %d runs, %d assertions, %d failures, %d errors, %d skips", *@totals)
    @faults.each { |fault, told| puts "FAILED: #{fault}", told }
    @faults.empty?
  end

  private

  def files
    return Dir.glob("test/**/*_test.rb").reject { |file| left_out.any? { |folder| file.start_with?(folder) } } if @wanted.empty?

    @wanted.flat_map { |path| File.directory?(path) ? Dir.glob("#{path}/**/*_test.rb") : [path] }
  end

  def left_out
    @left_out ||= ENV.fetch("WITHOUT", "").split(",").map do |name|
      abort "WITHOUT=#{name}: there is no folder test/#{name}" unless File.directory?("test/#{name}")
      puts "left out, since WITHOUT says so: test/#{name}"
      "test/#{name}/"
    end
  end

  def run(folder, tests)
    puts "== #{folder} (#{tests.size} files)"
    command = ["ruby", "-Ilib", "-Itest", "-e", LOAD_ALL, *tests, "--", *@options]
    text = IO.popen(command, err: %i[child out]) { |output| echo(output) }
    told = text[TOLD, 1].to_s.lines.first(TOLD_LINES_MAX).join
    @faults << ["#{folder}: #{ending(Process.last_status)}", told] unless Process.last_status.success?
    closing = text.scan(CLOSING_LINE).last&.map(&:to_i)
    return @faults << ["#{folder}: ended without minitest's closing line", ""] unless closing

    @totals = @totals.zip(closing).map(&:sum)
  end

  # Shows the output as it comes, also within a line, so that one sees where it hangs; returns all of it.
  def echo(output)
    text = +""
    loop do
      chunk = output.readpartial(1 << 16)
      text << chunk
      $stdout.write(chunk)
      $stdout.flush
    end
  rescue EOFError
    text.force_encoding(Encoding::UTF_8).scrub
  end

  def ending(status)
    status.signaled? ? "killed by signal #{status.termsig}" : "exit status #{status.exitstatus}"
  end
end

exit TestRun.new(ARGV).call
