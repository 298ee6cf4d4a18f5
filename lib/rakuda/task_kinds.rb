# frozen_string_literal: true

# Tells from a task's class (or its own methods) what the hub may decide itself. It calls none of them.

module Rakuda
  # How a task is planned.
  class TaskKinds
    # What is known of a class.
    # @!attribute kind [Integer] one of Protocol::TaskKind
    # @!attribute opaque [Boolean] it invokes its prerequisites in a way of its own
    # @!attribute reversed [Boolean] rake -j1 takes its prerequisites from the last to the first
    # @!attribute acts [Boolean] its `execute` does something without actions
    Traits = Struct.new(:kind, :opaque, :reversed, :acts)

    OPAQUE_METHODS = %i[invoke_with_call_chain invoke_prerequisites invoke_prerequisites_concurrently
                        prerequisite_tasks lookup_prerequisite prerequisites order_only_prerequisites].freeze
    OWN = [Rake::Task, RakeBridge::TaskHooks].freeze

    # @param application [Application]
    def initialize(application)
      @application = application
      @classes = {}.compare_by_identity
    end

    # @param task [Rake::Task]
    # @return [Traits]
    def of(task)
      return traits(task.singleton_class) if task.rakuda_singular

      @classes[task.class] ||= traits(task.class)
    end

    private

    def traits(klass)
      multitask = klass <= Rake::MultiTask && owner(klass, :invoke_prerequisites) == Rake::MultiTask
      methods = multitask ? OPAQUE_METHODS - [:invoke_prerequisites] : OPAQUE_METHODS
      opaque = methods.any? { |name| !OWN.include?(owner(klass, name)) }
      reversed = @application.serial? && (multitask || @application.options.always_multitask)
      Traits.new(kind(klass), opaque, reversed, !OWN.include?(owner(klass, :execute)))
    end

    def kind(klass)
      owners = [owner(klass, :needed?), owner(klass, :timestamp)]
      case owners
      when [Rake::Task, Rake::Task] then Protocol::TaskKind::PLAIN
      when [Rake::FileTask, Rake::FileTask] then Protocol::TaskKind::FILE
      when [Rake::FileCreationTask, Rake::FileCreationTask] then Protocol::TaskKind::DIRECTORY
      else Protocol::TaskKind::ASKED
      end
    end

    def owner(klass, name)
      klass.instance_method(name).owner
    end
  end
end
