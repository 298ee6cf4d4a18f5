# frozen_string_literal: true

# Tasks that begin together or not at all: who is in which gang. It is no word of the Rakefile; what defines rounds,
# streams or ranks uses it. It knows no numbers of tasks and sends nothing: the planner does.

module Rakuda
  # One gang.
  # @!attribute tasks [Array<Rake::Task>] in the order in which slots are given to equal ones
  # @!attribute oversubscribe [Boolean] whether more of them than there are slots run all the same
  # @!attribute check [Proc, nil] raises when it can never run; called when a task of it is planned
  # @!attribute refusal [Proc, nil] the exception for what the engine says when it finds that out
  Gang = Struct.new(:tasks, :oversubscribe, :check, :refusal)

  # All gangs of an application.
  class Gangs
    def initialize
      @of = {}.compare_by_identity # task => gang
    end

    # Tasks that are to begin together, and are one retry unit: when one fails, or loses its node, the others are ended,
    # and all run again when retries are left. A gang runs when any of its tasks is needed. It is defined before any of
    # them is invoked.
    # @example
    #   application.gangs.define([server, client])
    # @param tasks [Array<Rake::Task>]
    # @param oversubscribe [Boolean]
    # @param check [Proc, nil]
    # @param refusal [Proc, nil]
    # @return [Gang]
    # @raise [ConfigurationError] that names the task
    def define(tasks, oversubscribe: false, check: nil, refusal: nil)
      raise ConfigurationError, "a gang has at least one task" if tasks.empty?

      tasks.each { |task| refuse(task) }
      twice = tasks.find { |task| tasks.count { |other| other.equal?(task) } > 1 }
      raise ConfigurationError, "task #{twice.name} is twice in one gang" if twice

      Gang.new(tasks.dup.freeze, oversubscribe, check, refusal).tap { |gang| tasks.each { |task| @of[task] = gang } }
    end

    # @return [Gang, nil] the gang of a task
    def of(task)
      @of[task] unless @of.empty?
    end

    private

    def refuse(task)
      raise ConfigurationError, "task #{task.name} is in two gangs" if @of.key?(task)
      return if task.rakuda_number.nil? && !task.already_invoked

      raise ConfigurationError, "task #{task.name} was invoked before it was put into a gang"
    end
  end
end
