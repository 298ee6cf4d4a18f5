# frozen_string_literal: true

require "json"
require "open3"
require "rakuda/bench/catalogue"
require "rakuda/bench/comparison"
require "rakuda/bench/errors"
require "rakuda/bench/far_rounds"
require "rakuda/bench/figures"
require "rakuda/bench/instance"
require "rakuda/bench/kernel_figures"
require "rakuda/bench/mapreduce/job"
require "rakuda/bench/mapreduce/split"
require "rakuda/bench/micro"
require "rakuda/bench/micro_figures"
require "rakuda/bench/micro_rounds"
require "rakuda/bench/page_cache"
require "rakuda/bench/programs"

module Rakuda
  module Bench
    # Whether a result is what it says: of its schema, with figures that follow from the raw times in it.
    module Verification
      # Schema of a result => the file that publishes it.
      SCHEMAS = { "rakuda-bench/1" => "result.schema.json", "rakuda-bench-workflow/1" => "workflow.schema.json",
                  "rakuda-bench-micro/1" => "micro.schema.json", "rakuda-bench-mapreduce/1" => "mapreduce.schema.json",
                  "rakuda-bench-failure/1" => "failure.schema.json" }.freeze
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
        raise UsageError, "#{path}: #{e.class.new.message}; expected a result, as `rakudactl bench run` writes"
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
        when "rakuda-bench-failure/1" then []
        else kernel_faults(result)
        end
      end

      def micro_faults(result)
        steps, sync = result.fetch("steps"), result["sync"]
        faults = differences(MicroFigures.derived(steps), result.fetch("derived"), "derived")
        faults += differences(MicroFigures.together(steps, sync), sync.fetch("together"), "sync/together") if sync
        faults + (sync ? sync_faults(result) : [])
      end

      # Each step was a round, and starting programs takes some time. Results have the times of rounds since they were
      # added to the schema.
      def sync_faults(result)
        steps, sync = result.fetch("steps"), result.fetch("sync")
        found = []
        if sync.key?("by_round")
          expected = MicroRounds.figures(sync)
          names = %w[overhead_s lag_s clock_bound_s rounds rounds_late]
          found = differences(expected, sync.slice(*names), "sync") + MicroRounds.faults(result)
        end
        found << "sync/rounds is #{sync["rounds"]}: there are #{steps.size} steps" unless sync["rounds"] == steps.size
        found << "sync/rounds_late is #{sync["rounds_late"]} of #{sync["rounds"]} rounds" if sync["rounds_late"] > sync["rounds"]
        found << "sync/overhead_s is #{sync["overhead_s"].inspect}: expected more than 0" unless sync["overhead_s"].to_f.positive?
        found
      end

      def map_reduce_faults(result)
        rounds = result.fetch("rounds")
        good = rounds.reject { |round| round["fault"] }
        return ["engine/slots is not there"] unless result.dig("engine", "slots") || good.empty?

        far = result.key?("hosts") || rounds.any? { |round| round.key?("nodes") }
        found = far ? far_job_faults(good, result) + slots_faults(result) : []
        found += job_faults(result)
        return found unless found.empty?

        backwards = good.select { |round| MapReduce::Split.of(round).values_at(*MapReduce::Split::NAMES).any?(&:negative?) }
        expected = MapReduce::Split.derived(rounds, result.dig("instance", "bytes"))
        differences(expected, result.fetch("derived"), "derived") +
          backwards.map { |round| "round #{round["round"]}: its parts do not follow each other" }
      end

      # Maps, reduces and bytes follow from the settings of the job.
      def job_faults(result)
        entry = Catalogue::ALL.find { |one| one.family == "mapreduce" && one.name == result["benchmark"] }
        return ["benchmark: #{result["benchmark"]} is no MapReduce job"] unless entry

        told = result.fetch("instance")
        job = MapReduce::Job.new(entry, result["size"], told.fetch("settings").transform_keys(&:to_sym))
        expected = told.values_at("maps", "reduces")
        good = result["rounds"].reject { |round| round["fault"] }
        other = good.map { |round| round.values_at("maps_ns", "reduces_ns").map(&:size) }.find { |counts| counts != expected }
        unequal(job.instance, told, "instance") +
          (other ? ["a round has #{other.join(" maps and ")} reduces: expected #{expected.join(" and ")}"] : [])
      rescue KeyError => e
        ["instance/settings: #{e.message}"]
      end

      # Maps and reduces that a stream joins begin together.
      def far_job_faults(rounds, result)
        is_gang = result.dig("engine", "name") == "rakuda-streams"
        rounds.flat_map { |round| FarRounds.job_faults(round, result.fetch("hosts", []), is_gang) }
      end

      # What tasks read and wrote, from the files of each. Results have these since they were added to the schema.
      # @return [Array<String>]
      def contents_faults(result)
        contents = result.dig("instance", "contents") or return []
        files, tasks = contents.values_at("files", "tasks")
        beyond = tasks.find { |task| task.drop(1).flatten.any? { |file| file >= files.size } }
        return ["instance/contents: task #{beyond.first} has a file that is not there"] if beyond

        names = tasks.map(&:first).sort
        other = result["rounds"].find { |round| round.key?("tasks") && round["tasks"].sort != names }
        found = unequal(Instance.figures(contents), result["instance"], "instance")
        found << "round #{other["round"]}: its tasks are not those of the instance" if other
        twice = tasks.flat_map(&:last).tally.find { |_, times| times > 1 }
        found << "instance/contents: #{files[twice.first].first} is written by #{twice.last} tasks" if twice
        found
      end

      def workflow_faults(result)
        tasks, slots = result.dig("instance", "tasks"), result.dig("engine", "slots")
        rounds = result.fetch("rounds")
        good = rounds.reject { |round| round["fault"] }
        return ["engine/slots is not there"] unless slots || good.empty?

        expected = Comparison.derived(rounds, tasks, slots)
        of_rounds = good.flat_map do |round|
          busy = round.fetch("tasks_ns").sum { |from, to| to - from } / 1e9
          limit = (round.fetch("makespan_s") * slots) + 1e-3
          faults = differences(busy, round.fetch("busy_s"), "rounds/#{round["round"]}/busy_s")
          faults << "round #{round["round"]}: #{round["tasks_ns"].size} tasks of #{tasks}" unless round["tasks_ns"].size == tasks
          faults << "round #{round["round"]}: names are not those of #{tasks} tasks" unless named?(round, tasks)
          faults << "round #{round["round"]}: tasks took longer than its slots had" if busy > limit
          faults + (result.key?("hosts") ? FarRounds.faults(round, result["hosts"]) : parts_faults(round))
        end
        differences(expected, result.fetch("derived"), "derived") + of_rounds + slots_faults(result) + contents_faults(result)
      end

      # Over hosts the slots are those of all of them.
      def slots_faults(result)
        slots = result["hosts"]&.sum { |host| host["slots"] }
        slots ? differences(slots, result.dig("engine", "slots"), "engine/slots") : []
      end

      # Results have names of tasks since they were added to the schema.
      def named?(round, tasks) = !round.key?("tasks") || round["tasks"].uniq.size == tasks

      # A round is the time to its first task, that from there to the end of the last, and that after it.
      def parts_faults(round)
        first, last = round.fetch("tasks_ns").map(&:first).min, round.fetch("tasks_ns").map(&:last).max
        whole = round.fetch("startup_s") + ((last - first) / 1e9) + round.fetch("tail_s")
        differences(whole, round.fetch("makespan_s"), "rounds/#{round["round"]}/makespan_s")
      end

      # The phases from the steps, and the figures of all repetitions from the phases.
      def kernel_faults(result)
        phases = result.fetch("phases").flat_map do |phase|
          expected = KernelFigures.phase(phase)
          differences(expected, phase.slice(*expected.keys), "phases/#{phase["name"]}-#{phase["rep"]}") +
            KernelFigures.rank_faults(phase)
        end
        phases + instance_faults(result) +
          differences(KernelFigures.derived(result.fetch("phases")), result.fetch("derived"), "derived")
      end

      def instance_faults(result)
        differences(KernelFigures.instance_hash(result), result.dig("instance", "hash"), "instance/hash")
      end

      # That a result is valid must follow from what else stands in it.
      def validity_faults(result)
        unless result.fetch("valid") == result.fetch("reasons").empty?
          return ["valid is #{result["valid"]}, and there are #{result["reasons"].size} reasons against it"]
        end

        result["valid"] ? against(result).map { |fault| "it says that it is valid: #{fault}" } : []
      end

      # @return [Array<String>] why it is not valid, by what stands in it
      def against(result)
        case result.fetch("schema")
        when "rakuda-bench/1" then KernelFigures.against(result)
        when "rakuda-bench-micro/1" then micro_against(result)
        else rounds_against(result)
        end
      end

      # Workers ran together, each did its part, and the settings are those of the size.
      def micro_against(result)
        steps = result.fetch("steps")
        ours = Catalogue::ALL.find { |entry| entry.name == result["benchmark"] && entry.family == "micro" }
        return result["size"] == "tiny" ? [] : Micro.too_few(steps) unless ours

        sized = ours.sizes.fetch(result["size"]).transform_keys(&:to_s)
        found = differences(sized.merge(fitted(result)), result.fetch("settings"), "settings")
        found + (result["sync"] ? Micro.judge(result).first : []) + conditions(result)
      end

      # The conditions are those that the settings say.
      def conditions(result)
        told = result["conditions"] or return []
        cache, direct = result["settings"].values_at("cache", "direct")
        differences({ "cache" => cache || "cold", "durable" => true, "direct" => direct || false }, told, "conditions")
      end

      # With --seconds bytes and repetitions are not those of the size, nor is what the command line has said.
      def fitted(result)
        settings = result.fetch("settings")
        said = settings.key?("said") ? settings.slice("said", *settings["said"]) : {}
        settings.key?("seconds") ? said.merge(settings.slice("seconds", "bytes", "trials")) : said
      end

      # Of engines: each round ended well, there are enough, and all that was made was looked at.
      def rounds_against(result)
        rounds = result.fetch("rounds")
        found = rounds.filter_map { |round| "round #{round["round"] + 1}: #{round["fault"]}" if round["fault"] }
        found.concat(of_size(result)) unless result["size"] == "tiny"
        made = result.dig("instance", "bytes_out")
        checked = result.dig("verification", "checked_bytes")
        others = rounds.filter_map { |round| round["digest"] }.uniq - [result.dig("verification", "digest")]
        found << "rounds made files that differ" unless others.empty?
        found.concat(FarRounds.against(rounds, result["hosts"])) unless result["size"] == "tiny"
        looked_at = result.dig("verification", "checked_rounds")
        found << "of #{rounds.size} rounds the output of #{looked_at} was checked" if looked_at && looked_at < rounds.size
        found << "of #{made * rounds.size} bytes #{checked} were checked" if made && checked && checked < made * rounds.size
        found + unproven(result, rounds) + PageCache.faults(result.dig("conditions", "cache"), rounds)
      end

      # There are enough rounds, and they are long enough.
      def of_size(result)
        rounds = result.fetch("rounds")
        is_job = result["schema"] == "rakuda-bench-mapreduce/1"
        makespans = is_job ? MapReduce::Split.makespans(rounds) : Comparison.makespans(rounds)
        short = Launch.long?(result["size"]) ? Launch.null_faults(result["null_s"], makespans) : []
        [Figures.too_few(rounds.size, "rounds"), *short].compact
      end

      # A state of the page cache was asked for, and it is not said what was there.
      def unproven(result, rounds)
        return [] if result.dig("conditions", "cache") == "any" || !result.dig("instance", "bytes_in").to_i.positive?

        rounds.reject { |round| round.key?("resident") || round["fault"] }.map do |round|
          "round #{round["round"] + 1}: it does not say what was in the page cache"
        end
      end

      # Of what is counted nothing may differ.
      # @return [Array<String>] where it does
      def unequal(expected, found, at)
        expected.reject { |key, value| found[key] == value }
                .map { |key, value| "#{at}/#{key} is #{found[key].inspect}: expected #{value.inspect}" }
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
