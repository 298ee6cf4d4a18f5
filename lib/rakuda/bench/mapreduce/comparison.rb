# frozen_string_literal: true

require "fileutils"
require "rakuda/bench/buffered"
require "rakuda/bench/figures"
require "rakuda/bench/hosts"
require "rakuda/bench/launch"
require "rakuda/bench/machine"
require "rakuda/bench/mapreduce/engines"
require "rakuda/bench/mapreduce/job"
require "rakuda/bench/mapreduce/marks"
require "rakuda/bench/mapreduce/split"
require "rakuda/bench/page_cache"
require "rakuda/bench/places"
require "rakuda/bench/turns"
require "rakuda/bench/versions"
require "rakuda/bench/workspace"
require "securerandom"
require "time"

module Rakuda
  module Bench
    # Jobs in the shape map, shuffle, reduce, and the engines that run them.
    module MapReduce
      SCHEMA = "rakuda-bench-mapreduce/1"

      # Runs one job in several engines, round after round, in turn. Each run has a folder of its own with
      # links to the same inputs; its output is checked against what must come out, and is equal in all engines.
      class Comparison
        PHASES = "IOBENCH_PHASES"

        # @param job [Job]
        # @param engines [Array<String>]
        # @param options [Hash] :workspace, :slots, :rounds, :timeout, :cache (a state of PageCache), :say (callable),
        #   :hosts (Hosts that rounds run on, or nil; their slots count then)
        def initialize(job, engines, options)
          @job = job
          @engines = engines
          @options = options
          @rounds = engines.to_h { |engine| [engine, []] }
          @digests = {}
          @places = hosts && Places.new(hosts)
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
            break if (@ended = Turns.no_more(round, @options, @begin_ns) { @job.space_of_round })

            Turns.order(@engines, round).each_with_index { |engine, order| run(engine, round, order) }
            results = @engines.map { |engine| result(engine, machine) }
            yield results if block_given?
            Launch.foresee(@job.entry.name, @options, @begin_ns) if round.zero?
          end
          return results unless @ended

          @engines.map { |engine| result(engine, machine) }.tap { |last| yield last if block_given? }
        end

        private

        # For each program that makes inputs or looks at outputs, and for all rounds together.
        def limit = @options.fetch(:timeout)

        def inputs = File.join(@options.fetch(:workspace).path, "inputs-#{@job.entry.name}-#{@job.size}")

        def prepare
          FileUtils.rm_rf(inputs)
          FileUtils.mkdir_p(inputs)
          @job.makers.each do |command|
            output, status = Launch.capture({}, *command, timeout: limit, chdir: inputs)
            raise Failure, "#{File.basename(command.first)} failed: #{Launch.reason(output)}" unless status.success?
          end
          @reference = @job.reference(inputs, limit)
        end

        def run(engine, round, order)
          folder = File.join(@options.fetch(:workspace).path, "#{engine}-#{round}")
          taken = { "round" => round, "order" => order }.merge(measure(engine, folder))
          @rounds.fetch(engine) << taken
          tell(engine, taken)
        ensure
          Workspace.remove(folder) if folder
        end

        # @return [Hosts, nil]
        def hosts = @options[:hosts]

        def tell(engine, taken)
          text = taken["fault"] || Figures.seconds((taken["end_ns"] - taken["start_ns"]) / 1e9)
          @options.fetch(:say).call("#{@job.entry.name} on #{engine}, round #{taken["round"] + 1}: #{text}")
        end

        def placed(engine, folder)
          FileUtils.rm_rf(folder)
          FileUtils.mkdir_p(folder)
          @job.inputs.each { |file| FileUtils.ln(File.join(inputs, file), File.join(folder, file)) }
          Engines.write(engine, @job, writers, folder)
        end

        # A stream has a writer for each slot, or for each map where slots are not known before.
        def writers = hosts ? @job.map_inputs.size : @options.fetch(:slots)

        def measure(engine, folder)
          placed(engine, folder)
          Turns.settle(folder, @options.fetch(:timeout)) unless hosts
          # What hosts have in memory is not looked at.
          resident = hosts ? nil : PageCache.prepare(@options.fetch(:cache), @job.inputs.map { |input| File.join(folder, input) })
          marks = File.join(folder, ".phases")
          span = timed(engine, folder, marks)
          marks = Marks.new(marks, { "map" => @job.map_inputs.size, "reduce" => @job.reducers })
          parts = hosts ? far_parts(engine, folder, marks, span) : marks.near
          digest = @job.verify(folder, limit)
          (@digests[engine] ||= []) << digest
          { "start_ns" => span.start, "end_ns" => span.finish, "resident" => resident, "digest" => digest }.compact.merge(parts)
        rescue Failure, SystemCallError => e
          { "fault" => e.message }
        end

        # Runs the engine.
        # @return [Hosts::Span]
        # @raise [Failure] with what went wrong
        def timed(engine, folder, marks)
          hosts ? Dir.mkdir(marks) : File.write(marks, "")
          environment = Engines.environment(engine).merge(PHASES => marks)
          environment = hosts.environment(environment) if hosts
          command = Engines.command(engine, @job, @options[:slots], hosts)
          start, wall = Hosts.now
          fault = Launch.call(command, folder, environment, [Launch.left(@options, @begin_ns), 1].max,
                              grace: hosts ? Hosts::GRACE_S : 0)
          finish, wall_finish = Hosts.now
          raise Failure, fault if fault

          Hosts::Span.new(start, finish, wall, wall_finish)
        end

        # Where maps and reduces ran, and between which moments their commands did, by the record of the round.
        # @return [Hash] with nodes themselves, which get their numbers when all are known
        def far_parts(engine, folder, marks, span)
          record = @places.record(folder)
          maps, reduces = Engines.commands(engine, @job)
          parts = marks.far(maps, reduces)
          all = (maps + reduces).map { |words| command(record, words) }
          times = Hosts.within(span, all.map { |one| [one.first_ns, one.last_ns] })
          split = ->(list) { [list.take(maps.size), list.drop(maps.size)] }
          map_nodes, reduce_nodes = split.call(all.map(&:node))
          map_times, reduce_times = split.call(times)
          parts.merge("nodes" => record.nodes, "maps" => @job.map_names, "maps_hosts" => map_nodes,
                      "maps_commands_ns" => map_times, "reduces" => @job.reduce_names, "reduces_hosts" => reduce_nodes,
                      "reduces_commands_ns" => reduce_times)
        end

        # @return [RunRecord::Command]
        # @raise [Failure]
        def command(record, words)
          found = record.commands.fetch(words, [])
          raise Failure, "its record has #{found.size} commands #{words.drop(1).first(3).join(" ")}" unless found.one?
          raise Failure, "its record does not say where #{words.drop(1).first(3).join(" ")} ran" unless found.first.node

          found.first
        end

        def result(engine, machine)
          rounds = @rounds.fetch(engine)
          reasons = reasons(engine, rounds)
          { "schema" => SCHEMA, "id" => ids[engine], "comparison" => ids[:all], "benchmark" => @job.entry.name,
            "family" => "mapreduce",
            "size" => @job.size, "instance" => @job.instance,
            "engine" => { "name" => engine, "version" => version(engine), "slots" => slots,
                          "style" => Engines::ALL.fetch(engine) }.compact,
            "machine" => machine, **(@places&.described || {}),
            "programs" => Versions.of(@job.entry.needs + Engines.programs(engine)),
            "conditions" => { "cache" => @options.fetch(:cache), "durable" => false },
            "null_s" => @null_s, "rounds" => rounds.map { |round| described(round) },
            "derived" => Split.derived(rounds, @job.bytes),
            "verification" => { "method" => @job.verified_by, "digest" => @digests[engine]&.first,
                                "checked_rounds" => @digests.fetch(engine, []).size },
            "notes" => notes(machine, rounds),
            "valid" => reasons.empty?, "reasons" => reasons,
            "started_at" => @started.utc.iso8601, "ended_at" => Time.now.utc.iso8601 }
        end

        # @return [Integer, nil] nil over hosts, when no round was run to its end
        def slots = @places ? @places.slots : @options.fetch(:slots)

        # With the numbers of nodes in place of themselves.
        def described(round)
          return round unless round.key?("nodes")

          numbers = %w[maps_hosts reduces_hosts].to_h { |key| [key, @places.numbers(round[key])] }
          round.merge(numbers, "nodes" => round["nodes"].size)
        end

        # How much may be dirty in memory is known of this machine alone.
        def notes(machine, rounds)
          found = Buffered.notes(nil, hosts ? {} : machine) + (hosts&.notes || [])
          found.concat(too_late(rounds)) if hosts && tiny?
          Launch.long?(@job.size) ? found : found + null_faults(rounds)
        end

        def tiny? = @job.size == "tiny"

        def too_late(rounds)
          @places.too_late(rounds.select { |round| round.key?("nodes") }.map { |round| [round["round"], round["nodes"].size] })
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
          found.concat(too_late(rounds)) if hosts && !tiny?
          found.concat(null_faults(rounds)) if Launch.long?(@job.size)
          few = Figures.too_few(@options.fetch(:rounds), "rounds") unless tiny?
          [*found, *few]
        end
      end
    end
  end
end
