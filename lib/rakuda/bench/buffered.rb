# frozen_string_literal: true

require "rakuda/bench/figures"

module Rakuda
  module Bench
    # What must be known of engines' times: nothing that tasks write is flushed. Pure.
    module Buffered
      module_function

      # @param bytes [Integer, nil] that tasks write in a round, where it is known
      # @param machine [Hash] as it stands in a result
      # @return [Array<String>] notes of a result
      def notes(bytes, machine)
        return [] if bytes&.zero?

        limit = limit(machine)
        facts = [bytes && "#{Figures.bytes(bytes)} a round", limit && "up to #{Figures.bytes(limit)} may wait in memory"].compact
        ["buffered: what tasks write is not flushed, and may be in memory alone when a round ends" \
         "#{" (#{facts.join("; ")})" unless facts.empty?}"]
      end

      # @return [Integer, nil] dirty bytes from which on who writes waits
      def limit(machine)
        ratio, memory = machine.dig("vm", "dirty_ratio"), machine["mem_bytes"]
        ratio && memory && ratio.positive? ? memory * ratio / 100 : nil
      end
    end
  end
end
