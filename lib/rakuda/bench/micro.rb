# frozen_string_literal: true

require "json"
require "rakuda/bench/catalogue"
require "rakuda/bench/figures"
require "rakuda/bench/micro_cache"
require "rakuda/bench/micro_figures"
require "rakuda/bench/micro_rounds"
require "rakuda/bench/micro_steps"
require "rakuda/bench/others"
require "securerandom"
require "time"

module Rakuda
  module Bench
    # Micro-benchmarks: a program of one thread, run by all workers at the same time. Here is what the Rakefile says of
    # them, and what their output says together.
    module Micro
      SCHEMA = "rakuda-bench-micro/1"
      # File systems whose files are in memory, whatever is dropped from the page cache.
      MEMORY = %w[tmpfs ramfs].freeze

      module_function

      # Each step is a round of `sync`: all workers begin it at one instant. Before it they make the folder where that
      # is not there, as nodes may have one of their own; in a last round they remove what is theirs.
      # @param work [String] folder for files
      # @return [String] rules of the Rakefile whose last makes the file of the part: what the workers printed, as JSON
      def rules(part, before, work, workers, keep:)
        name = part.entry.name
        folder = part.base
        steps = MicroSteps.of(part, work)
        steps = steps.merge(MicroSteps::CLEAN => MicroSteps.clean(part, work)) unless keep
        <<~RUBY
          directory #{folder.inspect}
          #{name}_steps = #{steps.inspect}
          sync({ #{rounds_of(part).inspect} => #{[folder, before].compact.inspect} }, workers: #{workers}, over: #{name}_steps.keys, warm_up: 1#{MicroSteps.keywords(part, work)}) do |w|
            words = w.repetition.negative? ? #{MicroSteps.make(part, work).inspect} : #{name}_steps.fetch(w.parameter)
            words = words.map { |word| word.gsub("%w", w.id.to_s) }
            next sh(*words, verbose: false) if w.repetition.negative? || w.parameter == #{MicroSteps::CLEAN.inspect}

            sh(*words, out: "#{folder}/\#{w.round}-\#{w.parameter}.\#{w.node_rank}.\#{w.id}")
          end
          file(#{part.file.inspect} => #{rounds_of(part).inspect}) do |t|
            require "json"
            paths = Dir["#{folder}/*"].sort_by { |path| [path[%r{/(\\d+)}, 1].to_i, path[/\\d+\\z/].to_i] }
            printed = paths.map do |path|
              step, node = path.match(%r{/\\d+-(.+)\\.(\\d+)\\.\\d+\\z}).captures
              [step, node.to_i, JSON.parse(File.read(path))]
            end
            File.write(t.name, JSON.generate(printed))
          end
        RUBY
      end

      # What of a size the command line has otherwise: the command line's name of each setting.
      SETTINGS = { "bandwidth" => { bytes: :file_size, blocks: :blocks, trials: :rounds, cache: :cache, direct: :direct },
                   "fio" => { bytes: :file_size, blocks: :blocks, trials: :rounds, cache: :cache },
                   "metadata" => { operations: :operations, trials: :rounds } }.freeze
      # Of these, what tells under which conditions it was measured, and not what.
      CONDITIONS = %w[cache direct].freeze

      # @param options [Options]
      # @return [Hash, nil] the settings of a size with what the command line says; nothing where it says nothing
      # @raise [UsageError] for a size that is found by trial, and said
      def own_settings(entry, scale, options)
        given = SETTINGS.fetch(entry.name).select { |_, option| options.given?(option) }
        return if given.empty?

        if options.given?(:seconds) && given.value?(:file_size)
          raise UsageError, "--seconds finds the size of files, and --file-size says it: give one of them"
        end
        if options.given?(:cache) && options[:cache] == "warm"
          raise UsageError, "--cache warm: #{entry.name} rereads from memory as it is; expected cold, or any"
        end
        Catalogue.settings(entry, scale).merge(given.transform_values { |option| options[option] }, said: given.keys.map(&:to_s))
      end

      # @return [String] name of the statement `sync`
      def rounds_of(part) = "#{part.entry.name}-#{part.scale}-rounds"

      # @return [Integer] bytes that are there at the same time
      def bytes(part, workers)
        settings = part.settings
        settings.key?(:bytes) ? settings.fetch(:bytes) * workers : 0
      end

      # @param printed [Array] name of the step, number of the node, what a worker printed
      # @param rounds [Array<Hash>] of the report of the run
      # @param events [Array<Hash>] round_ended of its journal
      # @return [Hash] the result
      def result(part, printed, machine, workers, rounds, events)
        checks, printed = printed.partition { |name, _, _| name.start_with?(MicroSteps::CHECK) }
        raw = printed.group_by(&:first).transform_values do |lines|
          lines.map { |_, node, output| MicroSteps.raw(part.entry.name, output).merge("node" => node) }
        end
        sync = MicroRounds.raw(rounds_of(part), events)
        sync = { **MicroRounds.figures(sync), **sync }
        more = { "sync" => sync.merge("together" => MicroFigures.together(raw, sync)) }
        more.merge!(conditions(part), "cache" => cache(part, printed, rounds)) if part.settings.key?(:bytes)
        more["verification"] = { "checked_bytes" => checks.sum { |_, _, output| output.fetch("checked_bytes") } } if checks.any?
        result = described(part, raw, machine, workers, []).merge(more)
        judged(result, *judge(result))
      end

      # @return [Array(Array<String>, Array<String>)] why a result is not valid, and what must be known of it
      def judge(result)
        tiny, raw = result["size"] == "tiny", result["steps"]
        reasons = raw.filter_map { |name, outputs| workers_missing(name, outputs, result["workers"]) } + unchecked(result)
        reasons += apart(raw, result["sync"]) + too_few(raw) unless tiny
        doubts = MicroCache.faults(result)
        [reasons + (tiny ? [] : doubts), tiny ? doubts : []]
      end

      def workers_missing(name, outputs, workers)
        "#{name}: #{outputs.size} of #{workers} workers" if outputs.size != workers
      end

      # All that was read first must have been compared.
      def unchecked(result)
        checked = result.dig("verification", "checked_bytes") or return []
        settings = result["settings"]
        asked = settings["bytes"] * settings["blocks"].size * settings["trials"] * result["workers"]
        checked == asked ? [] : ["of #{asked} bytes #{checked} were checked"]
      end

      def judged(result, reasons, doubts)
        result.merge("valid" => reasons.empty?, "reasons" => reasons, "notes" => doubts + notes(result))
      end

      # What a figure is of, by the file system alone.
      def notes(result)
        type = result.dig("machine", "fs", "type").to_s
        notes = []
        notes << "files were in memory (#{type}): no figure is one of a disk" if MEMORY.include?(type)
        notes << "nothing tells what of files on an overlay was in the page cache" if type == "overlay"
        if result["family"] == Others::FAMILY && result["steps"].keys.any? { |name| name.match?(/read/) }
          notes << "nothing tells whether what it read came from memory"
        end
        notes + MicroFigures.left_out(result["steps"]).map do |step, skew|
          "#{step} counts in no figure: its workers began #{percent(skew)} of its time apart"
        end
      end

      def conditions(part)
        { "conditions" => { "cache" => part.settings.fetch(:cache, "cold"), "durable" => true,
                            "direct" => part.settings.fetch(:direct, false) } }
      end

      # What was in the page cache before each reading step: by the gates of fio's rounds, or as the program says.
      # @return [Hash{String => Hash}] bytes of all workers' files, and those in memory (nil: not known), by step
      def cache(part, printed, rounds)
        if part.entry.name == "fio"
          own = rounds.select { |round| round["sync"] == rounds_of(part) && round["kind"] == "counted" }
          own = own.select { |round| round["cache"] && round["parameter"].start_with?("read-") }
          return own.to_h do |round|
            [round["parameter"], MicroCache.sum([round.values_at("cache_bytes", "cache_resident_bytes")])]
          end
        end
        told = printed.select { |_, _, output| output.key?("cache") }.group_by(&:first)
        told.transform_values do |lines|
          MicroCache.sum(lines.map { |line| line.last["cache"].values_at("bytes", "resident_bytes") })
        end
      end

      # Why workers did not run together for long enough.
      def apart(raw, sync)
        skew = MicroFigures.derived(raw).map { |one| one["start_skew"] }.max
        reasons = []
        reasons << "workers began up to #{percent(skew)} of the time apart: expected at most 1 %" if skew > MicroFigures::SKEW_MAX
        if sync["together"] < 1 - MicroFigures::SKEW_MAX
          reasons << "all workers ran together for #{(sync["together"] * 100).floor(1)} % of the shortest program's time: " \
                     "expected at least 99 %"
        end
        reasons
      end

      def percent(part) = "#{(part * 100).round(1)} %"

      # Why there are no intervals worth the name.
      def too_few(raw)
        raw.keys.group_by { |name| name.sub(MicroSteps::NUMBER, "") }.filter_map do |name, ones|
          few = Figures.too_few(ones.size, "repetitions")
          "#{name}: #{few}" if few
        end
      end

      # @param raw [Hash] what each worker measured, by step
      # @return [Hash] the result
      def described(part, raw, machine, workers, reasons)
        { "schema" => SCHEMA, "id" => SecureRandom.uuid, "benchmark" => part.entry.name, "family" => part.entry.family,
          "size" => part.scale, "workers" => workers, "settings" => part.settings.transform_keys(&:to_s),
          "machine" => machine, "steps" => raw, "derived" => MicroFigures.derived(raw),
          "valid" => reasons.empty?, "reasons" => reasons,
          "ended_at" => Time.now.utc.iso8601 }
      end
    end
  end
end
