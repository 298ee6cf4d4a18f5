# frozen_string_literal: true

require "rakuda/bench/micro_steps"
require "rakuda/bench/page_cache"

module Rakuda
  module Bench
    # Whether a micro-benchmark read from where it says: by what was in the page cache before each step, summed over the
    # workers.
    module MicroCache
      module_function

      # @param pairs [Array<Array>] bytes of a worker's file, and those in memory, or nil
      # @return [Hash] the sum; null where one is not known
      def sum(pairs)
        bytes, resident = pairs.transpose
        { "bytes" => bytes.sum, "resident_bytes" => resident.include?(nil) ? nil : resident.sum }
      end

      # @param result [Hash]
      # @return [Array<String>] one for all repetitions of a step
      def faults(result)
        told = result["cache"] or return []
        reading = result["steps"].keys.select { |name| state(result, name) }
        reading.group_by { |name| name.sub(MicroSteps::NUMBER, "") }.flat_map do |name, ones|
          of_step(name, state(result, name), told.values_at(*ones))
        end
      end

      # @return [String, nil] where the bytes of a step must be before it; nil where no proof was asked for
      def state(result, name)
        cache = result.dig("conditions", "cache")
        return if cache == "any"
        return cache if name.start_with?("read-")

        # fio does not say it, and nobody looks for it.
        "warm" if name.start_with?("reread-") && result["benchmark"] == "bandwidth"
      end

      def of_step(name, state, told)
        known = told.select { |one| one && one["resident_bytes"] && one["bytes"].positive? }
        return ["#{name}: it is not known what was in the page cache, and so not that it was #{state}"] if known.size < told.size

        shares = known.map { |one| one["resident_bytes"].to_f / one["bytes"] }
        worst = state == "cold" ? shares.max : shares.min
        return [] if PageCache.in_state?(state, worst)

        ["#{name}: #{(worst * 100).round(1)} % of its files were in the page cache, not #{state}"]
      end
    end
  end
end
