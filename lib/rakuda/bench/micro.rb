# frozen_string_literal: true

require "json"
require "rakuda/bench/catalogue"
require "rakuda/bench/figures"
require "rakuda/bench/programs"
require "securerandom"
require "shellwords"
require "time"

module Rakuda
  module Bench
    # Micro-benchmarks: a program of one thread, run by all workers at the same time. Here is what the Rakefile says of them, and
    # what their output says together.
    module Micro
      SCHEMA = "rakuda-bench-micro/1"
      # Behind the name of a step that is repeated.
      NUMBER = /-\d+\z/
      # What of the time may pass between the first and the last worker to begin (Iwai, Tatebe, Tanaka 2016: 5.4.1).
      SKEW_MAX = 0.01
      # Time for which the largest blocks are read from memory, over and over, s: once is too short to be measured.
      REREAD_S = 2
      # The parameter of the round that removes files.
      CLEAN = "clean"

      module_function

      # Each step is a round of `sync`: all workers begin it at one instant. Before it they make the folder where that is not
      # there, as nodes may have one of their own; in a last round they remove what is theirs.
      # @param work [String] folder for files
      # @return [String] rules of the Rakefile whose last makes the file of the part: what the workers printed, as JSON
      def rules(part, before, work, workers, keep:)
        name = part.entry.name
        folder = part.base
        steps = name == "fio" ? fio_steps(part, work) : metadata_steps(part, work)
        words = Shellwords.escape(work)
        steps = steps.merge(CLEAN => ["sh", "-c", "rm -f #{words}/fio.%w; rmdir #{words} 2>/dev/null; true"]) unless keep
        <<~RUBY
          directory #{folder.inspect}
          #{name}_steps = #{steps.inspect}
          sync({ #{rounds_of(part).inspect} => #{[folder, before].compact.inspect} }, workers: #{workers}, over: #{name}_steps.keys, warm_up: 1) do |w|
            next sh("mkdir", "-p", #{work.inspect}, verbose: false) if w.repetition.negative?

            words = #{name}_steps.fetch(w.parameter).map { |word| word.gsub("%w", w.id.to_s) }
            next sh(*words, verbose: false) if w.parameter == #{CLEAN.inspect}

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
      SETTINGS = { "fio" => { bytes: :file_size, blocks: :blocks, trials: :rounds },
                   "metadata" => { operations: :operations, trials: :rounds } }.freeze

      # @param options [Options]
      # @return [Hash, nil] the settings of a size with what the command line says; nothing where it says nothing
      # @raise [UsageError] for a size that is found by trial, and said
      def own_settings(entry, scale, options)
        given = SETTINGS.fetch(entry.name).select { |_, option| options.given?(option) }
        return if given.empty?

        if options.given?(:seconds) && given.value?(:file_size)
          raise UsageError, "--seconds finds the size of files, and --file-size says it: give one of them"
        end
        Catalogue.settings(entry, scale).merge(given.transform_values { |option| options[option] }, said: given.keys.map(&:to_s))
      end

      # @return [String] name of the statement `sync`
      def rounds_of(part) = "#{part.entry.name}-#{part.scale}-rounds"

      # @return [Hash{String => Array<String>}] a command for each step; %w is the worker
      def metadata_steps(part, work)
        settings = part.settings
        command = [Programs.own("metadata-ops"), "--dir", "#{work}/metadata.%w", "--operations", settings.fetch(:operations).to_s]
        settings.fetch(:trials).times.to_h { |trial| ["metadata-#{trial}", command] }
      end

      # Written and flushed, then read from disk: fio drops a file's pages before it reads. Last, the largest blocks are read once
      # more, from memory. All that is repeated, so that a repetition of each lies between those of the others.
      def fio_steps(part, work)
        settings = part.settings
        steps = settings.fetch(:blocks).product(%w[write read]) + [[settings.fetch(:blocks).last, "reread"]]
        settings.fetch(:trials).times.to_a.product(steps).to_h do |trial, (block, step)|
          words = [Programs.need("fio"), "--name=worker", "--rw=#{step == "write" ? "write" : "read"}", "--bs=#{block}",
                   "--size=#{settings.fetch(:bytes)}", "--filename=#{work}/fio.%w", "--ioengine=psync", "--output-format=json",
                   "--thread"]
          words << { "write" => "--end_fsync=1", "read" => "--invalidate=1", "reread" => "--invalidate=0" }.fetch(step)
          words.push("--time_based", "--runtime=#{REREAD_S}") if step == "reread" && part.scale != "tiny"
          ["#{step}-#{block}-#{trial}", words]
        end
      end

      # What the simulator takes for `--rates`: what one transfer reaches with the largest blocks, in MiB/s. Of other nodes
      # nothing is known here: the own disk and memory stand for theirs.
      # @param result [Hash] of fio
      # @return [Array<Integer>] own disk, own memory, another's disk, another's memory, write
      def rates(result)
        block = result.fetch("settings").fetch("blocks").last
        disk, memory, write = %w[read reread write].map do |step|
          outputs = result.fetch("steps").select { |name, _| name.sub(NUMBER, "") == "#{step}-#{block}" }.values.flatten
          seconds = outputs.sum { |one| one["end_ns"] - one["start_ns"] } / 1e9
          [(outputs.sum { |one| one["bytes"] } / seconds / (1 << 20)).round, 1].max
        end
        [disk, memory, disk, memory, write]
      end

      # @return [Integer] bytes that are there at the same time
      def bytes(part, workers)
        settings = part.settings
        part.entry.name == "fio" ? settings.fetch(:bytes) * workers : 0
      end

      # @param printed [Array] name of the step, number of the node, what a worker printed
      # @param sync [Hash] see {.sync}
      # @return [Hash] the result
      def result(part, printed, machine, workers, sync)
        raw = printed.group_by(&:first).transform_values do |lines|
          lines.map { |_, node, output| (part.entry.name == "fio" ? fio_raw(output) : output).merge("node" => node) }
        end
        reasons = raw.filter_map { |name, outputs| "#{name}: #{outputs.size} of #{workers} workers" if outputs.size != workers }
        sync = sync.merge("together" => together(raw, sync))
        reasons += apart(raw, sync) + too_few(raw) unless part.scale == "tiny"
        described(part, raw, machine, workers, reasons).merge("sync" => sync)
      end

      # What is known of the rounds of a part: overhead, the largest start lag and what it is known to within, rounds with a late
      # worker.
      # @param part [Measured::Part]
      # @param all [Array<Hash>] rounds of the report of the run
      # @return [Hash]
      def sync(part, all)
        rounds = all.select do |round|
          round["sync"] == rounds_of(part) && round["kind"] == "counted" && round["parameter"] != CLEAN
        end
        { "overhead_s" => rounds.filter_map { |round| round["overhead_s"] }.first,
          "lag_s" => rounds.filter_map { |round| round["lag_s"] }.max,
          "clock_bound_s" => rounds.map { |round| round["clock_bound_s"] }.max || 0.0,
          "rounds" => rounds.size, "rounds_late" => rounds.count { |round| round["late"].positive? } }.compact
      end

      # The part of the time of the shortest program in which all run together: less the overhead (2016 paper, 5.4.1), or the
      # start lag where that was longer.
      def together(raw, sync)
        shortest = shortest(raw)
        return 0.0 unless shortest.positive?

        [1.0 - (apart_s(sync) / shortest), 0.0].max
      end

      # @return [Float] how long the shortest program of any worker ran, s
      def shortest(raw) = raw.values.flatten.map { |one| one.fetch("end_ns") - one.fetch("start_ns") }.min.to_i / 1e9

      # @return [Float] for so long not all workers run, s
      def apart_s(sync) = sync.values_at("overhead_s", "lag_s").compact.max.to_f

      # Why workers did not run together for long enough.
      def apart(raw, sync)
        skew = derived(raw).map { |one| one["start_skew"] }.max
        reasons = []
        reasons << "workers began up to #{(skew * 100).round(1)} % of the time apart: expected at most 1 %" if skew > SKEW_MAX
        if sync["together"] < 1 - SKEW_MAX
          reasons << "all workers ran together for #{(sync["together"] * 100).floor(1)} % of the shortest program's time: " \
                     "expected at least 99 %"
        end
        reasons
      end

      # Why there are no intervals worth the name.
      def too_few(raw)
        raw.keys.group_by { |name| name.sub(NUMBER, "") }.filter_map do |name, ones|
          few = Figures.too_few(ones.size, "repetitions")
          "#{name}: #{few}" if few
        end
      end

      # @param raw [Hash] what each worker measured, by step
      # @return [Hash] the result
      def described(part, raw, machine, workers, reasons)
        { "schema" => SCHEMA, "id" => SecureRandom.uuid, "benchmark" => part.entry.name, "family" => part.entry.family,
          "size" => part.scale,
          "workers" => workers, "settings" => part.settings.transform_keys(&:to_s),
          "machine" => machine, "steps" => raw, "derived" => derived(raw), "valid" => reasons.empty?, "reasons" => reasons,
          "ended_at" => Time.now.utc.iso8601 }
      end

      # What of fio's report is kept: figures that its version 3.33 gets right when a job only reads or only writes. It tells
      # when it ended, and how long it took, in ms.
      def fio_raw(output)
        job = output.fetch("jobs").first
        way = %w[read write].find { |name| job.fetch(name).fetch("io_bytes").positive? }
        end_ms = output.fetch("timestamp_ms")
        took_ms = [job.fetch("job_runtime"), job.fetch(way).fetch("runtime")].max
        { "bytes" => job.fetch(way).fetch("io_bytes"), "start_ns" => (end_ms - took_ms) * 1_000_000,
          "end_ns" => end_ms * 1_000_000, "calls" => job.fetch(way).fetch("total_ios") }
      end

      # The figures of a result from what the workers printed. Times of different nodes are not compared: of several, the longest
      # counts. Steps whose names differ in a number at the end are repetitions.
      # @return [Array<Hash>]
      def derived(raw)
        kinds = raw.select { |_, outputs| outputs.first.key?("ns") }
        groups = raw.except(*kinds.keys).group_by { |name, _| name.sub(NUMBER, "") }
        of_steps = groups.map do |name, ones|
          repetitions = ones.map(&:last)
          moved = repetitions.flatten.sum { |output| output.fetch("bytes") }
          moved.zero? ? counted(name, repetitions) : bandwidth(name, repetitions)
        end
        of_steps + (kinds.empty? ? [] : operations(kinds.values))
      end

      # From the first worker of a node to begin to the last to end.
      # @return [Array(Float, Float)] the time, s; the part of it between the first and the last to begin
      def span(outputs)
        begin_ns, end_ns = outputs.map { |one| one.fetch("start_ns") }, outputs.map { |one| one.fetch("end_ns") }
        time = [(end_ns.max - begin_ns.min) / 1e9, 1e-9].max
        [time, (begin_ns.max - begin_ns.min) / 1e9 / time]
      end

      def by_node(outputs) = outputs.group_by { |one| one["node"].to_i }.sort.map(&:last)

      # All bytes / the sum of the times of the repetitions, and what single repetitions have reached.
      # @param repetitions [Array<Array<Hash>>]
      def bandwidth(name, repetitions)
        once = repetitions.map { |outputs| transfer(outputs) }
        time = once.sum { |one| one[:time] }
        figures = { "name" => name, "bw" => once.sum { |one| one[:bytes].sum } / time, "time_s" => time,
                    "start_skew" => once.map { |one| one[:skew] }.max }
        figures.merge!(spread(once.map { |one| one[:bytes].sum / one[:time] }, "bw")) if once.size > 1
        return figures if once.first[:bytes].size == 1

        bytes, spans = %i[bytes spans].map { |key| once.map { |one| one[key] }.transpose.map(&:sum) }
        figures.merge("nodes_bw" => bytes.zip(spans).map { |sum, spent| sum / spent })
      end

      # Of a step that moves no bytes: calls of each worker / its time, added; the mean of the repetitions.
      # @param repetitions [Array<Array<Hash>>]
      def counted(name, repetitions)
        once = repetitions.map { |outputs| transfer(outputs) }
        rates = repetitions.map { |outputs| outputs.sum { |one| one.fetch("calls") * 1e9 / (one["end_ns"] - one["start_ns"]) } }
        figures = { "name" => name, "ops_per_s" => mean(rates), "time_s" => once.map { |one| one[:time] }.max,
                    "start_skew" => once.map { |one| one[:skew] }.max }
        rates.size > 1 ? figures.merge(spread(rates, "ops_per_s")) : figures
      end

      # One repetition: bytes and time of each node, the longest of these times, and the largest skew.
      def transfer(outputs)
        nodes = by_node(outputs)
        spans = nodes.map { |ones| span(ones) }
        { bytes: nodes.map { |ones| ones.sum { |one| one["bytes"] } }, spans: spans.map(&:first),
          time: spans.map(&:first).max, skew: spans.map(&:last).max }
      end

      # @param rates [Array<Numeric>] of repetitions
      # @param unit [String] bw or ops_per_s
      def spread(rates, unit)
        summary = Figures.summary(rates)
        { "reps" => rates.size, "median_#{unit}" => summary["median"], "min_#{unit}" => summary["min"],
          "max_#{unit}" => summary["max"], "ci95" => summary["ci95"] }
      end

      # Means over the trials.
      # @param trials [Array<Array<Hash>>]
      def operations(trials)
        spans = trials.flat_map { |outputs| by_node(outputs).map { |ones| span(ones) } }
        trials.first.first.fetch("ns").keys.map do |kind|
          nodes = trials.map { |outputs| by_node(outputs).map { |ones| ones.sum { |one|
 one.fetch("operations") * 1e9 / one.fetch("ns").fetch(kind) } } }
          rates = nodes.map(&:sum)
          figures = { "name" => kind, "ops_per_s" => mean(rates), "time_s" => spans.map(&:first).max,
                      "start_skew" => spans.map(&:last).max }
          figures.merge!(spread(rates, "ops_per_s")) if trials.size > 1
          figures["nodes_ops_per_s"] = nodes.transpose.map { |of_node| mean(of_node) } if nodes.first.size > 1
          figures
        end
      end

      def mean(values) = values.sum / values.size
    end
  end
end
