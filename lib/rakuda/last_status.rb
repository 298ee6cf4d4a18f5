# frozen_string_literal: true

# Sets `$?` of the running thread, for commands that the hub has run. It knows nothing of commands.

require "fiddle"

module Rakuda
  # The status of the last command, as Ruby shows it in `$?`.
  module LastStatus
    # The function makes a Ruby object, so the call must keep Ruby's lock, which Fiddle gives up unless told otherwise.
    # Without the lock, a thread that makes an object at the same moment may get the same memory.
    SET = Fiddle::Function.new(Fiddle::Handle::DEFAULT["rb_last_status_set"],
                               [Fiddle::TYPE_INT, Fiddle::TYPE_INT], Fiddle::TYPE_VOID, need_gvl: true)
    private_constant :SET

    # @param status [Integer] as wait(2) gives it
    # @param pid [Integer]
    # @example
    #   LastStatus.set(3 << 8, 4711)
    #   $?.exitstatus # => 3
    def self.set(status, pid)
      SET.call(status, pid)
    end

    # Makes `$?` a status seen before.
    # @param status [Process::Status, nil] nil: nothing is changed
    def self.restore(status)
      set(status.to_i, status.pid) if status
    end
  end
end
