# frozen_string_literal: true

require "etc"
require "fileutils"
require "json"
require "rakuda/bench/catalogue"
require "rakuda/bench/comparison"
require "rakuda/bench/completion"
require "rakuda/bench/difference"
require "rakuda/bench/errors"
require "rakuda/bench/fit"
require "rakuda/bench/measured"
require "rakuda/bench/options"
require "rakuda/bench/page"
require "rakuda/bench/prediction"
require "rakuda/bench/report"
require "rakuda/bench/results"
require "rakuda/bench/suites"
require "rakuda/bench/verification"
require "rakuda/bench/workflows"
require "rakuda/bench/workspace"
require "tmpdir"

module Rakuda
  module Bench
    # `rakudactl bench`: its words, its exit statuses, what it prints.
    class Command
      FAILED = 1
      USAGE = 2
      NOT_VALID = 3
      # With the signal's number, as shells have it.
      INTERRUPTED = 128
      COMMANDS = %w[help list info prepare run compare emit verify report diff predict suite].freeze
      # Those that write into --dir and --out.
      FOLDERS = %w[prepare run compare emit suite].freeze
      HELP = <<~TEXT
        usage: rakudactl bench COMMAND [OPTION]... [ARGUMENT]...

            list                         benchmarks
            info NAME                    sizes, bytes, and which programs are missing
            run NAME... [-- OPTION...]   run it, or several in one run; options behind -- are the kernel's
                                         (or those of one benchmark of others)
            prepare NAME                 make a workflow's inputs in --dir, for comparisons there
            emit NAME --engines A        write a workflow for an engine into --dir
            compare NAME --engines A,B   run a workflow, or a MapReduce job, in several engines, in turn
            suite ci|node|paper          run a list of benchmarks; paper: the 2018 paper's figures, sizes scaled
            verify FILE...               check results: schema, figures computed once more
            report FILE...               results as text; with --html FOLDER as a page with plots
            diff A B                     two results of the same instance
            predict A FILE... [-- OPTION...]  what the simulator says of workflows, beside their results
                                         (with the rates of A, a result of bandwidth or fio)

        NAME is a benchmark of `list`; with run also a family: all of mpi, micro, mapreduce, workflow or wfcommons.
        Workflows may also be files in WfFormat (FILE.json).

        Exit status: 0 valid, 1 a run failed, 2 usage, 3 it ran but a result is not valid.

        Options:
      TEXT

      def initialize(out, err)
        @out = out
        @err = err
      end

      # @param arguments [Array<String>]
      # @return [Integer] exit status
      def call(arguments)
        name, *rest = arguments
        return help if [nil, "help", "-h", "--help"].include?(name)
        return complete(rest) if name == "__complete"
        raise UsageError, "no command #{name}; there are #{COMMANDS.join(", ")}" unless COMMANDS.include?(name)

        # Of programs that are read from when all ends.
        Thread.report_on_exception = false
        @options = Options.new(rest)
        hosts = @options[:hosts]
        raise UsageError, "-F #{hosts}: no such file" unless hosts.nil? || File.file?(hosts)

        @options.check([name], takes_behind: name == "predict") if Options::TAKEN.key?(name)
        Workspace.refuse_unended(@options.values_at(:dir, :out)) if FOLDERS.include?(name)
        send(name)
      rescue UsageError => e
        complain(e, USAGE)
      rescue Failure, SystemCallError => e
        complain(e, FAILED)
      rescue Stuck => e
        complain(e, e.cause.is_a?(SignalException) ? INTERRUPTED + e.cause.signo : FAILED)
      rescue SignalException => e
        @err.puts "rakudactl bench: interrupted"
        INTERRUPTED + e.signo
      end

      private

      def complain(error, status)
        @err.puts "rakudactl bench: #{error.message}"
        status
      end

      def help
        @out.puts HELP, Options.help
        0
      end

      # What shells ask for: POSITION WORD..., as of `rakudactl __complete`.
      def complete(words)
        position, *words = words
        texts = HELP.scan(/^ {4}(\w+) .*? {2,}(\S.*)/).to_h
        commands = COMMANDS.to_h { |name| [name, texts[name]] }
        @out.puts Completion.new(commands, words, position.to_i).lines
        0
      end

      def list
        family = @options[:family] || @options.words.first
        all = Catalogue.all
        shown = all.select { |entry| family.nil? || entry.family == family }
        raise UsageError, "no family #{family}; there are #{all.map(&:family).uniq.join(", ")}" if shown.empty?

        width = shown.map { |entry| entry.name.size }.max
        shown.each { |entry| @out.puts format("%-#{width}s  %-10s %s", entry.name, entry.family, entry.summary) }
        0
      end

      def info
        entry = Catalogue.find(word("a benchmark"))
        @out.puts "#{entry.name}: #{entry.summary}", "family: #{entry.family}"
        entry.sizes.each { |size, settings| @out.puts format("%-6s %s", size, told(entry, size, settings)) }
        missing = entry.needs.reject { |program| Programs.find(program) }
        missing.each { |program| @out.puts "missing: #{program}#{Programs.source(program, entry.packages)}" }
        modules = entry.modules.filter_map { |name| Programs.missing_module(name) }
        modules.each { |why| @out.puts "missing: #{why.delete_prefix("no ")}" }
        0
      end

      def told(entry, size, settings)
        if entry.family == "mpi"
          ranks = @options[:ranks].first
          return "#{Figures.bytes(Measured.kernel_bytes(entry, size, ranks, []))} with #{ranks} ranks"
        end
        words = settings.map { |name, value| "#{name} #{Array(value).join(" ")}" }.join(", ")
        bytes = bytes_of(entry, size)
        bytes ? "#{bytes}: #{words}" : words
      end

      # @return [String, nil] what is there at one time; nil where it is not known before
      def bytes_of(entry, size)
        case entry.family
        when "micro"
          bytes = Micro.bytes(Measured::Part.new(entry: entry, scale: size), @options[:workers])
          "#{Figures.bytes(bytes)} with #{@options[:workers]} workers" if bytes.positive?
        when "mapreduce" then "up to #{Figures.bytes(MapReduce::Job.new(entry, size).space)}"
        when "wfcommons" then "#{Figures.bytes(entry.sizes.fetch(size).fetch(:reading))} read"
        when Others::FAMILY then Figures.bytes(entry.sizes.fetch(size).fetch(:bytes))
        when "workflow"
          workflows = Workflows.new(entry.name, @options.with(size: size))
          "#{Figures.bytes(Dir.mktmpdir { |folder| workflows.space(folder) })} in one engine"
        end
      rescue UsageError
        nil # a program is missing, which is said below
      end

      def prepare
        workflows = Workflows.new(word("a workflow"), @options)
        in_workspace do |workspace|
          folder = workflows.folder(workspace.path)
          workspace.make(workflows.there?(folder) ? 0 : workflows.inputs_space(folder))
          instance = workflows.prepare(folder)
          @out.puts "#{instance.name}: #{instance.tasks.size} tasks, inputs of " \
                    "#{Figures.bytes(instance.input_bytes)} in #{folder}"
        end
        0
      end

      # What was made stays, when all was made.
      def in_workspace
        workspace = Workspace.new(@options[:dir], method(:say))
        workspace.make(0)
        yield workspace
        workspace.finish(keep: true)
      ensure
        workspace&.finish
      end

      def emit
        engine, *others = @options[:engines] || []
        raise UsageError, "expected --engines ENGINE" unless engine
        raise UsageError, "emit writes for one engine at a time: #{[engine, *others].join(", ")}" unless others.empty?
        raise UsageError, "emit writes one style at a time" if @options[:style].size > 1

        workflows = Workflows.new(word("a workflow"), @options)
        in_workspace do |workspace|
          instance = emitted(workflows, workspace)
          file, text = Engine::STYLES.fetch(@options[:style].first).emit(engine, instance, slots)
          path = File.join(workspace.path, file)
          File.write(path, text)
          inputs = workflows.folder(workspace.path)
          Workspace.place(instance, inputs, workspace.path) if workflows.there?(inputs)
          @out.puts path
        end
        @err.puts "not checked: #{Emitters::NOT_CHECKED[engine]}" if Emitters::NOT_CHECKED[engine]
        0
      end

      # Only a run tells the tasks of some: it needs space, and none of it is kept.
      # @return [Instance]
      def emitted(workflows, workspace)
        folder = File.join(workspace.path, "emitted")
        workspace.make(workflows.space(folder)) if workflows.recorded?
        FileUtils.mkdir_p(folder)
        workflows.load(folder)
      ensure
        Workspace.remove(folder) if folder
      end

      def run
        return together(@options.words) if @options.words.size > 1

        name = word("a benchmark")
        return family(name) if Catalogue::FAMILIES.include?(name) && name != "mapreduce"

        if map_reduce?(name)
          @options.check(["run of MapReduce"])
          return map_reduce(name)
        end
        if name.end_with?(".json") || Catalogue.find(name).workflow?
          @options.check(["run of a workflow"])
          return compare_in(styled(%w[rakuda]), name)
        end
        together([name])
      end

      # All of a family: what is measured in one run, workflows one after the other.
      def family(name)
        entries = Catalogue.all.select { |entry| entry.family == name }
        return together(entries.map(&:name)) unless entries.first.workflow?

        @options.check(["run of a workflow"])
        engines = styled(%w[rakuda])
        finish(Suites.each_of(entries.map(&:name), @options, method(:say)) do |one|
          Suites.compare(one, engines, @options, slots, method(:say))
        end)
      end

      # The work of a family, as Options::TAKEN has it.
      WORK = { "mpi" => "run of a kernel", "micro" => "run of a micro-benchmark",
               Others::FAMILY => "run of others' benchmarks" }.freeze

      # Kernels, micro-benchmarks and those of others, one after the other in one run. Options behind -- are the
      # kernels', or, where only one of others is run, its program's.
      def together(names)
        entries = names.uniq.map { |name| Catalogue.find(name) }
        other = entries.find { |entry| entry.workflow? || entry.family == "mapreduce" }
        raise UsageError, "#{other.name} is a #{other.family}: run it alone" if other

        families = entries.map(&:family).uniq
        takers = takers_of_behind(entries)
        @options.check(families.map { |family| WORK.fetch(family) }, takes_behind: !takers.empty?)
        measured(entries.flat_map do |entry|
          Measured.parts(entry, @options[:size], takers.include?(entry) ? @options.behind : [], @options)
        end)
      end

      def takers_of_behind(entries)
        kernels = entries.select { |entry| entry.family == "mpi" }
        kernels.empty? && entries.one? ? entries.select { |entry| entry.family == Others::FAMILY } : kernels
      end

      def compare
        if map_reduce?(word("a benchmark"))
          @options.check(["run of MapReduce"])
          return map_reduce(word("a benchmark"))
        end

        names = @options[:engines] or raise UsageError, "expected --engines A,B; there are #{Engine::KNOWN.keys.join(", ")}"
        compare_in(styled(names.uniq), word("a workflow"))
      end

      # Engines in each style that was asked for; of one whose file is the same in both, the first.
      def styled(names)
        names.flat_map do |name|
          styles = Idiomatic::WRITERS.key?(name) ? @options[:style] : @options[:style].take(1)
          styles.map { |style| Engine.named(name, style) }
        end
      end

      def map_reduce?(name)
        name == "mapreduce" || Catalogue::ALL.any? { |entry| entry.name == name && entry.family == "mapreduce" }
      end

      # Without --engines in those that are there; which are not is said.
      def map_reduce(name)
        finish(Suites.map_reduce(name, @options[:engines], @options, slots, method(:say)))
      end

      def compare_in(engines, name)
        missing = engines.filter_map { |engine| engine.missing&.then { |why| "#{engine.name}: #{why}" } }
        raise UsageError, missing.join("; ") unless missing.empty?

        near = @options.far? ? engines.reject(&:far?).map(&:name).uniq : []
        unless near.empty?
          raise UsageError, "#{near.join(", ")}: over hosts (-F, --cluster) only rakuda is run; the others run here, on this " \
                            "machine alone"
        end

        finish(Suites.compare(name, engines, @options, slots, method(:say)))
      end

      def measured(parts)
        if @options[:dry_run]
          raise UsageError, "--seconds tries sizes out: not with --dry-run" if @options[:seconds]

          @out.puts Measured.new(@options, method(:say)).rakefile(parts, File.expand_path(@options[:dir]))
          return 0
        end
        Results.check(@options[:out], @options[:dir])
        parts = @options[:seconds] ? Fit.new(@options, method(:say)).call(parts) : unforeseen(parts)
        finish(Measured.new(@options, method(:say)).call(parts))
      end

      def unforeseen(parts)
        return parts if @options[:size] == "tiny"

        say("how long it takes is not foreseen (--seconds S finds sizes by time); it ends after #{@options[:timeout]} s " \
            "(--timeout)")
        parts
      end

      def suite
        name = word("a suite")
        finish(Suites.run(name, @options, slots, method(:say)))
      end

      def finish(results)
        Report.text(results, @out)
        return 0 if results.all? { |result| result["valid"] }

        results.any? { |result| result["derived"].nil? || result["derived"].empty? } ? FAILED : NOT_VALID
      end

      def verify
        files = results_of_words
        faults = files.to_h { |path, result| [path, Verification.faults(result)] }
        faults.each { |path, found| @out.puts found.empty? ? "#{path}: good" : found.map { |fault| "#{path}: #{fault}" } }
        faults.values.all?(&:empty?) ? 0 : FAILED
      end

      def report
        results = sound(results_of_words).values
        Report.text(results, @out)
        @out.puts Page.write(results, @options[:html], method(:say)) if @options[:html]
        0
      end

      def diff
        raise UsageError, "expected two results" unless @options.words.size == 2

        # They may be the same file.
        one, other = @options.words.map { |path| sound({ path => Verification.read(path) }).values.first }
        Difference.tell(one, other, @out, force: @options[:force]) ? 0 : NOT_VALID
      end

      def predict
        raise UsageError, "expected a result of fio, and results of workflows" if @options.words.size < 2

        (_, fio), *results = sound(results_of_words).to_a
        @out.puts Prediction.lines(Prediction.rows(fio, results.to_h, @options[:instance], @options.behind))
        0
      end

      def results_of_words
        raise UsageError, "expected files with results" if @options.words.empty?

        @options.words.to_h { |path| [path, Verification.read(path)] }
      end

      # What is no result by its schema has no figures that could be shown.
      # @param results [Hash{String => Hash}] by file
      # @return [Hash{String => Hash}] the same
      # @raise [UsageError]
      def sound(results)
        results.each do |path, result|
          fault = schema_fault(result) or next
          raise UsageError, "#{path}: no result that can be shown: #{fault}"
        end
      end

      # @return [String, nil] none, which is said, where nothing checks schemas
      def schema_fault(result)
        Verification.schema_faults(result).first
      rescue UsageError => e
        say(e.message)
        nil
      end

      def word(what)
        raise UsageError, "expected #{what}; `rakudactl bench help` lists the commands" unless @options.words.size == 1

        @options.words.first
      end

      def slots = @options[:slots] || Etc.nprocessors

      def say(text) = @err.puts("#{text}\n")
    end
  end
end
