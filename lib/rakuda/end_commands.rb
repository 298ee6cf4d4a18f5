# frozen_string_literal: true

# Commands that the user wants to be run when a run is over (`--on-end`, `--on-fail`), with the run as JSON on their
# standard input. It does not know how runs end, and changes nothing about how this one did.

require "json"

module Rakuda
  # The two commands of a run.
  class EndCommands
    # @param on_end [String, nil] a command line for when a run is over, however it ended
    # @param on_fail [String, nil] the same for when it did not end well
    # @param name [String] of this program, for messages
    def initialize(on_end, on_fail, name)
      @on_end = on_end
      @on_fail = on_fail
      @name = name
    end

    # @param engine [String] the engine's program
    # @param run [String, nil] name of the run; nil: it ended before the engine gave it one
    # @param failed [Boolean]
    def run(engine, run, failed)
      commands = { "--on-fail" => (@on_fail if failed), "--on-end" => @on_end }.compact
      return if commands.empty?

      told = (report(engine, run) if run) || in_brief(run, failed)
      commands.each { |option, command| run_one(option, command, told) }
    end

    private

    def in_brief(run, failed)
      "#{JSON.generate("version" => 1, "id" => run, "state" => failed ? "failed" : "done")}\n"
    end

    # What `rakudactl report --json` says; nil: of this run there is no record, because nothing ran, or none is kept.
    def report(engine, run)
      told = IO.popen([engine, "ctl", "report", "--json", run, { err: File::NULL }], &:read)
      told if Process.last_status.success?
    rescue SystemCallError
      nil
    end

    def run_one(option, command, told)
      IO.popen(command, "w") { |input| give(input, told) }
      status = Process.last_status
      $stderr.puts "#{@name}: #{option} #{command}: ended with #{words(status)}" unless status.success?
    rescue SystemCallError => e
      $stderr.puts "#{@name}: #{option} #{command}: #{e.message}"
    end

    # A command need not read what Rakuda tells it.
    def give(input, told)
      input.write(told)
    rescue Errno::EPIPE
      nil
    end

    def words(status)
      status.signaled? ? "signal #{status.termsig}" : "status #{status.exitstatus}"
    end
  end
end
