# frozen_string_literal: true

require "fileutils"
require "rakuda/bench/buffered"
require "rakuda/bench/figures"
require "rakuda/bench/launch"
require "rakuda/bench/machine"
require "rakuda/bench/mapreduce/engines"
require "rakuda/bench/mapreduce/job"
require "rakuda/bench/mapreduce/split"
require "rakuda/bench/page_cache"
require "rakuda/bench/versions"
require "securerandom"
require "time"

module Rakuda
  module Bench
    # Jobs in the shape map, shuffle, reduce, and the engines that run them.
    module MapReduce
      SCHEMA = "rakuda-bench-mapreduce/1"

      # Runs one job in several engines, round after round, in an order that rotates. Each run has a folder of its own with
      # links to the same inputs; its output is checked against what must come out, and is equal in all engines.
      class Comparison
        PHASES = "IOBENCH_PHASES"

        # @param job [Job]
        # @param engines [Array<String>]
        # @param options [Hash] :workspace, :slots, :rounds, :timeout, :cache (a state of PageCache), :say (callable)
        def initialize(job, engines, options)
          @job = job
          @engines = engines
          @options = options
          @rounds = engines.to_h { |engine| [engine, []] }
          @digests = {}
        end

        # @yieldparam results [Array<Hash>] a result for each engine, after each round
        # @return [Array<Hash>] those after the last round
        def call
          @started = Time.now
          machine = Machine.describe(@options.fetch(:workspace).path)
          prepare
          @null_s = Launch.null_s
          @begin_ns = Launch.now_ns
          results = []
          @options.fetch(:rounds).times do |round|
            break if (@ended = no_more(round))

            @engines.rotate(round % @engines.size).each_with_index { |engine, order| run(engine, round, order) }
            results = @engines.map { |engine| result(engine, machine) }
            yield results if block_given?
            Launch.foresee(@job.entry.name, @options, @begin_ns) if round.zero?
          end
          return results unless @ended

          @engines.map { |engine| result(engine, machine) }.tap { |last| yield last if block_given? }
        end

        private

        # @return [String, nil] why there is no such round after those that were
        def no_more(round)
          return if round.zero? || Launch.left(@options, @begin_ns).positive?

          "--timeout #{@options.fetch(:timeout)} s has passed"
        end

        def inputs = File.join(@options.fetch(:workspace).path, "inputs-#{@job.entry.name}-#{@job.size}")

        def prepare
          FileUtils.rm_rf(inputs)
          FileUtils.mkdir_p(inputs)
          @job.makers.each do |command|
            output, status = Launch.capture({}, *command, chdir: inputs)
            raise Failure, "#{File.basename(command.first)} failed: #{Launch.reason(output)}" unless status.success?
          end
          @reference = @job.reference(inputs)
        end

        def run(engine, round, order)
          folder = File.join(@options.fetch(:workspace).path, "#{engine}-#{round}")
          taken = { "round" => round, "order" => order }.merge(measure(engine, folder))
          @rounds.fetch(engine) << taken
          tell(engine, taken)
        ensure
          FileUtils.rm_rf(folder) if folder
        end

        def tell(engine, taken)
          text = taken["fault"] || Figures.seconds((taken["end_ns"] - taken["start_ns"]) / 1e9)
          @options.fetch(:say).call("#{@job.entry.name} on #{engine}, round #{taken["round"] + 1}: #{text}")
        end

        def placed(engine, folder)
          FileUtils.rm_rf(folder)
          FileUtils.mkdir_p(folder)
          @job.inputs.each { |file| FileUtils.ln(File.join(inputs, file), File.join(folder, file)) }
          Engines.write(engine, @job, @options.fetch(:slots), folder)
        end

        def measure(engine, folder)
          placed(engine, folder)
          marks = File.join(folder, ".phases")
          File.write(marks, "")
          environment = Engines.environment(engine).merge(PHASES => marks)
          command = Engines.command(engine, @job, @options.fetch(:slots))
          resident = PageCache.prepare(@options.fetch(:cache), @job.inputs.map { |input| File.join(folder, input) })
          start = Launch.now_ns
          fault = Launch.call(command, folder, environment, [Launch.left(@options, @begin_ns), 1].max)
          finish = Launch.now_ns
          raise Failure, fault if fault

          parts = parts(File.readlines(marks).map(&:split))
          (@digests[engine] ||= []) << @job.verify(folder)
          { "start_ns" => start, "end_ns" => finish, "resident" => resident }.compact.merge(parts)
        rescue Failure, SystemCallError => e
          { "fault" => e.message }
        end

        # @param lines [Array<Array<String>>] part, begun, in order, ended, bytes given to the shuffle
        def parts(lines)
          maps, reduces = %w[map reduce].map { |name| lines.select { |line| line.first == name } }
          counts = [maps.size, reduces.size]
          expected = [@job.map_inputs.size, @job.reducers]
          raise Failure, "#{counts.join(" maps and ")} reduces ran: expected #{expected.join(" and ")}" unless counts == expected

          numbers = ->(line) { line.drop(1).map { |word| Integer(word) } }
          { "maps_ns" => maps.map { |line| numbers[line].values_at(0, 2) }.sort,
            "reduces_ns" => reduces.map { |line| numbers[line].take(3) }.sort,
            "shuffle_bytes" => lines.sum { |line| numbers[line].last } }
        end

        def result(engine, machine)
          rounds = @rounds.fetch(engine)
          reasons = reasons(engine, rounds)
          { "schema" => SCHEMA, "id" => ids[engine], "comparison" => ids[:all], "benchmark" => @job.entry.name,
            "family" => "mapreduce",
            "size" => @job.size, "instance" => @job.instance,
            "engine" => { "name" => engine, "version" => version(engine), "slots" => @options.fetch(:slots),
                          "style" => Engines::ALL.fetch(engine) },
            "machine" => machine, "programs" => Versions.of(@job.entry.needs + Engines.programs(engine)),
            "conditions" => { "cache" => @options.fetch(:cache), "durable" => false },
            "null_s" => @null_s, "rounds" => rounds,
            "derived" => Split.derived(rounds, @job.bytes),
            "verification" => { "method" => @job.verified_by, "digest" => @digests[engine]&.first,
                                "checked_rounds" => @digests.fetch(engine, []).size },
            "notes" => notes(machine, rounds),
            "valid" => reasons.empty?, "reasons" => reasons,
            "started_at" => @started.utc.iso8601, "ended_at" => Time.now.utc.iso8601 }
        end

        def notes(machine, rounds)
          Buffered.notes(nil, machine) + (Launch.long?(@job.size) ? [] : null_faults(rounds))
        end

        # Of each result, and of all together.
        def ids = @ids ||= Hash.new { |all, name| all[name] = SecureRandom.uuid }

        def version(engine) = (@versions ||= {})[engine] ||= Engines.version(engine)

        def null_faults(rounds) = Launch.null_faults(@null_s, Split.makespans(rounds))

        def reasons(engine, rounds)
          found = rounds.filter_map { |round| round["fault"] && "round #{round["round"] + 1}: #{round["fault"]}" }
          others = ->(digest) { !(@digests.fetch(engine, []) - [digest]).empty? }
          found << "its output is not that of most runs" if others[@digests.values.flatten.tally.max_by(&:last)&.first]
          found << "its output is not that without an engine" if @reference && others[@reference]
          found.concat(PageCache.faults(@options.fetch(:cache), rounds))
          found.concat(Launch.unfinished(rounds.size, @options.fetch(:rounds), @ended))
          found.concat(null_faults(rounds)) if Launch.long?(@job.size)
          few = Figures.too_few(@options.fetch(:rounds), "rounds") unless @job.size == "tiny"
          [*found, *few]
        end
      end
    end
  end
end
