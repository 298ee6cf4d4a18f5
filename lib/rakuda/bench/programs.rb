# frozen_string_literal: true

require "open3"
require "rakuda/bench/errors"

module Rakuda
  module Bench
    # Where programs are: the kernels and tasks of `iobench`, rakuda, and what others have made. It starts nothing but a
    # Python that is asked for a module.
    module Programs
      ROOT = File.expand_path("../../..", __dir__)
      # Debian's package of what can be missing.
      PACKAGES = { "mpirun" => "openmpi-bin", "fio" => "fio", "ninja" => "ninja-build", "make" => "make", "rake" => "rake",
                   "xargs" => "findutils", "snakemake" => "snakemake", "diamond" => "diamond-aligner",
                   "mProjectPP" => "montage", "rsvg-convert" => "librsvg2-bin",
                   "findmnt" => "util-linux", "mpicc" => "libopenmpi-dev" }.freeze

      module_function

      # A kernel or task program of `iobench`: IOBENCH names the folder, else the one of this checkout, else PATH.
      # @return [String] its path
      # @raise [UsageError]
      def own(name)
        folders = [ENV.fetch("IOBENCH", nil), File.join(ROOT, "iobench/build"), File.join(ROOT, "libexec/iobench")].compact
        found = folders.map { |folder| File.join(folder, name) }.find { |path| File.executable?(path) } || find(name)
        found or raise UsageError, "no #{name}: build it with `make build-bench`, or name its folder in IOBENCH"
      end

      # @return [String, nil] its path
      def find(name)
        folders = [File.join(ROOT, "target/engines/bin"), *ENV.fetch("PATH", "").split(":")]
        folders.map { |folder| File.join(folder, name) }.find { |path| File.file?(path) && File.executable?(path) }
      end

      # @param packages [Hash, nil] Debian's package of each program; of one that Debian has not, its source's address,
      #   or nil
      # @return [String] how to get it, in brackets
      def source(name, packages = nil)
        package = (packages || PACKAGES)[name]
        return " (not in Debian: build it from #{package})" if package&.include?("://")
        return " (Debian: #{package})" if package

        packages&.key?(name) ? " (not in Debian: build it from its source)" : ""
      end

      # @return [String] that it is missing, and how to get it
      def missing(name, packages = nil) = "no #{name} in PATH#{source(name, packages)}"

      # @raise [UsageError] with the package that has it
      def need(name) = find(name) || raise(UsageError, missing(name))

      # @param entries [Array<Catalogue::Entry>] benchmarks
      # @raise [UsageError] with all that they need and that is missing
      def need_all(entries)
        wanted = entries.flat_map { |entry| entry.needs.map { |program| [program, entry.packages] } }.uniq(&:first)
        lacking = wanted.reject { |program, _| find(program) }
        raise UsageError, lacking.map { |program, packages| missing(program, packages) }.join("; ") unless lacking.empty?
      end

      # A module of Python. Those of `make bench-engines` come first, as programs do.
      # @return [String, nil] why it is not there
      def missing_module(name)
        python = find("python3") or return "no python3 (Debian: python3)"
        _, status = Open3.capture2e(python, "-c", "import #{name}")
        status.success? ? nil : "no #{name} for #{python}: `make bench-engines` installs it"
      end

      # @raise [UsageError]
      def need_module(name)
        missing_module(name)&.then { |why| raise UsageError, why }
      end

      # @return [String] the engine's front
      def rakuda
        ENV["RAKUDA_FRONT"] || File.join(ROOT, "bin/rakuda")
      end

      # @return [String] what answers questions about runs
      def rakudactl
        File.join(ROOT, "bin/rakudactl")
      end
    end
  end
end
