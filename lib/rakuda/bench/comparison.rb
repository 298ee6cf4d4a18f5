# frozen_string_literal: true

require "fileutils"
require "rakuda/bench/buffered"
require "rakuda/bench/engines"
require "rakuda/bench/figures"
require "rakuda/bench/hosts"
require "rakuda/bench/instance"
require "rakuda/bench/launch"
require "rakuda/bench/machine"
require "rakuda/bench/page_cache"
require "rakuda/bench/places"
require "rakuda/bench/turns"
require "rakuda/bench/versions"
require "rakuda/bench/workspace"
require "securerandom"
require "time"

module Rakuda
  module Bench
    # Runs one workflow in several engines, round after round, in turn. Each run has a folder of its own with links to
    # the same inputs; what it made must be equal, byte by byte, to what every other run made, and every task must have
    # run once: each writes a line when it began and ended, in all engines alike.
    class Comparison
      # One run of one engine. Times are s; `tasks` are pairs of ns of CLOCK_MONOTONIC of the task's host, `names` those
      # of the same tasks. Over hosts, `nodes` are those that came before its end, `hosts` the nodes of the tasks, and
      # `commands` what Hosts.commands_ns says.
      Round = Struct.new(:round, :order, :makespan, :startup, :tail, :busy, :tasks, :names, :nodes, :hosts, :commands, :digest,
                         :fault, :resident, keyword_init: true)

      TRACE = "IOBENCH_TRACE"
      WORKFLOW_SCHEMA = "rakuda-bench-workflow/1"

      class << self
        # @return [Array<Float>] s, of rounds that ended well
        def makespans(rounds) = rounds.reject { |round| round["fault"] }.map { |round| round["makespan_s"] }

        # The figures of a result, from its rounds alone: `rakudactl bench verify` computes them once more.
        # @param rounds [Array<Hash>] as they stand in a result
        def derived(rounds, tasks, slots)
          good = rounds.reject { |round| round["fault"] }
          return {} if good.empty?

          overheads = good.map { |round| (round["makespan_s"] * slots) - round["busy_s"] }
          { "makespan_s" => Figures.summary(makespans(rounds)),
            "startup_s" => Figures.median(good.map { |round| round["startup_s"] }),
            "tail_s" => Figures.median(good.map { |round| round["tail_s"] }),
            "busy_s" => Figures.median(good.map { |round| round["busy_s"] }),
            "overhead_s" => Figures.median(overheads), "overhead_per_task_s" => Figures.median(overheads) / tasks }
        end
      end

      # @param instance [Instance]
      # @param engines [Array<Engine>]
      # @param options [Hash] :inputs (folder), :workspace, :slots, :rounds, :timeout, :benchmark, :size, :cache (a
      #   state of PageCache), :say (callable), :check (a command that looks at what a run made, or nil), :digest (of
      #   what it must make, or nil), :programs (of others, that tasks use), :hosts (Hosts that rounds run on, or nil;
      #   their slots count then)
      def initialize(instance, engines, options)
        @instance = instance
        @engines = engines
        @options = options
        @rounds = engines.to_h { |engine| [engine.label, []] }
        @places = hosts && Places.new(hosts)
      end

      # @yieldparam results [Array<Hash>] a result for each engine, after each round: what has been measured is not lost
      #   with what comes then
      # @return [Array<Hash>] those after the last round
      def call
        @started = Time.now
        machine = Machine.describe(@options.fetch(:workspace).path)
        @null_s = Launch.null_s
        @begin_ns = Launch.now_ns
        results = []
        @options.fetch(:rounds).times do |round|
          break if (@ended = Turns.no_more(round, @options, @begin_ns) { @instance.bytes_written })

          Turns.order(@engines, round).each_with_index { |engine, order| run(engine, round, order) }
          results = @engines.map { |engine| result(engine, machine) }
          yield results if block_given?
          Launch.foresee(@options.fetch(:benchmark), @options, @begin_ns) if round.zero?
        end
        return results unless @ended

        @engines.map { |engine| result(engine, machine) }.tap { |last| yield last if block_given? }
      end

      private

      def run(engine, round, order)
        folder = File.join(@options.fetch(:workspace).path, "#{Engine.file_label(engine.name, engine.style)}-#{round}")
        taken = Round.new(round: round, order: order)
        begin
          placed(engine, folder, taken)
          measure(engine, folder, taken)
        rescue SystemCallError => e
          taken.fault = e.message
          taken.makespan ||= 0.0
        end
        @rounds.fetch(engine.label) << taken
        @options.fetch(:say).call("#{engine.label}, round #{round + 1}: #{taken.fault || Figures.seconds(taken.makespan)}")
      ensure
        Workspace.remove(folder) if folder
      end

      def placed(engine, folder, taken)
        FileUtils.rm_rf(folder)
        Workspace.place(@instance, @options.fetch(:inputs), folder)
        file, text = engine.emit(@instance, @options.fetch(:slots))
        File.write(File.join(folder, file), text)
        # What hosts have in memory is not looked at.
        return if hosts

        Turns.settle(folder, @options.fetch(:timeout))
        taken.resident = PageCache.prepare(@options.fetch(:cache), @instance.inputs.map { |input| File.join(folder, input) })
      end

      def measure(engine, folder, taken)
        trace = File.join(folder, ".tasks")
        span = timed(engine, folder, trace, taken)
        noted = notes_of(trace)
        taken.tasks = noted.map { |one| one.take(2) }
        taken.names = noted.map { |one| @instance.noted[one.last] }
        record = recorded(folder, taken) if hosts && taken.fault.nil?
        figures(taken, span, record) if taken.fault.nil?
        taken.digest = checked_digest(folder) if taken.fault.nil?
      rescue Failure => e
        taken.fault = e.message
      end

      # @return [Hosts, nil]
      def hosts = @options[:hosts]

      # Runs the engine.
      # @return [Hosts::Span]
      def timed(engine, folder, trace, taken)
        hosts ? Dir.mkdir(trace) : File.write(trace, "")
        environment = { TRACE => trace }
        environment = hosts.environment(environment) if hosts
        limit = [Launch.left(@options, @begin_ns), 1].max
        start, wall = Hosts.now
        taken.fault = Launch.call(engine.command(@options[:slots], hosts), folder, environment, limit,
                                  grace: hosts ? Hosts::GRACE_S : 0)
        finish, wall_finish = Hosts.now
        taken.makespan = (finish - start) / 1e9
        Hosts::Span.new(start, finish, wall, wall_finish)
      end

      # What tasks have noted, in the order of beginning. Over hosts each has a file of its own.
      # @return [Array<Array(Integer, Integer, String)>]
      def notes_of(trace)
        files = File.directory?(trace) ? Dir.children(trace).sort.map { |name| File.join(trace, name) } : [trace]
        files.flat_map do |file|
          File.readlines(file).map(&:split).map { |from, to, words| [Integer(from), Integer(to), words] }.sort
        end
      end

      # Keeps which nodes there were, and where each task ran.
      # @return [RunRecord]
      # @raise [Failure]
      def recorded(folder, taken)
        record = @places.record(folder)
        targets = @instance.by_id.transform_values(&:target)
        taken.nodes = record.nodes
        taken.hosts = taken.names.map { |name| record.places[targets[name]] }
        record
      end

      def checked_digest(folder)
        if @options[:check]
          output, status = Launch.capture({}, *@options[:check], timeout: @options.fetch(:timeout), chdir: folder)
          raise Failure, Launch.reason(output).to_s unless status.success?
        end
        digest = Workspace.digest(folder, @instance.outputs, @options.fetch(:timeout))
        raise Failure, "it made other files than the run that was checked" if (@options[:digest] || digest) != digest

        digest
      end

      def figures(taken, span, record)
        check_tasks(taken)
        taken.busy = taken.tasks.sum { |from, to| to - from } / 1e9
        if record
          taken.commands = Hosts.commands_ns(record, span)
          first, last = taken.commands.map { |ns| span.start + ns }
        else
          first, last = taken.tasks.map(&:first).min, taken.tasks.map(&:last).max
        end
        taken.startup = (first - span.start) / 1e9
        taken.tail = (span.finish - last) / 1e9
      end

      def check_tasks(taken)
        ran = taken.tasks.size
        raise Failure, "#{ran} tasks ran: expected #{@instance.tasks.size}" unless ran == @instance.tasks.size

        strange = taken.names.count(nil)
        raise Failure, "#{strange} tasks ran with other words than they were given" if strange.positive?

        twice = taken.names.tally.find { |_, times| times > 1 }
        raise Failure, "task #{twice.first} ran #{twice.last} times" if twice

        missing = taken.hosts&.index(nil)
        raise Failure, "its record does not say where task #{taken.names[missing]} ran" if missing
      end

      def result(engine, machine)
        rounds = @rounds.fetch(engine.label)
        reasons = reasons(rounds)
        {
          "schema" => WORKFLOW_SCHEMA, "id" => ids[engine.label], "comparison" => ids[:all],
          "benchmark" => @options.fetch(:benchmark), "family" => "workflow",
          "size" => @options.fetch(:size), "instance" => described_instance,
          "engine" => { "name" => engine.name, "version" => version(engine), "slots" => slots, "style" => engine.style,
                        "command" => engine.command(@options[:slots], hosts).map { |word| File.basename(word) } }.compact,
          "machine" => machine, **(@places&.described || {}), "programs" => programs,
          "conditions" => { "cache" => @options.fetch(:cache), "durable" => false },
          "null_s" => @null_s, "rounds" => rounds.map { |round| described(round) }, "derived" => derived(rounds),
          "verification" => { "method" => "sha256", "digest" => rounds.filter_map(&:digest).first,
                              "checked_bytes" => rounds.count(&:digest) * @instance.bytes_written },
          "notes" => notes(machine, rounds),
          "valid" => reasons.empty?, "reasons" => reasons,
          "started_at" => @started.utc.iso8601, "ended_at" => Time.now.utc.iso8601
        }
      end

      # @return [Integer, nil] nil over hosts, when no round was run to its end
      def slots = @places ? @places.slots : @options.fetch(:slots)

      # How much may be dirty in memory is known of this machine alone.
      def notes(machine, rounds)
        found = Buffered.notes(@instance.bytes_written, hosts ? {} : machine) + (hosts&.notes || [])
        found.concat(too_late(rounds)) if hosts && tiny?
        found.concat(null_faults(rounds)) unless Launch.long?(@options.fetch(:size))
        found
      end

      def tiny? = @options.fetch(:size) == "tiny"

      def too_late(rounds)
        @places.too_late(rounds.select(&:nodes).map { |round| [round.round, round.nodes.size] })
      end

      # Of each result, and of all together.
      def ids = @ids ||= Hash.new { |all, name| all[name] = SecureRandom.uuid }

      def version(engine) = (@versions ||= {})[engine.name] ||= engine.version

      def programs = @programs ||= Versions.of(@options.fetch(:programs, []))

      def described_instance
        contents = @instance.contents
        { "hash" => @instance.digest, "hash_by_name" => @instance.digest_by_name, "name" => @instance.name,
          **Instance.figures(contents), "contents" => contents }
      end

      def described(round)
        plain = { "round" => round.round, "order" => round.order, "makespan_s" => round.makespan }
        plain["resident"] = round.resident if round.resident
        return plain.merge("fault" => round.fault) if round.fault

        plain.merge("digest" => round.digest, "startup_s" => round.startup, "tail_s" => round.tail, "busy_s" => round.busy,
                    "tasks_ns" => round.tasks, "tasks" => round.names,
                    **(round.nodes ? described_places(round) : {}))
      end

      def described_places(round)
        { "nodes" => round.nodes.size, "hosts" => @places.numbers(round.hosts), "commands_ns" => round.commands }
      end

      def derived(rounds) = Comparison.derived(rounds.map { |round| described(round) }, @instance.tasks.size, slots)

      def null_faults(rounds)
        Launch.null_faults(@null_s, Comparison.makespans(rounds.map { |round| described(round) }))
      end

      def reasons(rounds)
        faults = rounds.filter_map { |round| round.fault && "round #{round.round + 1}: #{round.fault}" }
        digests = @rounds.values.flatten.filter_map(&:digest)
        other = rounds.filter_map(&:digest).uniq - [digests.tally.max_by(&:last)&.first]
        faults << "it made other files than most runs did" unless other.empty?
        faults.concat(PageCache.faults(@options.fetch(:cache), rounds.map { |round| described(round) }))
        faults.concat(Launch.unfinished(rounds.size, @options.fetch(:rounds), @ended))
        faults.concat(too_late(rounds)) if hosts && !tiny?
        faults.concat(null_faults(rounds)) if Launch.long?(@options.fetch(:size))
        few = Figures.too_few(@options.fetch(:rounds), "rounds") unless tiny?
        [*faults, *few]
      end
    end
  end
end
