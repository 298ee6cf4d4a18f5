# frozen_string_literal: true

# Runs the Ruby tests: each folder of `test/` that holds `*_test.rb` in a process of its own, so that what one folder
# does to the process (signals, the current directory, rake's application) cannot reach another.
#
# usage: ruby test/run.rb [FILE_OR_FOLDER ...] [-- MINITEST_OPTION ...]
#
# It fails when a process fails, and also when a process ends without minitest's closing line: a test that calls `exit!`
# would otherwise pass for success. It does not know what the tests are about.
class TestRun
  ROOT = File.expand_path("..", __dir__)
  CLOSING_LINE = /^(\d+) runs, (\d+) assertions, (\d+) failures, (\d+) errors, (\d+) skips$/
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
    groups = files.group_by { |file| File.dirname(file) }
    abort "no test found" if groups.empty?
    groups.sort.each { |folder, tests| run(folder, tests.sort) }
    puts format("all Ruby tests: %d runs, %d assertions, %d failures, %d errors, %d skips", *@totals)
    @faults.each { |fault| puts "FAILED: #{fault}" }
    @faults.empty?
  end

  private

  def files
    return Dir.glob("test/**/*_test.rb") if @wanted.empty?

    @wanted.flat_map { |path| File.directory?(path) ? Dir.glob("#{path}/**/*_test.rb") : [path] }
  end

  def run(folder, tests)
    puts "== #{folder} (#{tests.size} files)"
    command = ["ruby", "-Ilib", "-Itest", "-e", LOAD_ALL, *tests, "--", *@options]
    closing = IO.popen(command, err: %i[child out]) { |output| echo(output) }
    @faults << "#{folder}: #{ending(Process.last_status)}" unless Process.last_status.success?
    return @faults << "#{folder}: ended without minitest's closing line" unless closing

    @totals = @totals.zip(closing).map(&:sum)
  end

  # Shows the output as it comes, also within a line, so that one sees where it hangs; returns the counts of the closing
  # line, or nil.
  def echo(output)
    text = +""
    loop do
      chunk = output.readpartial(1 << 16)
      text << chunk
      $stdout.write(chunk)
      $stdout.flush
    end
  rescue EOFError
    text.force_encoding(Encoding::UTF_8).scrub.scan(CLOSING_LINE).last&.map(&:to_i)
  end

  def ending(status)
    status.signaled? ? "killed by signal #{status.termsig}" : "exit status #{status.exitstatus}"
  end
end

exit TestRun.new(ARGV).call
