# frozen_string_literal: true

# Sizes that Ruby reads from its environment when it boots, so that whoever starts Ruby sets them there. Here they are
# taken out again: what the Rakefile and its commands see is the user's environment. It starts nothing.

module Rakuda
  # The variables that Ruby reads, and the one that says which of them are not the user's.
  module BootSizes
    # Names of the variables that the starter has set itself, with colons between them.
    GIVEN = "RAKUDA_SIZES"
    # Stacks of Fibers as large as those of the main thread, so that recursion in an action goes as deep as with rake;
    # and a heap that holds what is loaded without a collection.
    NAMES = %w[RUBY_FIBER_VM_STACK_SIZE RUBY_FIBER_MACHINE_STACK_SIZE RUBY_GC_HEAP_INIT_SLOTS].freeze

    # Removes what the starter has set; what the user had set himself stays.
    # @param environment [#delete] as ENV
    def self.take_back(environment = ENV)
      names = environment.delete(GIVEN).to_s.split(":")
      (names & NAMES).each { |name| environment.delete(name) }
    end
  end
end
