# frozen_string_literal: true

require "json"
require "rakuda/bench/errors"

module Rakuda
  module Bench
    # What the record of a run over hosts says of a round: its nodes, which of them ran each task and each command, and
    # between which moments there were commands. Times are those of the hub alone, since clocks of hosts are not
    # compared. It reads a journal (docs/reference/journal.md) and knows nothing of workflows and jobs.
    class RunRecord
      # A machine that ran tasks, or could have.
      Node = Struct.new(:name, :slots)
      # A command: where it ran, when it was started, and when it was known to have ended; ns by the clock of the
      # journal.
      Command = Struct.new(:node, :first_ns, :last_ns)

      # @return [Array<Node>] in the order of their numbers, without the hub's machine where that is none of them
      attr_reader :nodes
      # @return [Hash{String => Node}] name of a task => where it ran
      attr_reader :places
      # @return [Integer, nil] when the first command was started, and when the last one was known to have ended: ns by
      #   the clock of the journal; nil where there was none
      attr_reader :first_ns, :last_ns
      # @return [Array<String>] names of nodes that were lost or told to go
      attr_reader :lost
      # @return [Hash{Array<String> => Array<Command>}] those that ended, by their words
      attr_reader :commands

      # @param folder [String] in which there was one run
      # @return [RunRecord, nil] nil where it has not come to have a node
      def self.of(folder)
        paths = Dir[File.join(folder, ".rakuda/runs/*/journal.jsonl")]
        raise Failure, "#{paths.size} runs of rakuda in the folder of one round" if paths.size > 1

        record = paths.first && new(File.readlines(paths.first))
        record unless record.nil? || record.nodes.empty?
      rescue JSON::ParserError => e
        raise Failure, "its record cannot be read: #{e.message.lines.first.to_s.strip[0, 100]}"
      end

      # @param lines [Array<String>] of a journal; the last one may be cut off
      def initialize(lines)
        events = lines.select { |line| line.end_with?("\n") }.map { |line| JSON.parse(line) }.group_by { |one| one["event"] }
        events.default = []
        joined = events["node_joined"].to_h { |one| [one["node"], Node.new(one["name"], one["cores"])] }
        able = joined.select { |_, node| node.slots.positive? }.sort.to_h
        @nodes = able.values
        @lost = (events["node_lost"] + events["node_gone"]).map { |one| joined[one["node"]]&.name || one["node"].to_s }.uniq
        names = events["task_defined"].to_h { |one| [one["task"], one["name"]] }
        @places = events["attempt_started"].to_h { |one| [names[one["task"]], able[one["node"]]] }
        @first_ns = events["command_started"].map { |one| one["time_ns"] }.min
        @last_ns = events["command_ended"].map { |one| one["time_ns"] }.max
        @commands = ended(events).group_by(&:first).transform_values do |ones|
          ones.map { |_, task, *times| Command.new(@places[names[task]], *times) }
        end
      end

      private

      # @return [Array<Array>] of each command that ended its words, its task, and both times
      def ended(events)
        ends = events["command_ended"].to_h { |one| one.values_at("command", "time_ns") }
        events["command_started"].filter_map do |one|
          last = ends[one["command"]]
          [one["words"], one["task"], one["time_ns"], last] if last && one["words"]
        end
      end
    end
  end
end
