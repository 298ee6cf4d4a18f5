# frozen_string_literal: true

require_relative "testbed"

# Waits in tests for what comes by itself. It knows nothing of what that is.
module Waiting
  # Only turns a hang into a failure.
  # @param what [String] for the failure
  # @param printed [Proc] what else the failure should tell
  # @yieldreturn [Boolean] it has come
  def wait_for(what, printed = nil)
    limit = Process.clock_gettime(Process::CLOCK_MONOTONIC) + Testbed::LIMIT.to_i
    until yield
      late = Process.clock_gettime(Process::CLOCK_MONOTONIC) > limit
      flunk ["waited in vain for #{what}", printed&.call].compact.join("; printed: ") if late
      sleep 0.05
    end
  end
end
