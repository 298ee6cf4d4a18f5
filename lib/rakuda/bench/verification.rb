# frozen_string_literal: true

require "json"
require "open3"
require "rakuda/bench/comparison"
require "rakuda/bench/errors"
require "rakuda/bench/mapreduce/split"
require "rakuda/bench/micro"
require "rakuda/bench/page_cache"
require "rakuda/bench/programs"

module Rakuda
  module Bench
    # Whether a result is what it says: of its schema, with figures that follow from the raw times in it.
    module Verification
      # Schema of a result => the file that publishes it.
      SCHEMAS = { "rakuda-bench/1" => "result.schema.json", "rakuda-bench-workflow/1" => "workflow.schema.json",
                  "rakuda-bench-micro/1" => "micro.schema.json", "rakuda-bench-mapreduce/1" => "mapreduce.schema.json" }.freeze
      # Kernels write 9 digits.
      TOLERANCE = 1e-6
      VALIDATE = <<~PYTHON
        import json, sys
        from jsonschema import Draft202012Validator
        schema, result = json.load(open(sys.argv[1])), json.load(sys.stdin)
        for error in Draft202012Validator(schema).iter_errors(result):
            print("/".join(str(part) for part in error.path) or ".", error.message.split("\\n")[0][:200])
      PYTHON
      # Debian's own, which has the package; another python in PATH may have none.
      PYTHON = File.executable?("/usr/bin/python3") ? "/usr/bin/python3" : "python3"

      module_function

      # @return [Hash] a result
      # @raise [UsageError] when the file holds none that this version knows
      def read(path)
        result = JSON.parse(File.read(path))
        schema = result.is_a?(Hash) ? result["schema"] : nil
        return result if SCHEMAS.key?(schema)

        raise UsageError, "#{path}: expected a result (#{SCHEMAS.keys.join(", ")}), not #{schema.inspect}"
      rescue JSON::ParserError => e
        raise UsageError, "#{path}: not JSON: #{e.message.lines.first.strip[0, 100]}"
      rescue SystemCallError => e
        raise UsageError, e.message
      end

      # @return [Array<String>] what is wrong
      def faults(result)
        found = schema_faults(result)
        found.empty? ? figure_faults(result) + validity_faults(result) : found
      end

      def schema_faults(result)
        schema = File.join(folder, SCHEMAS.fetch(result.fetch("schema")))
        output, errors, status = Open3.capture3(PYTHON, "-c", VALIDATE, schema, stdin_data: JSON.generate(result))
        return output.lines(chomp: true).map { |line| "against the schema: #{line}" } if status.success?

        raise UsageError, "the schema cannot be checked: #{errors.lines.last.to_s.strip} (Debian: python3-jsonschema)"
      end

      # Where the schemas are: in the checkout or beside the library.
      def folder
        [File.join(Programs::ROOT, "iobench/schema"), File.expand_path("schema", __dir__)].find { |path|
 File.directory?(path) } or
          raise UsageError, "the schemas of results are not there: install Rakuda again"
      end

      def figure_faults(result)
        case result.fetch("schema")
        when "rakuda-bench-workflow/1" then workflow_faults(result)
        when "rakuda-bench-micro/1" then micro_faults(result)
        when "rakuda-bench-mapreduce/1" then map_reduce_faults(result)
        else kernel_faults(result)
        end
      end

      def micro_faults(result)
        steps, sync = result.fetch("steps"), result["sync"]
        faults = differences(Micro.derived(steps), result.fetch("derived"), "derived")
        faults += differences(Micro.together(steps, sync), sync.fetch("together"), "sync/together") if sync
        faults
      end

      # A valid result began as it says.
      def cache_faults(result)
        result["valid"] ? PageCache.faults(result.dig("conditions", "cache"), result.fetch("rounds")) : []
      end

      def map_reduce_faults(result)
        rounds = result.fetch("rounds")
        expected = MapReduce::Split.derived(rounds, result.dig("instance", "bytes"))
        backwards = rounds.reject { |round| round["fault"] }.select do |round|
          MapReduce::Split.of(round).values_at(*MapReduce::Split::NAMES).any?(&:negative?)
        end
        differences(expected, result.fetch("derived"), "derived") + cache_faults(result) +
          backwards.map { |round| "round #{round["round"]}: its parts do not follow each other" }
      end

      def workflow_faults(result)
        tasks, slots = result.dig("instance", "tasks"), result.dig("engine", "slots")
        rounds = result.fetch("rounds")
        expected = Comparison.derived(rounds, tasks, slots)
        of_rounds = rounds.reject { |round| round["fault"] }.flat_map do |round|
          busy = round.fetch("tasks_ns").sum { |from, to| to - from } / 1e9
          limit = (round.fetch("makespan_s") * slots) + 1e-3
          faults = differences(busy, round.fetch("busy_s"), "rounds/#{round["round"]}/busy_s")
          faults << "round #{round["round"]}: #{round["tasks_ns"].size} tasks of #{tasks}" unless round["tasks_ns"].size == tasks
          faults << "round #{round["round"]}: tasks took longer than its slots had" if busy > limit
          faults
        end
        differences(expected, result.fetch("derived"), "derived") + of_rounds + cache_faults(result)
      end

      # The phases from the steps, and the figures of all repetitions from the phases.
      def kernel_faults(result)
        phases = result.fetch("phases").flat_map do |phase|
          time = phase.fetch("steps").sum { |step| step.fetch("end_ns").max - step.fetch("start_ns").min }
          bytes = phase.fetch("steps").sum { |step| step.fetch("bytes").sum }
          at = "phases/#{phase["name"]}-#{phase["rep"]}"
          differences(time, phase.fetch("time_ns"), "#{at}/time_ns") + differences(bytes, phase.fetch("bytes"), "#{at}/bytes") +
            differences(rate(bytes, time), phase.fetch("bw_last_done"), "#{at}/bw_last_done")
        end
        phases + result.fetch("derived").flat_map do |derived|
          of_name = result.fetch("phases").select { |phase| phase["name"] == derived["name"] }
          bytes, time = of_name.sum { |phase| phase["bytes"] }, of_name.sum { |phase| phase["time_ns"] }
          differences(rate(bytes, time), derived.fetch("bw_last_done"), "derived/#{derived["name"]}/bw_last_done")
        end
      end

      def rate(bytes, time_ns) = time_ns.positive? ? bytes * 1e9 / time_ns : 0

      def validity_faults(result)
        return [] if result.fetch("valid") == result.fetch("reasons").empty?

        ["valid is #{result["valid"]}, and there are #{result["reasons"].size} reasons against it"]
      end

      # @return [Array<String>] where two values differ
      def differences(expected, found, at)
        case expected
        when Hash
          (expected.keys | (found.is_a?(Hash) ? found.keys : [])).flat_map do |key|
            differences(expected[key], found.is_a?(Hash) ? found[key] : nil, "#{at}/#{key}")
          end
        when Array
          return ["#{at} has #{Array(found).size} elements: expected #{expected.size}"] unless Array(found).size == expected.size

          expected.each_with_index.flat_map { |value, index| differences(value, found[index], "#{at}/#{index}") }
        when Numeric
          close = found.is_a?(Numeric) && (expected - found).abs <= [expected.abs, 1e-9].max * TOLERANCE
          close ? [] : ["#{at} is #{found.inspect}: the raw times give #{expected}"]
        else expected == found ? [] : ["#{at} is #{found.inspect}: expected #{expected.inspect}"]
        end
      end
    end
  end
end
