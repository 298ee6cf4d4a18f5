# frozen_string_literal: true

# Starts the commands of actions through the hub and waits for them. It knows the messages about commands and how Ruby
# reports a status, and nothing of tasks but their numbers.

require "rakuda/command_options"
require "rakuda/last_status"

module Rakuda
  # Commands of the running activities.
  class Shell
    # Reasons for which a program is not executed: 0 stands for one that is not found.
    NOT_EXECUTABLE = [0, Errno::ENOENT, Errno::EACCES, Errno::ENOTDIR, Errno::ENOEXEC, Errno::EISDIR, Errno::ELOOP]
                     .map { |error| error.is_a?(Class) ? error::Errno : error }.freeze

    # @param status [Integer] as wait(2) gives it
    # @return [String, nil] the signal that has ended a command, as the hub says it
    def self.signal_in(status)
      signal = status & 0x7f
      return if signal.zero?

      name = Signal.signame(signal)
      name ? "signal #{signal} (SIG#{name})" : "signal #{signal}"
    end

    # @param start_directory [String] where the hub starts a command that names no directory
    def initialize(link, reactor, environment, directory, start_directory)
      @link = link
      @reactor = reactor
      @environment = environment
      @directory = directory
      @start_directory = start_directory
      @umask = nil               # of the Ruby process, since it was changed
      @reopened = false
      @next = 0
      @waiting = {}              # number of a command => the Fiber that waits for it
    end

    # @return [Boolean] whether the caller is an activity of this process's loop, whose commands the hub starts
    def here?
      @reactor.inside? && !@reopened && !InheritedState.changed && !@directory.gone?(@reactor.current)
    end

    # Whether Ruby's own stdout or stderr is another file since the engine was started: the engine does not have it, so
    # that Ruby itself starts all commands from then on.
    # @return [Boolean]
    attr_accessor :reopened

    # The umask of commands from now on.
    attr_writer :umask

    attr_writer :start_directory

    # The $stderr to which the hub may write in the front's place.
    attr_writer :stderr

    # What rake does with the text of a command before it runs: the hub shows it when the command starts, unless
    # the Rakefile has put something else in the place of $stderr.
    # @return [String, nil] what the hub is to show
    def echo(text)
      return text if $stderr.equal?(@stderr) && !@reactor.current.partial_lines&.any? { |_, line| !line.empty? }

      Rake.rake_output_message(text)
      nil
    end

    # Runs a command line and waits. Sets `$?`.
    # @param line [String]
    # @param echo [String, nil] shown on stderr when it starts
    # @return [Boolean, nil] as `system`: true when the status is zero, nil when it could not be started
    def run_line(line, echo)
      $stdout.flush
      activity = @reactor.current
      in_turn(activity) { start_line(activity, line, echo) }
    end

    # Runs a command of another thread in the loop, as one of the activity that the thread belongs to. Sets `$?` of the
    # thread.
    # @param activity [Action]
    # @yield in the loop
    # @yieldreturn [Object]
    # @return [Object] what the block has returned; nil when the loop can start no command for the activity any more
    def for_thread(activity)
      answer = Thread::Queue.new
      @reactor.hand_over_for(activity) do
        result = yield if here? && activity.number_while_running
        answer << [result, Process.last_status, nil]
      rescue Exception => e # rubocop:disable Lint/RescueException -- belongs to the thread
        answer << [nil, nil, e]
      end
      result, status, exception = answer.pop
      raise exception if exception

      LastStatus.restore(status)
      result
    end

    # A command that Ruby itself would start is not inside the environment of its task, and nothing holds it to the
    # task's memory: that is an error, not a surprise.
    # @raise [ConfigurationError]
    def refuse_local
      return unless @reactor.inside?

      activity = @reactor.current
      what = "needs env: this command cannot be run inside" if activity.task_environment
      what ||= "--enforce memory: this command cannot be held to its task's memory" if activity.bounded?
      return unless what

      raise ConfigurationError, "#{what}: the Rakefile has changed what only Ruby itself can give to its commands (signals " \
                                "that it ignores, its user, limits, standard output, or a block of `system`)"
    end

    # Runs what `system` would run.
    # @param words [Array] without the environment and the options
    # @param changes [Hash, nil] environment
    # @param options [Hash] of `system`
    # @param echo [String, nil] shown on stderr when it starts
    # @return [Boolean, nil, :local] :local when only a local process can do it; nothing was started then
    def run(words, changes, options, echo)
      fields = options.empty? ? {} : CommandOptions.translate(options)
      words = fields && translatable?(words, changes) ? name_program(words, fields) : nil
      unless words
        refuse_local
        return :local
      end
      $stdout.flush
      activity = @reactor.current
      in_turn(activity) { start_words(activity, words, changes, fields, echo) }
    end

    # The message CommandEnded has come.
    def on_command_ended(command, status, pid, _stdout, error, _usage)
      fiber = @waiting.delete(command)
      @reactor.resume(fiber, [status, pid, error]) if fiber
    end

    private

    # What commands of a task print goes into its stream one after the other, whatever threads they come from.
    def in_turn(activity)
      activity.commanded = true
      turns = activity.turns or return yield
      own = Fiber.current
      turns << own
      begin
        @reactor.park unless turns.first.equal?(own)
        yield
      ensure
        first = turns.first.equal?(own)
        turns.delete(own)
        @reactor.resume_later(turns.first) if first && !turns.empty?
      end
    end

    def start_line(activity, line, echo)
      raise activity.lost if activity.lost

      command = @next
      @next += 1
      inside = activity.task_environment
      if inside
        options = (base_options(activity) || {}).merge(inside.options(*given_to(activity)))
        @link.send_message("StartCommand", command, activity.number, line.b, options, echo&.b)
      else
        @link.send_command_line(command, activity.number, line, base_options(activity), echo)
      end
      wait(command)
    end

    def start_words(activity, words, changes, fields, echo)
      raise activity.lost if activity.lost

      fields = (base_options(activity) || {}).merge(fields)
      if fields.delete(:alone)
        fields["environment"] = @environment.only(changes || {})
      elsif changes
        fields["environment"] = @environment.with((activity.device_variables || {}).merge(changes))
      end
      inside = activity.task_environment
      fields.merge!(inside.options(*given_to(activity))) if inside
      command = @next
      @next += 1
      @link.send_message("StartCommand", command, activity.number, words, fields.empty? ? nil : fields, echo&.b)
      wait(command, fields["redirects"])
    end

    # @return [Array(Array<String>, Float)] for containers, which do not have all of ENV: names of variables; and how
    #   long they have to end
    def given_to(activity)
      application = activity.task.application
      [Configuration.words(application.configuration["PASS_ENV"]), application.grace]
    end

    # The command runs in the activity's directory and with ENV as it is now.
    def base_options(activity)
      directory = @directory.of(activity)
      variables = activity.device_variables
      environment = variables ? @environment.with(variables) : @environment.current
      gate = activity.pass&.take
      return nil if environment.zero? && @umask.nil? && directory == @start_directory && gate.nil?

      options = {}
      options["gate"] = gate if gate
      options["directory"] = directory.b unless directory == @start_directory
      options["umask"] = @umask if @umask
      options["environment"] = environment unless environment.zero?
      options
    end

    # Whether Ruby has no complaint about the words and the environment; its own `system` makes it.
    def translatable?(words, changes)
      return false if words.flatten.any? { |word| word.is_a?(String) && word.include?("\0") }

      changes.nil? || changes.all? do |name, value|
        name.is_a?(String) && !name.match?(/[=\0]/n) && (value.nil? || (value.is_a?(String) && !value.include?("\0")))
      end
    end

    # @return [String, Array<String>, nil] the command line, or the words; nil when they are neither
    def name_program(words, fields)
      program, *rest = words
      if program.is_a?(Array)
        return nil unless program.size == 2

        program, name = program
        fields["argv0"] = name.to_str.b
      elsif rest.empty?
        return program.to_str.b
      end
      [program, *rest].map { |word| word.to_str.b }
    rescue NoMethodError
      nil # not a string: Ruby's own `system` has the right complaint
    end

    # @param redirects [Array, nil] of the command
    def wait(command, redirects = nil)
      @waiting[command] = Fiber.current
      activity = @reactor.current
      activity.began_ns = nil
      status, pid, error = @reactor.park
      LastStatus.set(status, pid)
      activity.leased = false # the core went with the command
      activity.killed_by = nil
      (status.zero? && error.nil?) || judge(activity, status, error, redirects)
    rescue Exception # rubocop:disable Lint/RescueException -- the command must not outlive the wait, whatever ends it
      @link.send_message("SignalCommand", command, 15) if @waiting.delete(command)
      raise
    end

    # @return [Boolean, nil] what `system` says of a command that has failed, or of which the hub has more to say
    def judge(activity, status, error, redirects)
      error = error&.dup&.force_encoding(Encoding::UTF_8)&.scrub
      bound = error if error&.start_with?(Protocol::BOUND_EXCEEDED)
      fault = error&.start_with?(Protocol::STREAMS_FAILED)
      activity.killed_by = bound || (Shell.signal_in(status) unless fault)
      return true if status.zero?
      # As the command's own failure, of which rake says no class.
      raise error.delete_prefix(Protocol::STREAMS_FAILED) if fault
      return false if bound || !error # for Ruby it ran

      explain(error, redirects)
      nil
    end

    # As Ruby, a file that cannot be opened for a command raises, and a program that cannot be executed is a status.
    # What else keeps a command from starting has no words in Ruby.
    def explain(error, redirects)
      number = error[/\(os error (\d+)\)/, 1].to_i
      descriptor = error[/for the command's descriptor (\d+): /, 1]
      if descriptor
        _, target = redirects&.reverse&.find { |stream, to| stream == descriptor.to_i && Protocol::Redirect.path(to) }
        raise SystemCallError.new(target && Protocol::Redirect.path(target).dup.force_encoding(Encoding::UTF_8), number)
      end
      $stderr.puts "#{Rake.application.name}: #{error}" unless NOT_EXECUTABLE.include?(number)
    end

    # In front of File.umask: commands have the one that Ruby has.
    module Umask
      def umask(*mask)
        return super if mask.empty?

        before = super
        Hooks.shell.umask = super()
        before
      end
    end

    # In front of the `reopen` of STDOUT and STDERR.
    module Reopen
      def reopen(...)
        Hooks.shell.reopened = true
        super
      end
    end

    # In front of rake's FileUtils#sh: the same, with a command of the hub in place of `system`.
    module Hooks
      class << self
        # @return [Shell, nil] of the session that runs
        attr_accessor :shell

        # @return [Session, nil] that runs
        attr_accessor :session
      end

      def sh(*cmd, &block)
        shell = Hooks.shell
        unless shell&.here?
          owner = Hooks.session&.owner_of_thread
          return sh_through_hub(shell, cmd, owner, &block) if owner

          shell&.refuse_local
          return super
        end

        line = cmd[0]
        if block || cmd.size != 1 || !line.instance_of?(String) || Rake::FileUtilsExt.nowrite_flag || line.include?("\0")
          return sh_through_hub(shell, cmd, nil, &block)
        end

        echo = shell.echo(line) if Rake::FileUtilsExt.verbose_flag
        return true if shell.run_line(line, echo)

        create_shell_runner(cmd).call(false, $?) # rubocop:disable Style/SpecialGlobalVars
      end

      private

      # Rake's `sh`, step by step.
      def sh_through_hub(shell, cmd, owner, &block)
        options = cmd.last.is_a?(Hash) ? cmd.pop : {}
        shell_runner = block || create_shell_runner(cmd)
        set_verbose_option(options)
        verbose = options.delete(:verbose)
        noop = options.delete(:noop) || Rake::FileUtilsExt.nowrite_flag
        message = sh_show_command(cmd) if verbose
        if noop
          Rake.rake_output_message(message) if message
          return
        end

        changes = cmd.first.is_a?(Hash) ? cmd.first : nil
        result = run_through_hub(shell, cmd, changes, options, message, owner)
        status = $? # rubocop:disable Style/SpecialGlobalVars
        status = Rake::PseudoStatus.new(1) if !result && status.nil?
        shell_runner.call(result, status)
      end

      def run_through_hub(shell, cmd, changes, options, message, owner)
        run = lambda do
          echo = shell.echo(message) if message
          [shell.run(changes ? cmd.drop(1) : cmd, changes, options, echo), echo]
        end
        result, echo = owner ? shell.for_thread(owner, &run) || [:local, message] : run.call
        return result unless result == :local

        Rake.rake_output_message(echo) if echo
        cmd.last.is_a?(Hash) ? system(*cmd) : system(*cmd, options)
      end
    end
  end
end
