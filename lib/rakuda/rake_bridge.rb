# frozen_string_literal: true

# The only file that touches rake's internals: instance variables, private methods, and the hooks in front of
# Rake::Task. It decides nothing; whoever it tells (the session of the application) does.

module Rakuda
  # What Rakuda needs to know and change in rake's objects.
  module RakeBridge
    # Names that rake's `lookup` treats in its own way ("^name", "rake:name").
    SPECIAL = /^(?:rake:|\^)/.freeze
    # The scope of a task outside all namespaces.
    TOP_SCOPE = Rake::Scope::EMPTY

    # Maximum number of rules that are looked at to say why none makes a file, and, as in rake, of rules behind each
    # other.
    SHORT_RULES_MAX = 30
    RULE_LEVELS_MAX = 16

    # A rule that applies to a name, but cannot make it.
    # @!attribute place [String, nil] `FILE:LINE`
    # @!attribute name [String] of what it would make
    # @!attribute missing [Array<String>] sources that are not there, and that nothing makes
    # @!attribute hopeless [Array<String>] those among them to which no rule applies either
    ShortRule = Struct.new(:place, :name, :missing, :hopeless)

    # In front of Rake::Task.
    module TaskHooks
      # Number of the task in the plan; nil: not planned; negative: on the stack of that walk.
      attr_accessor :rakuda_number
      # Whether its action has been started.
      attr_accessor :rakuda_started
      # What the task needs (Needed).
      attr_accessor :rakuda_properties
      # Whether the object has methods of its own.
      attr_reader :rakuda_singular

      def invoke(*arguments)
        application = self.application
        return super unless application.is_a?(Application)

        values = arguments.empty? ? nil : Rake::TaskArguments.new(arg_names, arguments)
        application.session.invoke(self, values, nil) { super(*arguments) }
      end

      def invoke_with_call_chain(task_args, invocation_chain)
        application = self.application
        return super unless application.is_a?(Application)
        return super if application.session.opaque_task.equal?(self)

        application.session.invoke(self, task_args, invocation_chain) { super(task_args, invocation_chain) }
      end
      protected :invoke_with_call_chain

      def enhance(deps = nil, &block)
        result = super
        application = self.application
        if block && application.is_a?(Application) && (action = application.running_action)
          (@rakuda_given ||= GivenActions.new).add(@actions, action)
        end
        application.session.on_enhanced(self, deps) if @rakuda_number
        result
      end

      def reenable
        @rakuda_number = nil
        @rakuda_started = nil
        super
      end

      def extend(*modules)
        @rakuda_singular = true
        super
      end

      # The task is walked: from now on rake takes it as invoked.
      def rakuda_enter(mark)
        @already_invoked = true
        @rakuda_number = mark
      end

      # As if the task had never been walked.
      def rakuda_forget
        @already_invoked = false
        @rakuda_number = nil
        @rakuda_started = nil
      end

      def rakuda_exception
        @invocation_exception
      end

      def rakuda_fail(exception)
        @already_invoked = true
        @invocation_exception = exception
      end

      # Rake's own way to invoke the task, as its class has changed it.
      def rakuda_invoke_itself(task_args, invocation_chain)
        @already_invoked = false
        invoke_with_call_chain(task_args, invocation_chain)
      end

      # Rake's lookup of a prerequisite, raising as rake does.
      def rakuda_lookup!(name)
        lookup_prerequisite(name)
      end

      private

      def singleton_method_added(name)
        @rakuda_singular = true
        super
      end
    end

    Rake::Task.prepend(TaskHooks)

    class << self
      # @return [Hash{String => Rake::Task}] the application's table
      def task_table(application)
        application.instance_variable_get(:@tasks)
      end

      # @return [Boolean] whether a rule may give an action to a task of this name
      def rule_matches?(application, name)
        application.instance_variable_get(:@rules).any? { |pattern,| pattern&.match?(name) }
      end

      # Why no rule makes what is called so: those that apply to the name, each with the sources that it lacks, and then
      # those that apply to these sources.
      # @return [Array<ShortRule>] at most SHORT_RULES_MAX
      def short_rules(application, name)
        traced, application.options.trace_rules = application.options.trace_rules, nil # rake has told its own attempts
        [].tap { |found| add_short_rules(found, application, name, 0) }
      ensure
        application.options.trace_rules = traced
      end

      # Rake's `lookup_prerequisite`, with nil in place of an exception (whose text is dear to make).
      # @return [Rake::Task, nil]
      def find_prerequisite(task, name)
        application = task.application
        found = find(application, name, task.scope)
        found = find(application, name, nil) || found if found.equal?(task)
        found
      end

      # What the command line names, with nil in place of an exception.
      # @return [Rake::Task, nil]
      def find_top(application, name)
        find(application, name, nil)
      end

      # @return [InvocationChain] a chain of tasks, the outermost first, on top of another
      def chain(tasks, base)
        tasks.reduce(base || Chain.start) { |chain, task| Chain.cons(task, chain) }
      end

      # What rake's `add_chain_to` does.
      def add_chain(exception, chain)
        exception.extend(Rake::InvocationExceptionMixin) unless exception.respond_to?(:chain)
        exception.chain = chain if exception.chain.nil?
      rescue FrozenError
        nil
      end

      private

      # Adds them, as they stand behind one another; `level` rules stand before these.
      def add_short_rules(found, application, name, level)
        return if level >= RULE_LEVELS_MAX

        application.instance_variable_get(:@rules).each do |rule|
          break if found.size >= SHORT_RULES_MAX
          next unless rule[0]&.match?(name)

          missing = missing_sources(application, name, rule)
          found << (short = ShortRule.new(application.rule_place(rule), name, missing, []))
          missing.each do |source|
            before = found.size
            add_short_rules(found, application, source, level + 1)
            short.hopeless << source if found.size == before
          end
        end
      end

      def missing_sources(application, name, rule)
        application.send(:make_sources, name, rule[0], rule[2]).map(&:to_s).reject do |source|
          File.exist?(source) || Rake::Task.task_defined?(source) || application.enhance_with_matching_rule(source)
        end
      end

      def find(application, name, scope)
        name = name.to_s
        application.lookup(name, scope) || application.enhance_with_matching_rule(name) ||
          application.synthesize_file_task(name)
      end
    end

    # Rake's chain, whose text is made without recursion: a chain may have 10^5 tasks.
    class Chain < Rake::InvocationChain
      def self.start
        Rake::InvocationChain::EMPTY
      end

      def self.cons(head, tail)
        new(head, tail)
      end

      def member?(invocation)
        any? { |task| task == invocation }
      end

      def to_s
        to_a.reverse.unshift("TOP").join(" => ")
      end
    end
  end
end
