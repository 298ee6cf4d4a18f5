# frozen_string_literal: true

require "rakuda/bench/errors"
require "rakuda/bench/launch"

module Rakuda
  module Bench
    # Engines take turns in each round, and none has to bear what another one has left.
    module Turns
      module_function

      # It rotates, and every second round goes the other way round: so no engine always follows the same one.
      # @return [Array] the engines in the order of their turns
      def order(engines, round)
        rotated = engines.rotate(round % engines.size)
        round.odd? ? rotated.reverse : rotated
      end

      # @param begin_ns [Integer] when the first round began
      # @yieldreturn [Integer] bytes that a round writes
      # @return [String, nil] why there is no such round after those that were
      def no_more(round, options, begin_ns)
        return if round.zero?
        return "--timeout #{options.fetch(:timeout)} s has passed" unless Launch.left(options, begin_ns).positive?

        options.fetch(:workspace).make(yield)
        nil
      rescue UsageError => e
        e.message
      end

      # Waits until what was written on that file system before is on the disk: else the first engine writes it back,
      # too.
      # @raise [Failure]
      def settle(folder, limit)
        output, status = Launch.capture({}, "sync", "--file-system", folder, timeout: limit)
        raise Failure, "sync: #{Launch.reason(output)}" unless status.success?
      end
    end
  end
end
