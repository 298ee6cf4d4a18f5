# frozen_string_literal: true

require "json"
require "open3"
require "rakuda/bench/catalogue"
require "rakuda/bench/engines"
require "rakuda/bench/errors"
require "rakuda/bench/figures"
require "rakuda/bench/instance"
require "rakuda/bench/micro_figures"
require "rakuda/bench/programs"
require "tempfile"

module Rakuda
  module Bench
    # What the simulator says of a workflow on this machine, told the rates that were measured here, beside what it
    # took.
    module Prediction
      # A workflow in one engine: seconds from the first task's beginning to the last one's end.
      Row = Struct.new(:benchmark, :engine, :measured, :predicted, keyword_init: true) do
        # How far the prediction lies off, as a part of what was measured.
        def error = (predicted / measured) - 1
      end

      module_function

      # @param measured [Hash] a result of bandwidth or fio
      # @param results [Hash{String => Hash}] of workflows on one machine, by file
      # @param instance [String, nil] the file in WfFormat that the results are of; nil for workflows of the catalogue
      # @param words [Array<String>] more of the simulator's options
      # @return [Array<Row>]
      # @raise [UsageError]
      def rows(measured, results, instance, words)
        unless MicroFigures::RATED.include?(measured["benchmark"])
          raise UsageError, "expected a result of #{MicroFigures::RATED.join(" or ")} first, not of #{measured["benchmark"]}"
        end
        MicroFigures.unrated(measured)&.then { |why| raise UsageError, "no rates from this result: #{why}" }

        results.map do |path, result|
          raise UsageError, "expected results of workflows behind it, not of #{result["benchmark"]}" unless
            result["schema"] == "rakuda-bench-workflow/1" && result["derived"].any?

          raise UsageError, "#{path} is of a run over hosts: expected results of one machine" if result.key?("hosts")

          told = ["--nodes", "1", "--cores", result.dig("engine", "slots").to_s, "--file-system", "local", "--rates",
                  MicroFigures.rates(measured).join(","), "--json", *words]
          Row.new(benchmark: result["benchmark"], engine: Engine.label_of(result), measured: spent(result),
                  predicted: workflow(path, result, instance) { |workload| simulated(workload + told) })
        end
      end

      # @return [String] where the instance of a recorded workflow is kept beside its results
      def kept(out, result)
        File.join(out, "instances", "#{result["benchmark"]}-#{result["size"]}.json")
      end

      # Yields the simulator's words for the workflow.
      def workflow(path, result, instance)
        return yield([instance]) if instance

        entry = Catalogue::ALL.find { |one| one.name == result["benchmark"] }
        settings = entry && entry.sizes[result["size"]]
        return yield(settings.fetch(:simulated)) if settings&.key?(:simulated) && !settings.key?(:bytes)

        record = kept(File.dirname(path), result)
        return computing(record, result) { |file| yield([file]) } if entry&.recorded? && File.file?(record)

        raise UsageError, "the simulator has no #{result["benchmark"]} of this size: name its file in WfFormat with --instance"
      end

      # A recorded task's time holds its reading and writing, which the simulator adds by the rates: what is left is the
      # time that it used the processor.
      # @return [Hash] the instance with these times
      def without_io(instance)
        tasks = instance.dig("workflow", "execution", "tasks").map do |task|
          share = [task.fetch("avgCPU", 100.0) / 100.0 / task.fetch("coreCount", 1), 1.0].min
          task.merge("runtimeInSeconds" => task.fetch("runtimeInSeconds") * share)
        end
        execution = instance["workflow"]["execution"].merge("tasks" => tasks)
        instance.merge("workflow" => instance["workflow"].merge("execution" => execution))
      end

      def computing(record, result)
        kept = Instance.load(record)
        unless Instance.same?({ "hash" => kept.digest, "hash_by_name" => kept.digest_by_name }, result["instance"])
          raise UsageError, "#{record} is of another run than this result of #{result["benchmark"]}: compare once more, or " \
                            "name the workflow's file with --instance"
        end

        Tempfile.create(["instance", ".json"]) do |file|
          file.write(JSON.generate(without_io(JSON.parse(File.read(record)))))
          file.close
          yield file.path
        end
      end

      # What an engine takes before and after its tasks is in no prediction.
      def spent(result)
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
