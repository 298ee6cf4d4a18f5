# frozen_string_literal: true

require "json"
require "rakuda/bench/figures"
require "rakuda/bench/instance"
require "rakuda/bench/page_cache"

module Rakuda
  module Bench
    # The figures of an MPI kernel's result from the raw times in it, as iobench/README.md defines them, and what a
    # valid result must show. The kernels compute them in `figures.c`; this is how `verify` does so once more.
    module KernelFigures
      module_function

      # @param phase [Hash] as it stands in a result
      # @return [Hash{String => Numeric}]
      def phase(phase)
        steps = phase.fetch("steps")
        spans = steps.map { |step| Span.new(step) }
        time, first_time = spans.sum(&:time), spans.sum(&:first_done)
        bytes, first_bytes = spans.sum(&:bytes), spans.sum(&:first_done_bytes)
        transfer = steps.sum { |step| step.fetch("transfer_ns").max }
        { "bytes" => bytes, "time_ns" => time, "transfer_ns" => transfer, "first_done_ns" => first_time,
          "first_done_bytes" => first_bytes, "first_start_ns" => spans.first.first_start, "first_end_ns" => spans.last.first_end,
          "last_end_ns" => spans.last.last_end, "start_skew_ns_max" => spans.map(&:start_skew).max,
          "end_skew" => time.positive? ? spans.sum(&:end_skew) / time.to_f : 0,
          "bw_last_done" => rate(bytes, time), "bw_transfer" => rate(bytes, transfer),
          "bw_first_done" => rate(first_bytes, first_time), "ops_per_s" => rate(phase.fetch("calls"), time) }
      end

      # What else of a phase says the same as its steps: the ranks' sums.
      # @return [Array<Hash>] one for each rank
      def ranks(phase)
        steps = phase.fetch("steps")
        phase.fetch("ranks").map do |rank|
          number = rank.fetch("rank")
          { "bytes" => steps.sum { |step| step.fetch("bytes").fetch(number, 0) },
            "transfer_ns" => steps.sum { |step| step.fetch("transfer_ns").fetch(number, 0) },
            "time_ns" => steps.sum { |step| step.fetch("end_ns").fetch(number, 0) - step.fetch("start_ns").fetch(number, 0) } }
        end
      end

      # What does not follow from the steps: bytes and times of a rank, calls, and its number.
      # @return [Array<String>]
      def rank_faults(phase)
        at = "phases/#{phase["name"]}-#{phase["rep"]}/ranks"
        found = phase["ranks"].zip(ranks(phase)).flat_map do |rank, sums|
          moved = rank["xfer_ns"] + rank["flush_ns"]
          all = moved + rank["open_ns"] + rank["close_ns"]
          [("bytes are #{rank["bytes"]}: its steps have #{sums["bytes"]}" if rank["bytes"] != sums["bytes"]),
           ("xfer_ns and flush_ns are #{moved}: its steps have #{sums["transfer_ns"]}" if moved != sums["transfer_ns"]),
           ("its parts take #{all} ns, and its steps #{sums["time_ns"]}" if all > sums["time_ns"])]
            .compact.map { |fault| "#{at}/#{rank["rank"]}: #{fault}" }
        end
        calls = phase["ranks"].sum { |rank| rank["calls"] }
        found << "#{at}: #{calls} calls, and the phase has #{phase["calls"]}" unless calls == phase["calls"]
        found
      end

      # The digest of the instance, as `result_instance` of result.c has it: FNV-1a over a text without spaces.
      # @return [String]
      def instance_hash(result)
        instance = result.fetch("instance")
        parameters = JSON.generate(instance.fetch("params")).delete(" \n")
        text = format("%s ranks=%d reps=%d seed=%d %s", result.fetch("benchmark"), *instance.values_at("ranks", "reps", "seed"),
                      parameters)
        Instance.fnv_digest(text)
      end

      # One step of all ranks.
      class Span
        attr_reader :first_start, :first_end, :last_end, :bytes

        def initialize(step)
          @step = step
          @starts, @ends, each = step.values_at("start_ns", "end_ns", "bytes")
          @first_start = @starts.min
          @first_end, @last_end = @ends.minmax
          @bytes = each.sum
        end

        def time = last_end - first_start

        def first_done = first_end - first_start

        def end_skew = last_end - first_end

        def start_skew = @starts.max - first_start

        # What is known to have been transferred when the first rank ended.
        def first_done_bytes
          @step.fetch("bytes").each_index.sum do |rank|
            next @step["bytes"][rank] if @ends[rank] <= first_end

            (@step["marks"][rank] || []).each_slice(2).filter_map { |ns, bytes| bytes if ns != 0 && ns <= first_end }.max || 0
          end
        end
      end

      # @param phases [Array<Hash>] as they stand in a result
      # @return [Array<Hash>] one for each name
      def derived(phases)
        phases.group_by { |phase| phase.fetch("name") }.map do |name, ones|
          summed = %w[bytes calls time_ns transfer_ns first_done_ns first_done_bytes]
          sums = summed.to_h { |key| [key, ones.sum { |one| one[key] }] }
          rates = ones.map { |one| one.fetch("bw_last_done") }
          spread = Figures.summary(rates)
          { "name" => name, "reps" => ones.size, "bytes" => sums["bytes"], "time_s" => sums["time_ns"] / 1e9,
            "bw_last_done" => rate(*sums.values_at("bytes", "time_ns")),
            "bw_transfer" => rate(*sums.values_at("bytes", "transfer_ns")),
            "bw_first_done" => rate(*sums.values_at("first_done_bytes", "first_done_ns")),
            "ops_per_s" => rate(*sums.values_at("calls", "time_ns")), "median_bw" => spread["median"],
            "min_bw" => spread["min"], "max_bw" => spread["max"], "ci95" => spread["ci95"] }
        end
      end

      # @return [Hash{String => Float}] the largest start skew of a step, s, by name of the phase
      def start_skews(result)
        result.fetch("phases").group_by { |phase| phase["name"] }.transform_values do |ones|
          ones.map { |phase| phase.fetch("start_skew_ns_max") }.max / 1e9
        end
      end

      # @return [Float] how well the clocks of the hosts are known, s; 0 of one
      def clock_bound_s(result) = result.fetch("hosts").map { |host| host["clock_bound_ns"].to_i }.max.to_i / 1e9

      def rate(amount, time_ns) = time_ns.positive? ? amount * 1e9 / time_ns : 0

      # @return [Array<String>] what a result shows that says it is valid, and must not show
      def against(result)
        conditions, instance = result.values_at("conditions", "instance")
        reps = instance.fetch("reps")
        few = Figures.too_few(reps, "repetitions") unless result["size"] == "tiny"
        verification(result) + result.fetch("phases").flat_map { |phase| cache(phase, conditions) } +
          result.fetch("phases").group_by { |phase| phase["name"] }.filter_map do |name, ones|
            "#{name}: #{ones.size} repetitions, and #{reps} were asked for" unless ones.size == reps
          end + [few].compact
      end

      def verification(result)
        found, asked = result.fetch("verification"), result.dig("instance", "bytes")
        return ["#{found["errors"]} wrong bytes"] if found["errors"].positive? || !found["detail"].empty?

        checked = found["checked_bytes"]
        result.dig("conditions", "read") && checked >= asked ? [] : ["of #{asked} bytes #{checked} were checked"]
      end

      # What cachestat said before reading and after writing.
      def cache(phase, conditions)
        at = "#{phase["name"]} #{phase["rep"]}"
        before, after = phase.values_at("cache_before", "cache_after")
        if phase["name"].end_with?("read")
          state = conditions["cache"]
          return [] if state == "any" || (before && before["known"] && PageCache.in_state?(state, before["resident_frac"] || 0))

          return ["#{at}: it does not show that it was #{state}"]
        end
        return [] if !conditions["durable"] || (after && after["known"] && after["dirty_bytes"].to_i.zero?)

        ["#{at}: it does not show that what was written was on disk"]
      end
    end
  end
end
