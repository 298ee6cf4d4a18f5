# frozen_string_literal: true

require "fileutils"
require "json"
require "rakuda/bench/catalogue"
require "rakuda/bench/comparison"
require "rakuda/bench/figures"
require "rakuda/bench/fit"
require "rakuda/bench/hosts"
require "rakuda/bench/mapreduce/comparison"
require "rakuda/bench/measured"
require "rakuda/bench/prediction"
require "rakuda/bench/results"
require "rakuda/bench/scaling"
require "rakuda/bench/workflows"
require "rakuda/bench/workspace"

module Rakuda
  module Bench
    # Fixed lists of benchmarks, and comparisons of engines. Nothing is left out: what cannot be run makes the whole
    # fail before anything is begun.
    module Suites
      JOB_ENGINES = %w[rakuda rakuda-streams].freeze
      # Kernels and micro-benchmarks in one run; then workflows and MapReduce jobs, each in its engines.
      ALL = {
        "ci" => { size: "tiny", measured: %w[argot-io les-io qcd-io metadata bandwidth fio],
                  workflows: { "homology-io" => %w[rakuda], "copyfile" => %w[rakuda make xargs] },
                  jobs: { "mr-homology" => JOB_ENGINES } },
        "node" => { size: "small", seconds: 2.0, measured: %w[argot-io les-io qcd-io metadata bandwidth fio],
                    workflows: { "homology" => %w[rakuda make xargs], "homology-io" => %w[rakuda make xargs],
                                 "copyfile" => %w[rakuda make xargs], "montage" => %w[rakuda make ninja],
                                 "montage-io" => %w[rakuda rake make ninja xargs] },
                    jobs: %w[mr-homology mr-sort mr-dfsio-write mr-dfsio-read].to_h { |job| [job, JOB_ENGINES] } }
      }.freeze
      # The figures of the 2018 paper, beside those of ALL.
      PAPER = "paper"
      NAMES = [*ALL.keys, PAPER].freeze
      # Rounds where no other number is asked for. From six on there is an interval.
      ROUNDS = { "tiny" => 1, "small" => 6, "large" => 6 }.freeze

      module_function

      # @return [Array<Hash>] results
      def run(name, options, slots, say)
        return sweeps(options, say) if name == PAPER

        suite = ALL.fetch(name) { raise UsageError, "no suite #{name}; there are #{NAMES.join(", ")}" }
        if options[:cluster] && options[:nodes].size > 1
          raise UsageError, "--nodes of the suite #{name}: expected one number, the size of its allocations"
        end

        names = suite.fetch(:measured) + suite.fetch(:workflows).keys + suite.fetch(:jobs).keys
        Programs.need_all(names.map { |entry| Catalogue.find(entry) })
        engines = engines_of(suite.fetch(:workflows), options, say)
        raise UsageError, "--size means nothing to the suite #{name}: it is #{suite.fetch(:size)}" if options.given?(:size)

        sized = options.with(size: suite.fetch(:size))
        # What they need is looked for before anything is measured.
        suite.fetch(:workflows).each_key { |workflow| Workflows.new(workflow, sized) }
        parts = suite.fetch(:measured).flat_map do |entry|
          Measured.parts(Catalogue.find(entry), suite.fetch(:size), [], options)
        end
        raise UsageError, "--seconds means nothing to the suite #{name}" if options.given?(:seconds) && !suite.key?(:seconds)

        Results.check(options[:out], options[:dir])
        Hosts.of(options)&.count
        room(suite, sized, say)
        parts = Fit.new(options.with(seconds: options[:seconds] || suite[:seconds]), say).call(parts) if suite.key?(:seconds)
        results = Measured.new(options, say).call(parts)
        jobs = suite.fetch(:jobs)
        results + each_of([*engines.keys, *jobs.keys], sized, say) do |one|
          next map_reduce(one, jobs[one], sized, slots, say) if jobs.key?(one)

          compare(one, engines.fetch(one), sized, slots, say)
        end
      end

      # Over hosts workflows run in rakuda alone: the other engines know this machine only, and that is said.
      # @return [Hash{String => Array<Engine>}]
      # @raise [UsageError]
      def engines_of(workflows, options, say)
        all = workflows.transform_values { |names| names.map { |engine| present(engine) } }
        return all unless options.far?
        raise UsageError, Options::SLOTS_FAR if options.given?(:slots)

        all.to_h do |workflow, engines|
          over, others = engines.partition(&:far?)
          names = others.map(&:name).join(", ")
          say.call("#{workflow}: over hosts in rakuda alone; #{names} run on this machine only") unless others.empty?
          [workflow, over]
        end
      end

      # What workflows and jobs write is asked for before anything is measured. How long they take says the first round
      # of each.
      # @raise [UsageError] when there is too little space
      def room(suite, options, say)
        workspace = Workspace.new(options[:dir], say)
        workspace.make(0)
        bytes = suite.fetch(:workflows).keys.map do |name|
          folder = File.join(workspace.path, "room")
          Workflows.new(name, options).space(folder)
        ensure
          Workspace.remove(folder)
        end
        bytes += suite.fetch(:jobs).keys.map { |name| MapReduce::Job.new(Catalogue.find(name), options[:size]).space }
        workspace.make(bytes.max)
        say.call("workflows and jobs: #{Figures.bytes(bytes.max)} on disk at one time; their time is not in what is expected " \
                 "of the rest: the first round of each tells it, and each ends after #{options[:timeout]} s (--timeout)")
      ensure
        workspace&.finish
      end

      # One after the other: where one cannot be run to its end, the others are.
      # @param names [Array<String>] of workflows or jobs
      # @return [Array<Hash>] results; of what gave none, that it failed
      def each_of(names, options, say)
        return yield(names.first) if names.one?

        names.flat_map do |name|
          yield(name)
        rescue UsageError, Failure, SystemCallError => e
          say.call("#{name}: #{e.message}")
          [Results.failed(options, Catalogue.find(name), e.message)]
        end
      end

      # @raise [UsageError] for an option without effect
      def sweeps(options, say)
        options.check(["suite paper"])
        say.call("meshes are scaled down, and repetitions may be short: compare ratios alone") unless options[:size] == "large"
        paper(options, say)
      end

      # The four figures of Iwai, Tatebe 2018, with sizes scaled down unless they are large: over the nodes of --nodes,
      # or over ranks of this machine.
      def paper(options, say)
        # A mesh that is scaled down has no time that means anything.
        scaled = options[:size] == "large" ? [] : %w[--min-seconds 0]
        Scaling::PAPER.flat_map.with_index do |figure, index|
          nodes = figure.over == :nodes && options.far? ? options[:nodes] : [1]
          ranks = figure.ranks_of(options[:size])
          own = options.with(nodes: nodes, ranks: ranks, per_node: options.far? ? figure.per_node : nil,
                             out: File.join(options[:out], "figure-#{index + 1}"))
          words = figure.words_of(options[:size]) + scaled
          parts = Measured.parts(Catalogue.find(figure.benchmark), options[:size], words, own, label: "")
          Measured.new(own, say).call(parts)
        end
      end

      def present(name)
        engine = Engine.named(name)
        engine.missing&.then { |why| raise UsageError, "#{name}: #{why}" }
        engine
      end

      # Runs a workflow in engines, and writes a result for each.
      # @return [Array<Hash>]
      def compare(name, engines, options, slots, say)
        workflows = Workflows.new(name, options)
        Results.check(options[:out], options[:dir])
        hosts = Hosts.of(options)
        hosts&.count
        workspace = Workspace.new(options[:dir], say)
        workspace.make(0)
        inputs = workflows.folder(workspace.path)
        workspace.make(workflows.there?(inputs) ? 0 : workflows.space(inputs))
        instance = workflows.prepare(inputs)
        workspace.make(instance.bytes_written)
        out = Results.make(options[:out], options[:dir])
        size = workflows.benchmark == name ? options[:size] : "own"
        slots = nil if hosts
        comparison = Comparison.new(instance, engines, inputs: inputs, workspace: workspace, slots: slots, size: size, say: say,
                                                       rounds: options[:rounds] || ROUNDS.fetch(options[:size]),
                                                       timeout: options[:timeout], benchmark: workflows.benchmark,
                                                       cache: options[:cache], check: workflows.check,
                                                       digest: workflows.digest, programs: workflows.programs, hosts: hosts)
        label = "#{"-#{instance.digest_by_name[-8..]}" if workflows.own?}#{Results.label(options)}"
        names = engines.map { |engine| { "name" => engine.name, "style" => engine.style } }
        written(name, names, out, size, label, say) do |write|
          results = comparison.call(&write)
          keep(out, results.first, workflows.record) if workflows.record
          results
        end
      ensure
        workspace&.finish(keep: options[:keep])
      end

      # Results of an earlier comparison do not stand there as those of one that has given none.
      # @param engines [Array<Hash>] name and style
      # @yieldparam write [Proc] takes the results after a round
      # @return [Array<Hash>] what the block gives
      def written(name, engines, out, size, label, say)
        files = engines.map { |engine| Results.file(name_of(name), size, engine, label) }
        [Results.failed_file(name_of(name), size, label), *files].each { |file| FileUtils.rm_f(File.join(out, file)) }
        rounds = 0
        yield(proc do |results|
          rounds = results.first.fetch("rounds").size
          results.each { |result| Results.write(out, result, label) }
        end)
      rescue SignalException, UsageError, Failure, Stuck, SystemCallError
        results = "results of #{rounds} round#{"s" unless rounds == 1} are in #{out}"
        say.call("#{name_of(name)}: not run to its end; #{results}") if rounds.positive?
        raise
      end

      # @return [String] what results call it
      def name_of(name) = File.basename(name, ".json")

      # The instance of a workflow that is known by a run alone, for `predict`.
      def keep(out, result, record)
        path = Prediction.kept(out, result)
        FileUtils.mkdir_p(File.dirname(path))
        File.write(path, record)
      end

      # Runs MapReduce jobs in engines, one job after the other, and writes a result for each.
      # @param name [String] of a job, or mapreduce for all
      # @param engines [Array<String>, nil] nil for those that are there
      # @return [Array<Hash>]
      def map_reduce(name, engines, options, slots, say)
        engines = engines ? here(engines, options) : found(options, say)
        jobs = Catalogue::ALL.select { |entry| entry.family == "mapreduce" && [entry.name, "mapreduce"].include?(name) }
        Programs.need_all(jobs)
        each_of(jobs.map(&:name), options, say) do |one|
          job = MapReduce::Job.new(Catalogue.find(one), options[:size])
          Results.check(options[:out], options[:dir])
          hosts = Hosts.of(options)
          hosts&.count
          workspace = Workspace.new(options[:dir], say)
          workspace.make(job.space)
          out = Results.make(options[:out], options[:dir])
          comparison = MapReduce::Comparison.new(job, engines, workspace: workspace, slots: hosts ? nil : slots, say: say,
                                                               rounds: options[:rounds] || ROUNDS.fetch(options[:size]),
                                                               timeout: options[:timeout], cache: options[:cache], hosts: hosts)
          written(one, engines.map { |engine| { "name" => engine } }, out, options[:size], Results.label(options), say) do |write|
            comparison.call(&write)
          end
        ensure
          workspace&.finish(keep: options[:keep])
        end
      end

      # @raise [UsageError] when one cannot be run here, or there
      def here(engines, options)
        engines = engines.uniq.map { |engine| MapReduce::Engines.named(engine) }
        near = options.far? ? engines.filter_map { |engine| MapReduce::Engines::NEAR[engine] } : []
        unless near.empty?
          raise UsageError, "over hosts (-F, --cluster) MapReduce jobs run in #{MapReduce::Engines::FAR.join(" and ")} alone: " \
                            "#{near.join("; ")}"
        end

        engines.each do |engine|
          MapReduce::Engines.missing(engine)&.then { |why| raise UsageError, "#{engine}: #{why}" }
        end
      end

      # Those that can be run; which are left out is said.
      def found(options, say)
        left_out = MapReduce::Engines::ALL.keys.to_h do |engine|
          near = options.far? && MapReduce::Engines::NEAR[engine]
          [engine, near ? "over hosts #{near}" : MapReduce::Engines.missing(engine)&.then { |why| "#{engine}: #{why}" }]
        end.compact
        left_out.each_value { |why| say.call("left out: #{why}") }
        MapReduce::Engines::ALL.keys - left_out.keys
      end
    end
  end
end
