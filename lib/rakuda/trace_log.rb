# frozen_string_literal: true

# Prints "** Invoke" lines (-t) at the place where rake would: the walk is logged while planning, and the log is printed
# up to a task when that task runs or is settled. It knows the order of the walk and nothing of the hub.

module Rakuda
  # The log of all walks: a linked list, since a later walk may belong before what is logged already.
  class TraceLog
    # @!attribute task [Rake::Task, nil] nil: the place where a task got its number
    # @!attribute first [Boolean] whether rake would say first_time
    Entry = Struct.new(:task, :first, :printed, :following)

    # @param application [Rake::Application]
    def initialize(application)
      @application = application
      @printed = @last = Entry.new(nil, false, true, nil)
      @defined = []   # by number: the place where it got it
      @begun = {}.compare_by_identity
      @entered = []   # by number: the place where it was entered
      @executed = {}  # numbers whose "** Execute" rake's own code has printed
    end

    # The walk meets a task for the first time.
    def enter(task)
      @begun[task] = add(task, true)
    end

    # The walk meets a task again.
    def again(task)
      add(task, false)
    end

    # The walk leaves a task with its number.
    def defined(number, task)
      @entered[number] = @begun[task] if task
      @defined[number] = add(nil, false)
    end

    # What is logged next belongs inside a task: to its prerequisites when it is looked up again.
    def insert_at(number)
      @last = @entered[number] || @defined[number]
    end

    # What is logged next was invoked by the action of a task; nil: by the top level.
    def insert_after(number)
      return @last = @defined[number] if number

      @last = @last.following while @last.following
    end

    # The action of a task is about to run, and prints its own "** Execute".
    def run(number)
      print_to(number)
      @executed[number] = true
    end

    # A task is settled.
    # @param how [String] of the message TaskSettled
    def settled(number, task, how)
      print_to(number)
      return if task.nil? || how != "executed" || @executed.delete(number)

      @application.trace("** Execute #{task.name}")
    end

    # Prints all that is left: rake would have come so far.
    def print_all
      print_next while @printed.following
    end

    private

    def add(task, first)
      entry = Entry.new(task, first, false, @last.following)
      @last = @last.following = entry
    end

    def print_to(number)
      place = @defined[number]
      print_next until place.nil? || place.printed || @printed.following.nil?
    end

    def print_next
      entry = @printed = @printed.following
      entry.printed = true
      return unless entry.task

      flags = []
      flags << "first_time" if entry.first
      flags << "not_needed" unless entry.task.needed?
      @application.trace("** Invoke #{entry.task.name} #{"(#{flags.join(', ')})" unless flags.empty?}")
    end
  end
end
