# frozen_string_literal: true

# Prints "** Invoke" lines (-t) at the place where rake would: the walk is logged while planning, and the log is printed
# up to a task when that task runs or is settled. It knows the order of the walk and nothing of the hub.

module Rakuda
  # The log of all walks: a linked list, since a later walk may belong before what is logged already.
  class TraceLog
    # @!attribute task [Rake::Task, String, nil] nil: the place where a task got its number; a text is a line of --rules
    # @!attribute walk [Integer] which walk logged it
    Entry = Struct.new(:task, :walk, :printed, :before, :after)

    # @param application [Rake::Application]
    # @param needs [StaticNeeds, nil] of a dry run
    def initialize(application, needs = nil)
      @application = application
      @needs = needs
      @printed = @last = Entry.new(nil, 0, true, nil, nil)
      @walk = 0
      @defined = []                          # by number: the place where it got it
      @entered = []                          # by number: the place where it was entered
      @begun = {}.compare_by_identity        # task => place of its last entering
      @numbers = {}.compare_by_identity      # task => place of its last number
      @seen = {}.compare_by_identity         # tasks of which a line is printed
      @executed = {}                         # numbers whose "** Execute" rake's own code prints
      @nested = false
      @rules = false                         # whether lines of --rules have been logged
    end

    # The walk meets a task for the first time.
    def enter(task)
      @seen.delete(task)
      @begun[task] = add(task)
    end

    # The walk has tried a rule.
    def note(text)
      @rules = true
      add(text)
    end

    # The walk meets a task again. An action that invokes a task before its turn comes brings all of it forward.
    def again(task)
      first = @begun[task]
      return add(task) unless @nested && first && !first.printed && first.walk != @walk && @numbers[task]

      bring_forward(first, @numbers[task], task)
    end

    # The walk leaves a task with its number.
    def defined(number, task)
      @entered[number] = @begun[task] if task
      @defined[number] = add(nil)
      @numbers[task] = @defined[number] if task
    end

    # What is logged next belongs inside a task: to its prerequisites when it is looked up again.
    def insert_at(number)
      @walk += 1
      @nested = false
      @last = @entered[number] || @defined[number]
    end

    # What is logged next was invoked by the action of a task; nil: by the top level.
    def insert_after(number)
      @walk += 1
      @nested = !number.nil?
      return @last = @printed if number

      @last = @last.after while @last.after
    end

    # The action of a task is about to run, and prints its own "** Execute".
    def run(number)
      print_to(number)
      @executed[number] = true
    end

    # A task is settled.
    # @param how [String] of the message TaskSettled
    def settled(number, task, how)
      return if how == Protocol::SettledHow::ABANDONED # rake would not have come so far

      print_to(number)
      return if task.nil? || how != Protocol::SettledHow::EXECUTED || @executed.delete(number)

      @application.trace("** Execute #{"(dry run) " if @needs}#{task.name}")
    end

    # Prints the walk that has just been logged: nothing of it is left to run.
    def print_walk
      print_next until @printed.equal?(@last) || @printed.after.nil?
    end

    # Prints all that is left: rake would have come so far.
    def print_all
      print_next while @printed.after
    end

    private

    def add(task)
      @last = insert(@last, Entry.new(task, @walk, false, nil, nil))
    end

    def insert(place, entry)
      entry.before = place
      entry.after = place.after
      place.after.before = entry if place.after
      place.after = entry
    end

    # Moves the lines from one place to another here, and leaves a line for the task where they were.
    def bring_forward(from, to, task)
      insert(from.before, Entry.new(task, @walk, false, nil, nil))
      from.before.after = to.after
      to.after.before = from.before if to.after
      from.before = @last
      to.after = @last.after
      @last.after.before = to if @last.after
      @last.after = from
      @last = to
    end

    def print_to(number)
      place = @defined[number]
      print_next until place.nil? || place.printed || @printed.after.nil?
    end

    # Whether an existing file is needed depends on all that it needs, which rake looks up before it prints the line.
    def print_rules_below(entry)
      last = @numbers[entry.task]
      while (entry = entry.after) && !entry.equal?(last)
        next unless entry.task.is_a?(String)

        @application.trace(entry.task)
        entry.task = nil
      end
    end

    def print_next
      entry = @printed = @printed.after
      entry.printed = true
      return unless entry.task
      return @application.trace(entry.task) if entry.task.is_a?(String)

      print_rules_below(entry) if @rules && entry.task.is_a?(Rake::FileTask) && File.exist?(entry.task.name)
      flags = []
      flags << "first_time" unless @seen.key?(entry.task)
      @seen[entry.task] = true
      flags << "not_needed" unless @needs ? @needs.of(entry.task) : entry.task.needed?
      @application.trace("** Invoke #{entry.task.name} #{"(#{flags.join(', ')})" unless flags.empty?}")
    end
  end
end
