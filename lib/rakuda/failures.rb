# frozen_string_literal: true

# Remembers why tasks failed and gives back what `invoke` raises: the first failure, with rake's chain. Prints the
# others, one line each. It does not decide whether anything is tried again.

module Rakuda
  # Exceptions by number of the task.
  class Failures
    # What is said of a rule that applies to what nobody knows how to build.
    RULE_APPLIES = "the rule applies to"
    # Maximum number of rules that are named: of more, the first ones and the last, at whose source the search has
    # ended.
    RULES_NAMED_MAX = 5

    # @param rules [Array<RakeBridge::ShortRule>]
    # @return [Array<String>] a line for each: where it stands, and which of its sources are missing
    def self.of_rules(rules)
      short = rules.reject { |rule| rule.missing.empty? }
      short = short.first(RULES_NAMED_MAX - 1) + short.last(1) if short.size > RULES_NAMED_MAX
      short.map do |rule|
        what, verb, it = rule.missing.size == 1 ? %w[source does it] : %w[sources do them]
        nobody = "; no task and no rule makes #{it}" if rule.hopeless == rule.missing
        names = rule.missing.map { |name| "'#{name}'" }.join(", ")
        "#{rule.place || "?"}: #{RULE_APPLIES} '#{rule.name}', but its #{what} #{names} #{verb} not exist#{nobody}"
      end
    end

    # @return [String] first line of an exception's message, in UTF-8, with what is said of rules
    def self.first_line(exception)
      first, *others = exception.message.to_s.lines(chomp: true)
      line = [first, *others.select { |other| other.include?(RULE_APPLIES) }].join("; ")
      line = exception.class.name if line.empty?
      line.dup.force_encoding(Encoding::UTF_8).scrub
    end

    # What rake's `sh` says of a command that was killed, by whatever; and how all begins that is said of a failed
    # command.
    KILLED = "Command failed with status ()"
    OF_COMMAND = ["Command failed with status", "Command failed with signal", "Command was killed: "].freeze

    # Rake has no bounds, so none of its words are lost.
    # @param exception [Exception]
    # @param killed_by [String, nil] what has killed the last command of the action
    # @return [Exception] the same, or one that names the bound that has killed the command
    def self.name_bound(exception, killed_by)
      return exception unless killed_by&.start_with?(Protocol::BOUND_EXCEEDED) && exception.message.start_with?(KILLED)

      exception.exception(exception.message.sub(KILLED) { "Command was #{killed_by}" })
    end

    # @return [String] the first line of an exception's message; of a command that a signal has ended, that signal
    def self.reason(exception, killed_by)
      line = first_line(exception)
      killed_by ? line.sub(KILLED) { "Command failed with #{killed_by}" } : line
    end

    # Files whose lines are not the Rakefile's.
    NOT_THE_RAKEFILE = Regexp.union(%r{\A#{Regexp.quote(File.expand_path("..", __dir__))}/}, /\A<internal:/,
                                    %r{\A#{Regexp.quote(File.dirname(Rake.method(:application).source_location[0]))}/},
                                    %r{\A#{Regexp.quote(RbConfig::CONFIG["rubylibdir"])}/}).freeze

    # @param directory [String] where relative names start
    # @param always [Boolean] whether the place of a failed command is wanted, too
    # @param killed_by [String, nil] what has killed the last command of the action
    # @return [String] the first line of an exception, with its class where that says something, and its place
    def self.account(exception, directory, always: false, killed_by: nil)
      line = reason(exception, killed_by)
      is_command = line.start_with?(*OF_COMMAND)
      return line if is_command && !always

      line = with_kind(exception, line) unless is_command
      place = exception.backtrace&.find { |entry| !entry.match?(NOT_THE_RAKEFILE) }&.slice(/\A.+?:\d+/)
      place ? "#{line} (#{place.dup.force_encoding(Encoding::UTF_8).scrub.delete_prefix("#{directory}/")})" : line
    end

    # @return [String] the line with its class; of an exit its status (`exit 7`), and what `abort` said
    def self.with_kind(exception, line)
      case exception
      when SystemExit then line == "exit" ? "exit #{exception.status}" : "exit #{exception.status}: #{line}"
      else exception.instance_of?(RuntimeError) || line == exception.class.name ? line : "#{exception.class}: #{line}"
      end
    end
    private_class_method :with_kind

    # @param application [Application]
    # @param planner [Planner]
    def initialize(application, planner)
      @application = application
      @planner = planner
      @exceptions = {}   # by number, in order of time
      @killed_by = {}    # by number: what rake's words for a command that was killed do not say
      @told = {}         # numbers that have been raised or printed
      @aborted = {}      # numbers of tasks that were aborted because of others
      @given = {}.compare_by_identity # exceptions that an invocation has raised
      @exit = nil
    end

    # A task failed.
    # @param killed_by [String, nil] what has killed the last command of its action
    def add(number, task, exception, killed_by = nil)
      return if @refused&.key?(number)

      @exit ||= exception if exception.is_a?(SystemExit)
      @killed_by[number] = killed_by
      @exceptions.delete(number)
      @exceptions[number] = exception
      RakeBridge.add_chain(exception, @planner.chain(number)) if task && !exception.is_a?(SystemExit)
    end

    # The hub has refused a task; what it says last counts, as more nodes may be there then. What the task's action ends
    # with after that, if it runs, tells less.
    def add_refusal(number, task, exception)
      (@refused ||= {}).delete(number)
      add(number, task, exception)
      @refused[number] = true
    end

    # The hub ends the action of a task because of others.
    def on_abort(number)
      @aborted[number] = true
    end

    # A task failed before its action could begin; its action is to raise this.
    def add_before_action(number, task, exception)
      add(number, task, exception)
      early[number] = exception
    end

    # @return [Exception, nil] what the action of the task raises at once
    def take_early(number)
      @early&.delete(number)
    end

    # An attempt failed, and the hub has decided what follows.
    def on_attempt(number, attempt, retried)
      return told_by_engine(number) unless retried

      exception = @exceptions.delete(number)
      return if @aborted.delete(number) # it runs again with its gang, of which another one failed

      name = @planner.tasks[number]&.name
      reason = exception ? ": #{reason(number, exception)}" : ""
      $stderr.puts "#{@application.name}: task #{name} failed (attempt #{attempt}), trying again#{reason}"
    end

    # With `--failure continue` the engine says at once which tasks have failed.
    def told_by_engine(number)
      @told[number] = true if @application.continues? && !aborted?(number)
    end

    # A task failed without an attempt.
    def tell_at_once(number)
      tell([number]) if @application.continues?
    end

    # @param failed [Array<Integer>]
    # @param abandoned [Array<Integer>] tasks that depend on those
    # @return [Exception, nil] what the invocation raises
    def of(failed, abandoned)
      return @exit if @exit
      return nil if failed.empty? && abandoned.empty?

      first, *others = in_order(failed)
      first ||= failed.first
      exception = @exceptions[first] || TaskFailed.new("task #{@planner.tasks[first || abandoned.first]&.name} failed")
      RakeBridge.add_chain(exception, @planner.chain(first || abandoned.first))
      mark(failed, abandoned, exception)
      tell(others)
      @told[first] = true
      @given[exception] = true
      exception
    end

    # @return [Boolean] whether an invocation has raised it because of a task
    def given?(exception)
      @given.key?(exception)
    end

    private

    def early
      @early ||= {}
    end

    def reason(number, exception)
      Failures.reason(exception, @killed_by[number])
    end

    # Those that were aborted because of others come last.
    def in_order(failed)
      known = @exceptions.keys & failed
      known.partition { |number| !aborted?(number) }.flatten
    end

    def aborted?(number)
      @aborted.key?(number) || @exceptions[number].is_a?(ActionAborted)
    end

    # As in rake, invoking such a task again raises the same.
    def mark(failed, abandoned, exception)
      failed.each { |number| @planner.tasks[number]&.rakuda_fail(@exceptions[number] || exception) }
      abandoned.each { |number| @planner.tasks[number]&.rakuda_fail(exception) }
    end

    def tell(numbers)
      numbers.each do |number|
        next if @told[number]

        @told[number] = true
        how = aborted?(number) ? "was aborted" : "failed: #{reason(number, @exceptions[number])}"
        name = @planner.tasks[number]&.name || @planner.chain(number).first&.name
        $stderr.puts "#{@application.name}: task #{name} #{how}"
      end
    end
  end
end
