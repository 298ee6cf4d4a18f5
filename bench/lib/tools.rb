# frozen_string_literal: true

require "etc"
require "open3"
require "shellwords"
require "tmpdir"

module Peers
  ROOT = File.expand_path("../..", __dir__)

  # A tool of the comparison: whether it is here, the build file that it reads, and its command line. The measuring is
  # not its business. `name` is what --tools takes.
  class Tool
    attr_reader :name

    def initialize(name)
      @name = name
    end

    # nil when the tool can be used, else why not.
    def absence = on_path?(program) ? nil : "not installed"

    # nil when the tool can do this work, else why not.
    def refusal(_work) = nil

    # Writes into `directory` what the tool reads; not part of the measured time.
    def write(_work, _directory) = nil

    # @return [Array<String>] the command that is timed, run in `directory`
    def command(_work) = raise NotImplementedError

    def version = first_line(program, "--version")

    private

    def program = name

    def on_path?(program)
      ENV["PATH"].split(":").any? { |folder| File.executable?(File.join(folder, program)) }
    end

    def first_line(*command)
      output, = Open3.capture2e(*command)
      output.scrub.lines.first.to_s.strip
    end

    def only(work, letters) = letters.include?(work.letter) ? nil : "cannot express it"

    def write_lines(directory, name, lines)
      File.write(File.join(directory, name), lines.map { |line| "#{line}\n" }.join)
    end
  end

  # The posix_spawn loop of bench/floor.c.
  class Floor < Tool
    def absence = nil

    def version = "posix_spawn loop, bench/floor.c"

    def refusal(work) = only(work, "ABDG")

    def write(work, directory)
      phases = work.phases.map do |commands|
        commands.map { |command| command.include?(">") ? "sh\t-c\t#{command}" : command.tr(" ", "\t") }
      end
      write_lines(directory, "list", phases.inject { |lines, phase| lines + ["wait"] + phase })
    end

    def command(work) = [File.join(ROOT, "tmp/bench/floor"), work.slots.to_s, "list"]
  end

  # GNU make, without its built-in rules.
  class Make < Tool
    def write(work, directory)
      lines = ["all: #{work.goals.join(" ")}", ".PHONY: all"]
      work.steps.each do |step|
        lines << ".PHONY: #{step.name}" unless step.file
        lines << "#{step.name}: #{step.prerequisites.join(" ")}" << "\t#{step.command}"
      end
      write_lines(directory, "Makefile", lines)
    end

    def command(work) = %W[make -r -s -j #{work.class::SLOTS}]
  end

  # Ninja; it hands every command to sh. `generator` keeps it from asking its log for the command of a file that it has
  # not made itself, so that C and E compare times as the others do.
  class Ninja < Tool
    def write(work, directory)
      lines = ["rule run", "  command = $line"]
      lines << "  generator = 1" if work.idle?
      work.steps.each do |step|
        lines << "build #{step.name}: run #{step.prerequisites.join(" ")}" << "  line = #{step.command}"
      end
      lines << "build all: phony #{work.goals.join(" ")}" << "default all"
      write_lines(directory, "build.ninja", lines)
    end

    def command(work) = %W[ninja --quiet -j #{work.class::SLOTS}]
  end

  # Everything that reads a Rakefile.
  class RakefileTool < Tool
    def initialize(name, *words)
      super(name)
      @words = words
    end

    def write(work, directory) = File.write(File.join(directory, "Rakefile"), work.rakefile)

    def command(_work) = @words

    private

    def program = @words.first
  end

  # The command of a checkout, by default of this one.
  class Rakuda < RakefileTool
    def initialize(name, checkout = ROOT)
      super(name, File.join(checkout, "bin/rakuda"), "-j", Work::SLOTS.to_s)
      @checkout = checkout
    end

    def absence
      return "no #{program}" unless File.executable?(program)

      "not built: make build" unless File.executable?(File.join(@checkout, "target/release/rakudad"))
    end
  end

  # Pwrake 2.3.1 waits for ever on Ruby 3 once a file task has a source (its queue's monitor is held by another Fiber),
  # so a run of three tasks is tried before it is let near the work.
  class Pwrake < RakefileTool
    PROBE_SECONDS = 10

    def initialize(name) = super(name, "pwrake", "-j", Work::SLOTS.to_s)

    def refusal(work)
      return unless work.is_a?(Files) || work.is_a?(Plan)

      @hangs = !probe_ends? if @hangs.nil?
      "hangs on file tasks with Ruby #{RUBY_VERSION}" if @hangs
    end

    private

    def probe_ends?
      Dir.mktmpdir do |directory|
        probe = Files.new("B", 3)
        probe.prepare(directory)
        write(probe, directory)
        Meter.new(PROBE_SECONDS).run(command(probe), directory).failure.nil?
      end
    end
  end

  # GNU xargs: no dependencies, so each phase of B is a call of its own.
  class Xargs < Tool
    def refusal(work) = only(work, "ABDG")

    def write(work, directory)
      work.phases.each_with_index do |commands, i|
        next if commands.first.include?(">")

        write_lines(directory, "list#{i}", commands.map { |command| arguments(command) })
      end
    end

    def command(work)
      calls = work.phases.each_with_index.map do |commands, i|
        first = commands.first
        first.include?(">") ? first : call(work, first, i)
      end
      ["sh", "-ec", calls.join("\n")]
    end

    private

    def arguments(command) = command.include?(" ") ? command.split(" ", 2).last : "argument"

    def call(work, command, phase)
      words = arguments(command).split.size
      "xargs -a list#{phase} -P #{work.slots} -n #{words} #{command.split.first}"
    end
  end

  # GNU parallel (moreutils has another program of that name).
  class Parallel < Tool
    def absence = super || (version.include?("GNU") ? nil : "not GNU parallel")

    def refusal(work) = only(work, "AG")

    def write(work, directory) = write_lines(directory, "list", work.steps.map(&:name))

    def command(work) = ["parallel", "--will-cite", "-j", work.slots.to_s, "-a", "list", work.program]
  end

  # HyperQueue: server, worker, one task array, and the server's end; start and end are part of the time.
  class HyperQueue < Tool
    def refusal(work) = only(work, "AG")

    def command(work)
      script = <<~SHELL
        hq="hq --server-dir $PWD/hq"
        $hq server start & server=$!
        until $hq server info; do sleep 0.01; done
        $hq worker start --cpus=#{work.slots} & worker=$!
        $hq submit --wait --array=1-#{work.size} --stdout=none --stderr=none -- #{work.program}
        status=$?
        $hq server stop
        wait $server $worker
        exit $status
      SHELL
      ["sh", "-c", script]
    end
  end

  # Snakemake; files decide by modification time alone, as with the others.
  class Snakemake < Tool
    def refusal(work) = work.snakefile ? nil : "cannot express it"

    def write(work, directory) = File.write(File.join(directory, "Snakefile"), work.snakefile)

    def command(work) = %W[snakemake --cores #{work.class::SLOTS} --rerun-triggers mtime --quiet all]
  end

  TOOLS = [
    Floor.new("floor"), Make.new("make"), Ninja.new("ninja"), Rakuda.new("rakuda"), RakefileTool.new("rake", "rake"),
    RakefileTool.new("rake-m", "rake", "-m", "-j", Work::SLOTS.to_s), Xargs.new("xargs"), Parallel.new("parallel"),
    HyperQueue.new("hq"), Snakemake.new("snakemake"), Pwrake.new("pwrake")
  ].freeze
end
