# frozen_string_literal: true

# Stacks of Fibers as large as those of the main thread, so that recursion in an action goes as deep as with rake. Ruby
# reads the sizes from its environment when it boots, so whoever starts Ruby sets them there. Here they are
# taken out again: what the Rakefile and its commands see is the user's environment. It starts nothing.

module Rakuda
  # The variables that Ruby reads, and the one that says which of them are not the user's.
  module FiberStacks
    # Names of the variables that the starter has set itself, with colons between them.
    GIVEN = "RAKUDA_STACKS"
    # Ruby's own default for the main thread (RUBY_THREAD_VM_STACK_SIZE), and the usual soft limit of its machine stack
    # (`ulimit -s`). Both are address space: a page costs memory once it is touched.
    SIZES_BYTES = { "RUBY_FIBER_VM_STACK_SIZE" => 1 << 20, "RUBY_FIBER_MACHINE_STACK_SIZE" => 8 << 20 }.freeze

    # Removes what the starter has set; what the user had set himself stays.
    # @param environment [#delete] as ENV
    def self.take_back(environment = ENV)
      names = environment.delete(GIVEN).to_s.split(":")
      (names & SIZES_BYTES.keys).each { |name| environment.delete(name) }
    end
  end
end
