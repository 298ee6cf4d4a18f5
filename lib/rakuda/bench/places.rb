# frozen_string_literal: true

require "rakuda/bench/errors"
require "rakuda/bench/instance"
require "rakuda/bench/run_record"

module Rakuda
  module Bench
    # The nodes that the rounds of a comparison over hosts have had, by the records of these rounds: what a result says
    # of them.
    class Places
      # @return [Array<RunRecord::Node>] of all rounds so far, by name
      attr_reader :nodes

      # @param hosts [Hosts] that were asked for
      def initialize(hosts)
        @hosts = hosts
        @nodes = []
      end

      # What the record of a round says. A node that comes after the end of a round is none of that.
      # @param folder [String] in which it ran
      # @return [RunRecord]
      # @raise [Failure]
      def record(folder)
        record = RunRecord.of(folder) or raise Failure, "it has no record with nodes"
        raise Failure, "#{record.lost.join(", ")} was lost" unless record.lost.empty?

        changed = record.nodes.find { |node| nodes.any? { |one| one.name == node.name && one.slots != node.slots } }
        raise Failure, "#{changed.name} had #{changed.slots} slots, and other numbers before" if changed

        @nodes = (nodes | record.nodes).sort_by(&:name)
        record
      end

      # @return [Integer, nil] of all together; nil when no round was run to its end
      def slots = nodes.empty? ? nil : nodes.sum(&:slots)

      # @param some [Array<RunRecord::Node>]
      # @return [Array<Integer>] where each stands among the hosts of the result
      def numbers(some) = some.map { |node| nodes.index(node) }

      # @return [Hash] fields of a result, as those of kernels have them
      def described
        return {} if nodes.empty?

        { "hosts" => nodes.map do |node|
          { "hostname_hash" => Instance.fnv_digest(node.name), "slots" => node.slots }
        end }
      end

      # Rounds so short that hosts came after their end, whose slots count all the same.
      # @param came [Array<Array(Integer, Integer)>] number of each round that was run to its end, and of the nodes that
      #   it had
      # @return [Array<String>]
      def too_late(came)
        came.select { |_, nodes| nodes < @hosts.count }
            .map { |round, nodes| "round #{round + 1}: #{nodes} of #{@hosts.count} hosts were there before its end" }
      end
    end
  end
end
