# frozen_string_literal: true

require "timeout"

# The end of a test of runs on the testbed. A test that failed prints what its run has printed and noted, and what each
# host runs. Nobody else uses its testbed, nor that of a test that has set `@spoilt`. The test has its `@testbed`, the
# run's `@folder` (as head sees it), and in `@printed` what the run has printed.
module FailedRun
  # Seconds for a command that says what is there.
  LIMIT = 20

  def teardown
    warn "#{name} failed. #{what_is_there}" if @testbed && !passed?
  end

  # After all that teardown has done, which may fail, too.
  def after_teardown
    super
  ensure
    Testbed.spoilt if @spoilt || !passed?
  end

  def what_is_there
    journals = output_of("head", "sh", "-c", "cd #{@folder} && exec tail -n 60 .rakuda/runs/*/journal.jsonl")
    hosts = ["head", *@testbed.hosts].map do |host|
      listed = output_of(host, "ps", "-eo", "pid,ppid,stat,etimes,wchan:24,args")
      "#{host}:\n#{listed.lines.map { |line| line.chomp[0, 160] }.join("\n")}"
    end
    ["It has printed:\n#{@printed}", "Journal:", journals, *hosts].join("\n")
  end

  # Reads what the run prints, line by line. @return [Thread] its value is all of it
  def read_along(reader)
    printed = @printed = +""
    Thread.new { reader.each_line.with_object(printed) { |line, all| all << line } }
          .tap { |reading| reading.report_on_exception = false }
  end

  # What a command prints. One that a hung file system holds cannot be killed: its output is given up.
  def output_of(host, *command)
    result = Timeout.timeout(LIMIT + 10) { @testbed.run(host, *command, chdir: "/", limit: LIMIT) }
    result.out + result.err
  rescue Timeout::Error
    "(#{command.first} on #{host} has not ended within #{LIMIT} s)"
  end
end
