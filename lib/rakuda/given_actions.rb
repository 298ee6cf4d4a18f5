# frozen_string_literal: true

module Rakuda
  # The actions that a task was given by code of another task's action. When that action runs once more (it failed, or
  # was lost with its node) its code gives them once more, and they take the places of the former ones: rake would
  # append them, and run both. It does not know why an action runs once more.
  class GivenActions
    # Who gave it (a task), in which attempt, and what.
    Given = Struct.new(:giver, :attempt, :block)

    def initialize
      @given = []
    end

    # A block was appended to a task's actions.
    # @param actions [Array<Proc>] of the task
    # @param action [Action] whose code did it
    # @return [void]
    def add(actions, action)
      block = actions.last
      former = @given.find do |given|
        given.giver.equal?(action.task) && given.attempt != action.attempt && given.block.source_location == block.source_location
      end
      return @given << Given.new(action.task, action.attempt, block) unless former

      replace(actions, former.block, block)
      former.attempt = action.attempt
      former.block = block
    end

    private

    def replace(actions, former, block)
      place = actions.index { |action| action.equal?(former) } or return

      actions.pop
      actions[place] = block
    end
  end
end
