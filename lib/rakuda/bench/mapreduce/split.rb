# frozen_string_literal: true

require "rakuda/bench/figures"

module Rakuda
  module Bench
    module MapReduce
      # Where the time of a job went, from when its parts began and ended. Pure: `rakudactl bench verify` computes it once more.
      module Split
        NAMES = %w[startup_s map_s shuffle_s reduce_s tail_s].freeze
        # Core time of tasks: of maps; of reduces until their rows were there in order; of reduces from then on.
        BUSY = %w[map_busy_s shuffle_busy_s reduce_busy_s].freeze

        module_function

        # The makespan in five parts that follow each other.
        # @param round [Hash] with start_ns, end_ns, maps_ns (pairs), reduces_ns (begun, in order, ended)
        # @return [Hash{String => Float}]
        def of(round)
          maps, reduces = round.fetch("maps_ns"), round.fetch("reduces_ns")
          instants = [round.fetch("start_ns"), maps.map(&:first).min, maps.map(&:last).max, reduces.map { |one| one[1] }.min,
                      reduces.map(&:last).max, round.fetch("end_ns")]
          parts = instants.each_cons(2).map { |from, to| (to - from) / 1e9 }
          NAMES.zip(parts).to_h.merge("makespan_s" => (instants.last - instants.first) / 1e9, **busy(maps, reduces))
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
