# frozen_string_literal: true

require "open3"
require "rakuda/bench/emitters"
require "rakuda/bench/idiomatic"
require "rakuda/bench/programs"

module Rakuda
  module Bench
    # The engines that a workflow is compared in: how each is started on the file that was emitted for it, and whether
    # it is there. Options are those that its documentation recommends for runs on one machine.
    class Engine
      # Words of the command line, with %d for the slots; how it tells its version; a module of Python that it needs.
      KNOWN = {
        "rakuda" => { words: %w[-q -j %d], version: %w[--version] },
        "rake" => { words: %w[-q -m -j %d], version: %w[--version] },
        "make" => { words: %w[-r -s -j %d], version: %w[--version] },
        "ninja" => { words: %w[--quiet -j %d], version: %w[--version] },
        "xargs" => { program: "sh", words: %w[workflow.sh], version: nil },
        "snakemake" => { words: %w[--cores %d --quiet all --nolock], version: %w[--version] },
        "parsl" => { program: "python3", words: %w[workflow_parsl.py], module: "parsl" },
        "hyperqueue" => { program: "python3", words: %w[workflow_hyperqueue.py], module: "hyperqueue" },
        "dask" => { program: "python3", words: %w[workflow_dask.py], module: "distributed" }
      }.freeze

      # Style of the file => who writes it.
      STYLES = { "flat" => Emitters, "idiomatic" => Idiomatic }.freeze

      attr_reader :name, :style

      class << self
        # @param name [String]
        # @param style [String] in which its file is written, flat or idiomatic
        # @raise [UsageError] when nobody can run it here
        def named(name, style = "flat")
          KNOWN.key?(name) or raise UsageError, "no engine #{name} is run here; there are #{KNOWN.keys.join(", ")}"
          new(name, style)
        end

        # @return [String] what tells it from others in one comparison
        def label(name, style) = style == "idiomatic" ? "#{name}, idiomatic" : name

        # @return [String] likewise, in names of files
        def file_label(name, style) = label(name, style).sub(", ", "-")

        # @param result [Hash]
        # @return [String, nil] nil where no engine ran
        def label_of(result)
          name, style = result.fetch("engine", {}).values_at("name", "style")
          name && label(name, style)
        end
      end

      def initialize(name, style)
        @name = name
        @style = style
        @known = KNOWN.fetch(name)
      end

      def label = Engine.label(name, style)

      # @return [Array(String, String)] name of its file, and what is in it
      def emit(instance, slots) = STYLES.fetch(style).emit(name, instance, slots)

      # @return [String, nil] why it cannot be run
      def missing
        return "no #{name} (Debian: #{Programs::PACKAGES[name] || name})" unless program

        @known[:module]&.then { |name| Programs.missing_module(name) }
      end

      # @param hosts [Hosts, nil] where it runs tasks, if not on this machine; rakuda alone can
      # @return [Array<String>] what starts it, in the folder of the emitted file
      def command(slots, hosts = nil)
        return [program, "-q", *hosts.words] if hosts

        [program, *@known[:words].map { |word| word == "%d" ? slots.to_s : word }]
      end

      # @return [Boolean] whether it runs tasks on other hosts than this machine
      def far? = name == "rakuda"

      # @return [String]
      def version
        return module_version if @known[:module]

        words = name == "xargs" ? [Programs.find("xargs"), "--version"] : [program, *@known[:version]]
        output, = Open3.capture2e(*words)
        output.lines.first.to_s.strip[/\d+(\.\d+)+\S*/] || "unknown"
      end

      private

      def program
        return Programs.rakuda if name == "rakuda"

        Programs.find(@known[:program] || name)
      end

      def module_version
        output, = Open3.capture2e(program, "-c", "from importlib.metadata import version as v; print(v('#{@known[:module]}'))")
        output.lines.last.to_s.strip
      end
    end
  end
end
