# frozen_string_literal: true

require "rakuda/bench/errors"
require "rakuda/bench/launch"
require "rakuda/bench/programs"

module Rakuda
  module Bench
    # The page cache before a round: brought to the state that was asked for, and looked at (cachestat), not believed.
    module PageCache
      STATES = %w[any warm cold].freeze
      # Of the inputs, in a round that was to begin cold; what is missing in one that was to begin warm.
      SHARE_MAX = 0.01
      # Words of one command line.
      FILES_EACH = 500
      # How long these may take: what is read first is read whole.
      LIMIT_S = 3600

      module_function

      # @param state [String] one of STATES
      # @param files [Array<String>] that the round will read
      # @return [Float, nil] which part of them is in memory; nil without files, or where it
      #   is not known and any will do
      # @raise [Failure]
      def prepare(state, files)
        word = state == "any" ? "show" : state
        sums = files.each_slice(FILES_EACH).map do |some|
          output, status = Launch.capture({}, Programs.own("page-cache"), word, *some, timeout: LIMIT_S)
          # Where it is not known, and nothing was asked for, nothing is wrong.
          break if state == "any" && !status.success?
          raise Failure, output.strip unless status.success?

          output.split.map { |number| Integer(number) }
        end
        resident, total = sums.to_a.transpose.map(&:sum)
        total.to_i.positive? ? resident.to_f / total : nil
      end

      # @param rounds [Array<Hash>] as they stand in a result
      # @return [Array<String>] why they did not begin as asked
      def faults(state, rounds)
        rounds.filter_map do |round|
          share = round["resident"] or next
          next if in_state?(state, share)

          "round #{round["round"] + 1}: #{(share * 100).round(1)} % of its inputs were in the page cache, not #{state}"
        end
      end

      # @param share [Float] which part of files is in memory
      def in_state?(state, share)
        { "cold" => share <= SHARE_MAX, "warm" => share >= 1 - SHARE_MAX }.fetch(state, true)
      end
    end
  end
end
