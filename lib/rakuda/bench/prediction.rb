# frozen_string_literal: true

require "json"
require "open3"
require "rakuda/bench/catalogue"
require "rakuda/bench/errors"
require "rakuda/bench/figures"
require "rakuda/bench/micro"
require "rakuda/bench/programs"

module Rakuda
  module Bench
    # What the simulator says of a workflow on this machine, told the rates that fio measured here, beside what it took.
    module Prediction
      # A workflow in one engine: seconds from the first task's beginning to the last one's end.
      Row = Struct.new(:benchmark, :engine, :measured, :predicted, keyword_init: true) do
        # How far the prediction lies off, as a part of what was measured.
        def error = (predicted / measured) - 1
      end

      module_function

      # @param fio [Hash] a result of fio
      # @param results [Array<Hash>] of workflows on one machine
      # @param instance [String, nil] the file in WfFormat that the results are of; nil for workflows of the catalogue
      # @param words [Array<String>] more of the simulator's options
      # @return [Array<Row>]
      # @raise [UsageError]
      def rows(fio, results, instance, words)
        raise UsageError, "expected a result of fio first, not of #{fio["benchmark"]}" unless fio["benchmark"] == "fio"

        results.map do |result|
          raise UsageError, "expected results of workflows behind it, not of #{result["benchmark"]}" unless
            result["schema"] == "rakuda-bench-workflow/1" && result["derived"].any?

          command = [*workflow(result, instance), "--nodes", "1", "--cores", result.dig("engine", "slots").to_s, "--file-system",
                     "local", "--rates", Micro.rates(fio).join(","), "--json", *words]
          Row.new(benchmark: result["benchmark"], engine: result.dig("engine", "name"), measured: measured(result),
                  predicted: simulated(command))
        end
      end

      def workflow(result, instance)
        return [instance] if instance

        entry = Catalogue::ALL.find { |one| one.name == result["benchmark"] }
        settings = entry && entry.sizes[result["size"]]
        return settings.fetch(:simulated) if settings&.key?(:simulated) && !settings.key?(:bytes)

        raise UsageError, "the simulator has no #{result["benchmark"]} of this size: name its file in WfFormat with --instance"
      end

      # What an engine takes before and after its tasks is in no prediction.
      def measured(result)
        spans = result["rounds"].reject { |round| round["fault"] }.map do |round|
          (round["tasks_ns"].map(&:last).max - round["tasks_ns"].map(&:first).min) / 1e9
        end
        Figures.median(spans)
      end

      def simulated(words)
        output, errors, status = Open3.capture3(Programs.rakudactl, "sim", *words)
        raise UsageError, "rakudactl sim: #{errors.lines.first.to_s.strip}" unless status.success?

        JSON.parse(output.lines.first).fetch("makespan_s")
      end

      # @return [Array<String>]
      def lines(rows)
        rows.map do |row|
          format("%s in %s: predicted %s, measured %s: %+.0f %%", row.benchmark, row.engine, Figures.seconds(row.predicted),
                 Figures.seconds(row.measured), row.error * 100)
        end
      end
    end
  end
end
