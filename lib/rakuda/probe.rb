# frozen_string_literal: true

# Finds out which commands an action would start, without running it, where that is possible without any effect. Used
# by --rerun-on command only. It does not know what the answer is compared with.

require "rakuda/call_guard"
require "rakuda/harmless_code"

module Rakuda
  # Asks actions in a sandbox.
  class Probe
    def initialize
      @harmless = {}.compare_by_identity    # action => what was read, nil: it must not be asked
      @guard = CallGuard.new
    end

    # @param task [Rake::Task]
    # @param arguments [Rake::TaskArguments]
    # @return [Array<String, Array<String>>, nil] command lines, or words where there is no shell; nil: not without running it
    def commands(task, arguments)
      return nil if task.rakuda_singular || !HarmlessCode::TASKS.include?(task.class)

      codes = task.actions.map { |action| read(action, task) || (return nil) }
      sandbox = Sandbox.new
      task.actions.zip(codes) { |action, code| @guard.watch(code) { ask(sandbox, action, task, arguments) } }
      sandbox.rakuda_commands
    rescue Exception # rubocop:disable Lint/RescueException -- also `raise SystemExit`: where it fails now it may not fail then
      nil
    end

    private

    def read(action, task)
      @harmless.fetch(action) { @harmless[action] = HarmlessCode.of(action, task.arg_names) }
    end

    # With as many arguments as rake's `execute` gives it.
    def ask(sandbox, action, task, arguments)
      case action.arity
      when 1 then sandbox.instance_exec(task, &action)
      else sandbox.instance_exec(task, arguments, &action)
      end
    end
  end
end
