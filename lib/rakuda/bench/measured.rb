# frozen_string_literal: true

require "fileutils"
require "json"
require "open3"
require "shellwords"
require "rakuda/bench/catalogue"
require "rakuda/bench/guard"
require "rakuda/bench/launch"
require "rakuda/bench/machine"
require "rakuda/bench/micro"
require "rakuda/bench/options"
require "rakuda/bench/programs"
require "rakuda/bench/results"
require "rakuda/bench/scaling"
require "rakuda/bench/versions"
require "rakuda/bench/workspace"

module Rakuda
  module Bench
    # Runs MPI kernels and micro-benchmarks: writes a Rakefile with a task for each, one after the other, and has
    # `rakuda` run it, so that what was done stands in the record of that run.
    class Measured
      # One benchmark with its settings.
      # `own` are its settings where they are not those of the size.
      # `named` are those whose nodes and ranks stand in the name; `label` says there under which conditions it was
      # measured.
      Part = Struct.new(:entry, :scale, :words, :point, :swept, :own, :named, :label, keyword_init: true) do
        def settings = own || Catalogue.settings(entry, scale)

        def base = "#{entry.name}-#{scale}#{"-n#{point.nodes}-p#{point.ranks}" if named}#{label}"

        def file = "#{base}.json"

        # @return [Boolean] whether a task of that name is of this part
        def task?(name) = name == file || name == base || name.start_with?(Micro.rounds_of(self))
      end

      # How long a run may take to end that is asked to.
      GRACE_S = 30
      # Lines of rakuda that mean nothing here: of its Rakefile, which nobody has written; of files that are gone by
      # then.
      UNSAID = /\A(?:to resume:|rakuda aborted!|SIG\w+$|Command failed|\S*bench\.rake:\d|Tasks: TOP|\(See full trace)|renamed/
      # Lines of rakuda that are kept.
      PRINTED_MAX = 50
      # How long kernels may take to say where they are, and to end, when --timeout has passed.
      LAST_WORDS_S = 15
      # What a rank says when its time is over: where it is.
      PLACE = / passed: (rank \d+ (?:is (within|behind)|has begun) .+)$/

      # Ranks may be more than cores, root may run them, and ranks that wait leave the core to others.
      MPI = { "OMPI_ALLOW_RUN_AS_ROOT" => "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM" => "1",
              "OMPI_MCA_rmaps_base_oversubscribe" => "1",
              "OMPI_MCA_mpi_yield_when_idle" => "1" }.freeze
      # The variable with the folder that Open MPI keeps the files of its runs in.
      MPI_FOLDER = "OMPI_MCA_orte_tmpdir_base"

      # A part, or one for each point of a sweep.
      # @return [Array<Part>]
      def self.parts(entry, scale, words, options, label: Results.label(options, entry, words))
        # fio takes it for the end of a name.
        raise UsageError, "--dir of fio: expected a folder without a colon" if
          entry.name == "fio" && File.expand_path(options[:dir]).include?(":")

        own = Micro.own_settings(entry, scale, options) if entry.family == "micro"
        own = Others.own_settings(Catalogue.settings(entry, scale), words) if entry.family == Others::FAMILY
        return [Part.new(entry: entry, scale: scale, words: words, own: own, label: label)] unless entry.family == "mpi"

        points = Scaling.points(options[:nodes], options[:ranks], options[:per_node])
        raise UsageError, "fewer ranks (--np) than nodes (--nodes)" if points.empty?

        named = points.size > 1 || points.first.to_a != [1, Options::DEFAULTS[:ranks].first]
        points.map do |point|
          own = kernel_words(entry, point, points.size > 1, options)
          # What is said behind -- wins.
          own.reject! { |word, _| words.include?(word) }
          Part.new(entry: entry, scale: scale, words: own.flatten + words, point: point, swept: points.size > 1, named: named,
                   label: label)
        end
      end

      # Options of ours in the words of a kernel. Files that are kept have a name for each point of a sweep.
      # @return [Array<Array<String>>]
      def self.kernel_words(entry, point, swept, options)
        words = []
        words << ["--cache", options[:cache]] if options.given?(:cache)
        words << ["--reps", options[:rounds].to_s] if options.given?(:rounds)
        words << ["--keep"] if options[:keep]
        words << ["--name", "#{entry.name}-n#{point.nodes}-p#{point.ranks}"] if options[:keep] && swept
        words
      end
      private_class_method :kernel_words

      # @return [Integer] bytes that a kernel writes
      # @raise [UsageError] with what the kernel says against the words
      def self.kernel_bytes(entry, scale, ranks, words)
        output, status = Open3.capture2e(Programs.own(entry.name), "--dry-run", "--np", ranks.to_s, "--size", scale, *words)
        raise UsageError, output.lines(chomp: true).first(2).join("; ") unless status.success?

        output[/^# total: (\d+) bytes/, 1].to_i
      end

      # @param output [String] of a kernel that was ended
      # @return [String, nil] where the ranks were that had not ended their step, or, where all had, where all were
      def self.place(output)
        places = output.scan(PLACE)
        within = places.select { |_, where| where == "within" }
        places = within unless within.empty?
        "time was over: #{places.map(&:first).sort.join("; ")}" unless places.empty?
      end

      # The text of a kernel's result keeps its lines: a row of times for each step.
      # @return [String] with more fields at its end
      def self.with(text, more)
        fields = more.map { |name, value| ",\n  #{JSON.generate(name)}: #{JSON.generate(value)}" }
        "#{text.rstrip.delete_suffix("}").rstrip}#{fields.join}\n}\n"
      end

      # @param options [Options]
      # @param say [#call] told how it goes
      def initialize(options, say)
        @options = options
        @say = say
      end

      # @param parts [Array<Part>]
      # @return [Array<Hash>] a result for each part, or what went wrong
      def call(parts)
        Programs.need_all(parts.map(&:entry))
        Results.check(@options[:out], @options[:dir])
        workspace = Workspace.new(@options[:dir], @say)
        workspace.make(parts.map { |part| bytes(part) }.max)
        parts.each { |part| refuse_kept(part, workspace) }
        out = Results.make(@options[:out], @options[:dir])
        # Results are files, and folders with what workers have printed.
        parts.each { |part| FileUtils.rm_rf([part.file, failed(part), part.base].map { |name| File.join(out, name) }) }
        File.write(File.join(out, Results::RAKEFILE), rakefile(parts, workspace.path))
        @work = workspace.path
        # Its file system need not answer any more afterwards.
        machine
        start(out, parts)
      ensure
        workspace&.finish(keep: @options[:keep])
      end

      # @return [String] the Rakefile that `rakuda` gets
      def rakefile(parts, work)
        @ranks = parts.filter_map { |part| part.point&.ranks }
        rules = parts.each_cons(2).to_h { |before, part| [part.file, before.file] }
        tasks = parts.map { |part| task(part, rules[part.file], work) }
        <<~RUBY
          # frozen_string_literal: true

          #{Results::HEAD}: its benchmarks, one after the other, since two at once would measure each other.

          MPI = #{MPI.inspect}.freeze
          #{apart.chomp}

          # A kernel that ran and found its result not valid says so with 3: the result is there, with the reasons.
          def kernel(*words)
            apart do |mpi|
              sh(mpi, *words) { |ok, status| ok || status.exitstatus == 3 or raise "\#{words.first} ended with \#{status.exitstatus}" }
            end
          end

          # By then kernels end, also within a step.
          ENDS = Process.clock_gettime(Process::CLOCK_MONOTONIC) + #{@options[:timeout]}
          def left = [(ENDS - Process.clock_gettime(Process::CLOCK_MONOTONIC)).ceil, 1].max.to_s

          task default: #{parts.map(&:file).inspect}

          #{tasks.join("\n")}
        RUBY
      end

      # @return [Array<String>] words of `rakuda`: the nodes of a sweep's largest point, or this machine
      def places(parts)
        return ["-F", @options[:hosts]] if @options[:hosts]
        return ["-j", slots.to_s] unless @options[:cluster]

        # Workers of micro-benchmarks take the slots of all of the allocation.
        nodes = parts.flat_map { |part| part.point ? [part.point.nodes] : @options[:nodes] }
        ["--cluster", @options[:cluster], "--nodes", nodes.max.to_s]
      end

      private

      # What was kept is written over by nobody. A kernel has its own mark, and may read what it has kept.
      # @raise [UsageError]
      def refuse_kept(part, workspace)
        return if part.entry.family == "mpi"

        names = part.entry.family == "micro" ? Array.new(@options[:workers]) { |i| "#{part.entry.name}.#{i}" } : [part.entry.name]
        there = names.find { |name| workspace.stays?(name) } or return
        raise UsageError, "#{File.join(workspace.path, there)} was kept: remove it, or name another folder with --dir"
      end

      # Under which name rakuda keeps what a task that failed has made.
      def failed(part) = "#{part.file}._fail_"

      # For the Rakefile: what yields the environment of one run of Open MPI. A folder of this machine is none of a
      # node's.
      def apart
        return "def apart = yield(MPI)" if @options.far?

        <<~RUBY
          require "tmpdir"
          # Open MPI keeps the files of all runs of a user below one folder, and a run that begins while another removes that
          # fails ("File exists"): each gets one of its own.
          def apart
            base = ENV.fetch(#{MPI_FOLDER.inspect}, Dir.tmpdir)
            mkdir_p base, verbose: false
            Dir.mktmpdir("rakuda-mpi", base) { |folder| yield({ **MPI, #{MPI_FOLDER.inspect} => folder }) }
          end
        RUBY
      end

      # Asked for once, and not for kernels: these say it themselves.
      def machine = @machine ||= Machine.describe(@work)

      def task(part, before, work)
        case part.entry.family
        when "mpi" then kernel_task(part, before, work)
        when Others::FAMILY then other_task(part, before, work)
        else Micro.rules(part, before, work, @options[:workers], keep: @options[:keep])
        end
      end

      # In an empty folder of its own, with all cores.
      def other_task(part, before, work)
        folder = File.join(work, part.entry.name)
        words = [part.entry.program, *part.settings.fetch(:words)]
        workers = { "BENCH_WORKERS" => @options[:workers].to_s }
        <<~RUBY
          desc "ncore=#{slots}"
          file(#{part.file.inspect} => #{[before].compact.inspect}) do |t|
            rm_rf #{folder.inspect}, verbose: false
            mkdir_p #{folder.inspect}, verbose: false
            apart do |mpi|
              sh(mpi.merge(#{workers.inspect}), *#{words.inspect}, chdir: #{folder.inspect}, out: File.expand_path(t.name))
            end
            rm_rf #{folder.inspect}, verbose: false
          end
        RUBY
      end

      def kernel_task(part, before, work)
        nodes, ranks = part.point.nodes, part.point.ranks
        # In an allocation mpirun takes all of its nodes, unless an option says which.
        here = @options[:cluster] && nodes == 1 ? ["--host", "localhost:#{ranks}"] : []
        command = ["mpirun", *here, "-n", ranks.to_s, Programs.own(part.entry.name), "--dir", work, "--size", part.scale,
                   *part.words]
        limit = (part.words & %w[--time-limit --hard-limit]).empty?
        rule = "file(#{part.file.inspect} => #{[before].compact.inspect})"
        return <<~RUBY if nodes == 1
          desc "ncore=#{@options.far? ? 1 : ranks}"
          #{rule} { |t| kernel(#{command.map(&:inspect).join(", ")}#{', "--hard-limit", left' if limit}, "--out", t.name) }
        RUBY

        # The names of the nodes are known when it begins, and the shell puts them in. Ranks may be more than a node's
        # cores, which `needs` would refuse.
        line = "mpirun --hostfile \"$RAKUDA_HOSTFILE\" #{Shellwords.join(command.drop(1))} --out \"$0\""
        line += ' --hard-limit "$1"' if limit
        <<~RUBY
          needs nodes: #{nodes}
          desc "ncore=#{(ranks.to_f / nodes).ceil}"
          #{rule} { |t| kernel("sh", "-c", #{line.inspect}, t.name#{", left" if limit}) }
        RUBY
      end

      def start(out, parts)
        where = places(parts)
        @begun_ns = Process.clock_gettime(Process::CLOCK_REALTIME, :nanosecond)
        read, write = IO.pipe
        pid = Process.spawn({ "RAKUDA_ENGINE" => nil }, Programs.rakuda, "-q", "-k", "-f", Results::RAKEFILE, *where,
                            chdir: out, pgroup: true, in: File::NULL, %i[out err] => write)
        write.close
        passing = Thread.new { pass(read) }
        waiter = Process.detach(pid)
        begin
          limit = @options[:timeout] + (parts.any?(&:point) ? LAST_WORDS_S : 0)
          @over = Guard.over(pid) { waiter.join(limit) }.nil?
          @say.call("ended after #{limit} s (--timeout #{@options[:timeout]})") if @over
        ensure
          # Also when this program is interrupted: a run that is asked to end has its kernels remove their files.
          Launch.stop(pid, waiter, GRACE_S) if waiter.alive?
          passing.join(LAST_WORDS_S)
        end
        parts.map { |part| result(out, part) }
      rescue Stuck => e
        @stuck = e.message
        parts.each { |part| result(out, part) }
        raise
      rescue SignalException
        interrupted(out, parts)
        raise
      end

      # What rakuda prints is passed on; its last lines say why it has not begun, where it has not.
      def pass(read)
        @printed = []
        read.each_line do |line|
          @printed = [*@printed, line.scrub].last(PRINTED_MAX)
          @say.call(line.scrub.chomp) unless line.scrub.match?(UNSAID)
        end
      end

      # What had ended is a result; what had not is none.
      def interrupted(out, parts)
        ended, others = parts.partition { |part| File.file?(File.join(out, part.file)) }
        ended.each { |part| result(out, part) }
        others.each { |part| FileUtils.rm_rf([failed(part), part.base].map { |name| File.join(out, name) }) }
        @say.call("not run to its end; results of #{ended.map { |part| part.entry.name }.join(", ")} are in #{out}") if ended.any?
      end

      # As many as a gang of ranks or workers needs, so that all run at once.
      def slots
        [*@ranks, @options[:workers], Etc.nprocessors].max
      end

      def result(out, part)
        path = File.join(out, part.file)
        full = File.file?(path) ? given(out, path, part) : nothing(part, ["it gave no result", *why(out, part)].join(": "))
        more = { "run" => run(out, part), "programs" => programs(part) }.compact
        own = part.point && full["schema"] != Results::FAILURE_SCHEMA
        File.write(path, own ? Measured.with(File.read(path), more) : "#{JSON.pretty_generate(full.merge(more))}\n")
        full.merge(more)
      end

      def given(out, path, part)
        return other_result(path, part) if part.entry.family == Others::FAMILY

        result = JSON.parse(File.read(path))
        return result if part.entry.family == "mpi"

        Micro.result(part, result, machine, @options[:workers], rounds(out), MicroRounds.read(journal(out)))
      end

      # The result of what gave none.
      def nothing(part, reason) = Results.failure(part.entry, part.scale, machine, reason)

      # Where the record tells of it.
      # @return [Hash, nil] nil where the run did not begin
      def run(out, part)
        rounds = part.entry.family == "micro" ? [Micro.rounds_of(part)] : []
        { "id" => report(out).fetch("id"), "tasks" => [*rounds, part.file] }
      rescue Failure
        nil
      end

      def programs(part)
        { "rakuda" => Versions.rakuda }.compact.merge(Versions.of(part.entry.needs))
      end

      # Rounds of the run, as its report has them.
      def rounds(out) = report(out).dig("sync", "rounds") || []

      # @return [String] path of that run's journal
      def journal(out) = File.join(out, ".rakuda/runs", report(out).fetch("id"), "journal.jsonl")

      # @return [String, nil] why a part gave no result
      def why(out, part)
        own_reason(out, part) || failure(out, part) || @stuck ||
          ("it was ended after #{@options[:timeout]} s (--timeout)" if @over) || Launch.reason((@printed || []).join)
      end

      # What a kernel has written of itself, although it failed.
      # @return [String, nil]
      def own_reason(out, part)
        path = File.join(out, failed(part))
        return unless File.file?(path)

        reasons = JSON.parse(File.read(path))["reasons"] if part.point
        reasons&.join("; ")
      rescue JSON::ParserError
        nil # it was ended while it wrote
      ensure
        FileUtils.rm_f(path)
      end

      # Why a part failed, as the run's report says.
      # @return [String, nil]
      def failure(out, part)
        first = (report(out)["failures"] || []).find { |one| part.task?(one["task"]) } or return
        output = first["output"].to_s
        [first["status"], Measured.place(output) || Launch.reason(output)].compact.reject(&:empty?).join(", ")
      rescue Failure
        nil # there is no record: the run did not begin
      end

      # @raise [Failure] also when there are only those of earlier runs
      def report(out)
        @report ||= begin
          output, errors, status = Open3.capture3(Programs.rakudactl, "report", "--json", chdir: out)
          raise Failure, "rakudactl report: #{errors.lines.last.to_s.strip}" unless status.success?

          JSON.parse(output)
        end
        raise Failure, "rakuda has written no record" if @report.fetch("started_ns") < @begun_ns

        @report
      end

      def other_result(path, part)
        steps, reasons = Others.printed(part.entry.name, File.read(path))
        reasons += Micro.too_few(steps) unless part.scale == "tiny"
        result = Micro.described(part, steps, machine, @options[:workers], reasons)
        result.merge("notes" => Micro.notes(result))
      rescue Failure => e
        nothing(part, e.message)
      end

      def bytes(part)
        return part.settings.fetch(:bytes) if part.entry.family == Others::FAMILY
        return Micro.bytes(part, @options[:workers]) unless part.entry.family == "mpi"
        return 0 if part.words.include?("--ignore-space")

        Measured.kernel_bytes(part.entry, part.scale, part.point.ranks, part.words)
      end
    end
  end
end
