# frozen_string_literal: true

# What the command line asks for, in the order in which it stands there: which targets run together, and what follows
# when one of them fails. It asks the session to plan and to run, and knows neither numbers nor messages.
#
# As in a list of prerequisites, file tasks that stand side by side run together. A plain task waits for what stands
# before it, and what stands after it waits for it, as with rake: `rakuda clean all`, `rakuda db:drop db:create`.

require "rakuda/failures"

module Rakuda
  # The targets of one call.
  class Targets
    # What else than an `exit` ends a run whatever `--failure` says.
    FATAL = [SignalException, EngineError, OutputError, NodesGone, ConfigurationError].freeze

    # @param application [Application]
    def initialize(application)
      @application = application
      @words = application.top_level_tasks # an action may add to it, as with rake
      @continues = application.continues?
      @place = 0
      @failures = []
    end

    # Runs them all.
    # @raise the first failure
    def run
      while @place < @words.size
        roots = @application.serial? ? [] : files_from(@place)
        roots.size > 1 ? run_together(roots) : run_one
      end
      raise @failures.first if @failures.any?
    end

    private

    # Rake's own way, with its error when there is no such task.
    def run_one
      word = @words[@place]
      @place += 1
      attempt { @application.invoke_task(word) }
    end

    def run_together(roots)
      session = @application.session
      plan = session.plan_together(roots)
      @place += plan.planned
      attempt { session.run_together(plan) }
      return unless plan.error

      @place += 1
      attempt { raise plan.error }
    end

    # The file tasks that stand side by side from a place on. One that cannot be looked up may be made by what stands
    # before it: it is looked up again when that has run.
    # @return [Array<Array(Rake::Task, Rake::TaskArguments)>]
    def files_from(place)
      return [] unless rakes_own?(@application, :invoke_task, Rake::Application)

      roots = []
      while (word = @words[place + roots.size]) && (root = file_of(word))
        roots << root
      end
      roots
    end

    # @return [Array(Rake::Task, Rake::TaskArguments), nil]
    def file_of(word)
      name, values = @application.parse_task_string(word)
      task = RakeBridge.find_top(@application, name)
      return unless task.is_a?(Rake::FileTask) && rakes_own?(task, :invoke, RakeBridge::TaskHooks)

      [task, values.empty? ? nil : Rake::TaskArguments.new(task.arg_names, values)]
    rescue StandardError, SystemStackError
      nil # is raised again when its turn comes
    end

    def rakes_own?(object, name, owner)
      object.method(name).owner == owner
    end

    def attempt
      yield
    rescue SystemExit
      count_rest
      raise
    rescue *FATAL
      raise
    rescue Exception => e # rubocop:disable Lint/RescueException -- whatever an action has raised
      return keep(e) if @continues

      count_rest
      raise
    end

    def count_rest
      @application.running_session&.plan_unreached(rest)
    end

    # With `--failure continue`: the others are made all the same.
    def keep(exception)
      return if @failures.any? { |one| one.equal?(exception) }

      @failures << exception
      return if @application.running_session&.failure_of_task?(exception) # the engine has told of it

      $stderr.puts "#{@application.name}: #{Failures.first_line(exception)}"
    end

    # What no turn came to, as far as it can be looked up.
    def rest
      @words.drop(@place).filter_map { |word| RakeBridge.find_top(@application, @application.parse_task_string(word).first) }
    rescue StandardError, SystemStackError
      []
    end
  end
end
