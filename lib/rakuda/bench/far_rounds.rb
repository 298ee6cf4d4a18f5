# frozen_string_literal: true

module Rakuda
  module Bench
    # Whether the raw times of a round over hosts fit its figures. Times of one host are compared with each other, and
    # never with another host's; `commands_ns` is of the clock of the machine that started the engine. Pure.
    module FarRounds
      # Of a figure, s, and of a span: clocks of two machines need not run equally fast.
      TOLERANCE_S = 1e-6
      DRIFT = 1e-3

      module_function

      # @param round [Hash] as it stands in a result
      # @param hosts [Array<Hash>] of that result
      # @return [Array<String>] what is wrong
      def faults(round, hosts)
        places, commands = round.values_at("hosts", "commands_ns")
        where = "round #{round["round"]}"
        return ["#{where}: it does not say on which host each task ran"] unless
          places && places.size == round["tasks_ns"].size && places.all? { |place| place < hosts.size }
        return ["#{where}: it does not say when the first command began and the last one ended"] unless commands

        came = round["nodes"]
        return ["#{where}: tasks ran on more hosts than the #{came.inspect} that came"] unless
          came.to_i.between?(places.uniq.size, hosts.size)

        ends_faults(round, commands, where) + host_faults(round, hosts, commands, where)
      end

      # The same of a MapReduce job, whose commands have times each.
      # @param is_gang [Boolean] whether maps and reduces run together, also with fewer slots
      # @return [Array<String>] what is wrong
      def job_faults(round, hosts, is_gang)
        where = "round #{round["round"]}"
        parts = %w[maps reduces].map { |part| ["", "_ns", "_hosts", "_commands_ns"].map { |key| round["#{part}#{key}"] } }
        return ["#{where}: it does not say of each map and reduce where it ran, and when"] unless
          parts.all? { |lists| lists.all? && lists.map(&:size).uniq.one? }

        _, times, places, commands = parts.transpose.map { |lists| lists.flatten(1) }
        came = round["nodes"]
        return ["#{where}: maps and reduces ran on more hosts than the #{came} that came"] unless
          places.max < hosts.size && came.between?(places.uniq.size, hosts.size)

        length = round["end_ns"] - round["start_ns"]
        return ["#{where}: its commands do not lie within it"] unless
          commands.all? { |from, to| from <= to && to <= length }

        by_host(times.map { |time| time.values_at(0, -1) }, places, commands).flat_map do |place, of_host|
          host_faults_of(*of_host, is_gang ? nil : hosts[place]["slots"], "#{where}: host #{place + 1}")
        end
      end

      # @return [Hash{Integer => Array(Array, Array)}] times of tasks, and of commands, of each host
      def by_host(times, places, commands)
        times.zip(commands, places).group_by(&:last).transform_values { |ones| ones.map { |one| one.take(2) }.transpose }
      end

      # @return [Array<String>] why rounds are not valid
      def against(rounds, hosts)
        rounds.select { |round| round.key?("nodes") && round["nodes"] < hosts.to_a.size }.map do |round|
          "round #{round["round"] + 1}: #{round["nodes"]} of #{hosts.to_a.size} hosts were there before its end"
        end
      end

      # The time to the first command, that to the end of the last, and that after it.
      def ends_faults(round, commands, where)
        expected = { "startup_s" => commands.first / 1e9, "tail_s" => round["makespan_s"] - (commands.last / 1e9) }
        found = expected.reject { |name, value| (round[name] - value).abs <= TOLERANCE_S }
        found = found.map { |name, value| "#{where}: #{name} is #{round[name]}: the raw times give #{value}" }
        found << "#{where}: its commands do not lie within it" unless commands.first <= commands.last && expected["tail_s"] >= 0
        found
      end

      # A task's program begins after its command, and ends before that is known to have ended.
      def host_faults(round, hosts, commands, where)
        round["tasks_ns"].zip(round["hosts"]).group_by(&:last).flat_map do |place, pairs|
          host_faults_of(pairs.map(&:first), [commands], hosts[place]["slots"], "#{where}: host #{place + 1}")
        end
      end

      # @param times [Array<Array(Integer, Integer)>] of the tasks of one host
      # @param commands [Array<Array(Integer, Integer)>] times between which they ran
      # @param slots [Integer, nil] nil for as many as there are
      def host_faults_of(times, commands, slots, host)
        longest = (commands.map(&:last).max - commands.map(&:first).min) * (1 + DRIFT)
        span = times.map(&:last).max - times.map(&:first).min
        found = []
        found << "#{host}: its tasks lie further apart than the commands of the round" if span > longest
        found << "#{host}: more tasks at once than its #{slots} slots" if slots && at_once(times) > slots
        found
      end

      # @param times [Array<Array(Integer, Integer)>]
      # @return [Integer] the most tasks of one moment
      def at_once(times)
        running = 0
        # Of one moment an end comes first.
        times.flat_map { |from, to| [[from, 1], [to, -1]] }.sort.map { |_, change| running += change }.max
      end
    end
  end
end
