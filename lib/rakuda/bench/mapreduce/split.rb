# frozen_string_literal: true

require "rakuda/bench/figures"

module Rakuda
  module Bench
    module MapReduce
      # Where the time of a job went, from when its parts began and ended. Pure: `rakudactl bench verify` computes it
      # once more.
      module Split
        NAMES = %w[startup_s map_s shuffle_s reduce_s tail_s].freeze
        # The time of all tasks: of maps; of reduces until their rows were there in order; of reduces from then on.
        BUSY = %w[map_busy_s shuffle_busy_s reduce_busy_s].freeze

        module_function

        # The makespan in five parts that follow each other.
        # @param round [Hash] with start_ns, end_ns, maps_ns (pairs), reduces_ns (begun, in order, ended); over hosts
        #   also maps_commands_ns and reduces_commands_ns (pairs)
        # @return [Hash{String => Float}]
        def of(round)
          maps, reduces = round.fetch("maps_ns"), round.fetch("reduces_ns")
          start, finish = round.fetch("start_ns"), round.fetch("end_ns")
          between = far?(round) ? of_record(round).map { |time| start + time } : of_tasks(maps, reduces)
          instants = [start, *between, finish]
          parts = instants.each_cons(2).map { |from, to| (to - from) / 1e9 }
          NAMES.zip(parts).to_h.merge("makespan_s" => (finish - start) / 1e9, **busy(maps, reduces))
        end

        # @return [Boolean] whether its tasks ran on hosts, whose clocks are not compared
        def far?(round) = round.key?("maps_commands_ns")

        def of_tasks(maps, reduces)
          [maps.map(&:first).min, maps.map(&:last).max, reduces.map { |one| one[1] }.min, reduces.map(&:last).max]
        end

        # By when commands were known to have ended. A reduce had its rows in order as long before that as its program
        # took from then on. It was known a little later than it was so, by what a message takes; so an instant may seem
        # to lie before the one that it follows, and counts as that one then.
        # @return [Array<Integer>] ns from the start of the engine
        def of_record(round)
          maps, reduces = round.values_at("maps_commands_ns", "reduces_commands_ns")
          ordered = reduces.zip(round["reduces_ns"]).map { |(_, known), (_, sorted, ended)| known - (ended - sorted) }
          instants = [maps.map(&:first).min, maps.map(&:last).max, ordered.min, reduces.map(&:last).max]
          instants.each_index.map { |i| instants.take(i + 1).max }
        end

        # @return [Array<Float>] s, of rounds that ended well
        def makespans(rounds)
          rounds.reject { |round| round["fault"] }.map { |round| of(round).fetch("makespan_s") }
        end

        def busy(maps, reduces)
          sums = [maps.sum { |from, to| to - from }, reduces.sum { |from, sorted, _| sorted - from },
                  reduces.sum { |_, sorted, to| to - sorted }]
          BUSY.zip(sums.map { |sum| sum / 1e9 }).to_h
        end

        # The figures of a result.
        # @param rounds [Array<Hash>] as they stand in a result
        # @param bytes [Integer] that maps read or write
        # @return [Hash{String => Object}]
        def derived(rounds, bytes)
          good = rounds.reject { |round| round["fault"] }
                       .map { |round| of(round).merge("shuffle_bytes" => round["shuffle_bytes"]) }
          return {} if good.empty?

          medians = (NAMES + BUSY + %w[shuffle_bytes]).to_h { |name| [name, Figures.median(good.map { |one| one[name] })] }
          makespan = Figures.summary(makespans(rounds))
          { "makespan_s" => makespan, "bw" => bytes / makespan.fetch("median") }.merge(medians)
        end
      end
    end
  end
end
