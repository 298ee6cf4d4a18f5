# frozen_string_literal: true

require "etc"
require "fileutils"
require "json"
require "rakuda/bench/errors"
require "rakuda/bench/figures"
require "rakuda/bench/launch"
require "rakuda/bench/measured"
require "rakuda/bench/micro"
require "rakuda/bench/micro_steps"
require "rakuda/bench/page_cache"
require "rakuda/bench/programs"
require "rakuda/bench/workspace"
require "tmpdir"

module Rakuda
  module Bench
    # Sizes by time (`--seconds`): each benchmark is tried in the small, and its files grow until a repetition takes its
    # share of the time that is asked for. So a suite takes about as long on a fast file system as on a slow one, and
    # what it will take is known before it begins. It does not judge results.
    class Fit
      # A part with its size, the bytes that it has on disk at the same time, and how long it is expected to take.
      Sized = Struct.new(:part, :bytes, :seconds)

      # Option for the mesh of a kernel, the mesh that is tried first, and what each of its sides is a multiple of.
      MESHES = { "argot-io" => ["--mesh", [64, 64, 64], 16], "les-io" => ["--mesh", [64, 64, 32], 16],
                 "qcd-io" => ["--local", [8, 8, 8, 16], 2] }.freeze
      # From six repetitions on there is an interval.
      REPETITIONS = 6
      # How many times its share a repetition is made to take, since the next one may be faster.
      MARGIN = 2.0
      # Maximum growth from one trial to the next.
      GROWTH_MAX = 8.0
      # Part of the memory that is available which all ranks' meshes may have together.
      MEMORY_SHARE = 0.25
      # Time of a step, s. Workers may begin 1 % of it apart (MicroFigures::SKEW_MAX), those of fio do so by up to 15
      # ms, and a disk may be twice as fast as it was when it was tried.
      STEP_S = { "bandwidth" => 1.2, "fio" => 3.0 }.freeze
      FIRST_BYTES = 64 << 20
      # Small blocks take longer than the largest, which are tried.
      SLOWER = 2
      METADATA_OPERATIONS = 200

      # @param sides [Array<Integer>] of the first mesh
      # @param factor [Float] the cells are multiplied by it
      # @return [Array<Integer>] each a multiple of `unit`
      def self.mesh(sides, factor, unit)
        each = factor**(1.0 / sides.size)
        sides.map { |side| [(side * each / unit).round * unit, side].max }
      end

      # @param time [Float] of a repetition, s
      # @param target [Float] what it is to take
      # @return [Float, nil] its size is to be multiplied by it; nil when it is long enough
      def self.growth(time, target)
        return if time >= target

        (target * 1.1 / [time, 1e-6].max).clamp(1.2, GROWTH_MAX)
      end

      # @param result [Hash] of a kernel
      # @return [Float] the shorter of all writing and all reading, s
      def self.shorter(result)
        reading, writing = result.fetch("phases").partition { |phase| phase["name"].end_with?("read") }
        [reading, writing].map { |phases| phases.sum { |phase| phase["time_ns"] } / 1e9 }.min
      end

      # @param options [Options]
      # @param say [#call] told which sizes were found
      def initialize(options, say)
        @options = options
        @say = say
        @repetitions = [@options[:rounds] || REPETITIONS, Figures::REPETITIONS_MIN].max
      end

      # @param parts [Array<Measured::Part>]
      # @return [Array<Measured::Part>] with their sizes
      # @raise [UsageError] when there is too little space, or time (--timeout)
      def call(parts)
        sized = in_folder { |folder| parts.map { |part| told(fit(part, folder)) } }
        expected = sized.sum(&:seconds)
        @say.call("expected: #{Fit.minutes(expected)} in all, #{Figures.bytes(sized.map(&:bytes).max)} on disk at one time")
        return sized.map(&:part) if expected <= @options[:timeout]

        raise UsageError, "the benchmarks would take about #{Fit.minutes(expected)}: expected at most #{@options[:timeout]} s " \
                          "(--timeout); take less with --seconds"
      end

      # @return [String] for people
      def self.minutes(seconds) = seconds < 120 ? "#{seconds.ceil} s" : "#{(seconds / 60).ceil} min"

      private

      # On the file system that will be measured; it goes with the folder of the benchmark.
      def in_folder
        workspace = Workspace.new(@options[:dir], @say)
        workspace.make(0)
        folder = File.join(workspace.path, "fit")
        FileUtils.mkdir_p(folder)
        @provable = provable?(folder)
        yield folder
      ensure
        workspace&.finish
      end

      # Whether it can be proven that a file is not in the page cache. Where it can, files are flushed, and read from
      # disk.
      def provable?(folder)
        path = File.join(folder, "probe")
        File.write(path, "x" * 65_536)
        File.open(path, &:fsync)
        PageCache.in_state?("cold", PageCache.prepare("cold", [path]) || 1.0)
      rescue Failure
        false
      ensure
        FileUtils.rm_f(path)
      end

      def told(sized)
        part = sized.part
        what = part.entry.family == "mpi" ? part.words.each_slice(2).map { |pair| pair.join(" ") }.join(" ") : nil
        what ||= "#{Figures.bytes(part.settings[:bytes])} a worker" if part.settings.key?(:bytes)
        @say.call("#{part.entry.name}: #{[what, "#{Figures.bytes(sized.bytes)} on disk", Fit.minutes(sized.seconds)]
          .compact.join(", ")}")
        sized
      end

      def fit(part, folder)
        case part.entry.name
        when "bandwidth", "fio" then transfer(part, folder)
        when "metadata" then metadata(part, folder)
        else kernel(part, folder)
        end
      end

      def kernel(part, folder)
        option, first, unit = MESHES.fetch(part.entry.name) { raise UsageError, "--seconds does not know #{part.entry.name}" }
        refuse_given(part, option)
        common = conditions(part) + part.words
        target = @options[:seconds] * MARGIN / @repetitions
        factor = 1.0
        loop do
          words = [option, Fit.mesh(first, factor, unit).join("x"), *common]
          time, wall, bytes = tried(part, words, folder)
          # Chance can make one trial long.
          time = [time, tried(part, words, folder).first].min if time >= target
          most = memory_bytes
          growth = Fit.growth(time, target)
          return sized(part, words, time, wall, bytes) if growth.nil? || bytes >= most

          factor *= [growth, [most / bytes.to_f, 1.05].max].min
        end
      end

      def refuse_given(part, option)
        given = part.words & [option, "--reps", "--min-seconds"]
        raise UsageError, "--seconds chooses #{given.first}: leave one of both out" unless given.empty?
        raise UsageError, "--seconds is for kernels here, not with -F, --cluster or --nodes" if @options.far? || part.swept
      end

      def conditions(part)
        words = @provable && !part.words.include?("--cache") ? %w[--cache cold] : []
        words + (@provable && !part.words.include?("--fsync") ? %w[--fsync file] : [])
      end

      # With the mesh as large as memory allows more repetitions are what is left.
      def sized(part, words, time, wall, bytes)
        count = [@repetitions, (@options[:seconds] * MARGIN / time).ceil].max
        space(bytes * count)
        fitted = part.dup
        fitted.words = [*words, "--reps", count.to_s, "--min-seconds", @options[:seconds].to_s]
        Sized.new(fitted, bytes * count, wall * count)
      end

      def space(needed)
        Workspace.need(@options[:dir], needed) do |free|
          "files that take #{@options[:seconds]} s have #{needed} bytes, #{free}; take less with --seconds"
        end
      end

      # @return [Array(Float, Float, Integer)] the shorter of writing and reading, all that it took, s; bytes
      def tried(part, words, folder)
        out = File.join(folder, "#{part.entry.name}.json")
        bytes = Measured.kernel_bytes(part.entry, part.scale, part.point.ranks, [*words, "--reps", "1"])
        space(bytes)
        begin_ns = Launch.now_ns
        command = ["mpirun", "-n", part.point.ranks.to_s, Programs.own(part.entry.name), "--dir", folder, "--size", part.scale,
                   "--hard-limit", @options[:timeout].to_s, *words, "--reps", "1", "--min-seconds", "0", "--quiet", "--out", out]
        base = FileUtils.mkdir_p(ENV.fetch(Measured::MPI_FOLDER, Dir.tmpdir)).first
        output, status = Dir.mktmpdir("rakuda-mpi", base) do |apart|
          mpi = Measured::MPI.merge(Measured::MPI_FOLDER => apart)
          Launch.capture(mpi, *command, timeout: @options[:timeout] + Measured::LAST_WORDS_S)
        end
        # 3: one repetition is no valid result.
        said = Measured.place(output) || Launch.reason(output)
        raise Failure, "#{part.entry.name}: #{said}" unless [0, 3].include?(status.exitstatus)

        [Fit.shorter(JSON.parse(File.read(out))), (Launch.now_ns - begin_ns) / 1e9, bytes]
      end

      def memory_bytes
        (File.read("/proc/meminfo")[/^MemAvailable:\s+(\d+)/, 1].to_i * 1024 * MEMORY_SHARE).to_i
      end

      def transfer(part, folder)
        bytes = FIRST_BYTES
        loop do
          space(bytes * workers)
          settings = part.settings.merge(bytes: bytes, trials: @repetitions, blocks: [part.settings.fetch(:blocks).last])
          trial = Measured::Part.new(entry: part.entry, scale: part.scale, words: [], own: settings)
          steps = MicroSteps.of(trial, folder)
          times = %w[write read].map { |step| side_by_side(part.entry.name, steps.fetch("#{step}-#{settings[:blocks].first}-0")) }
          growth = Fit.growth(times.min, STEP_S.fetch(part.entry.name))
          return transfer_sized(part, bytes, times.sum) if growth.nil?

          bytes = (bytes * growth / (1 << 20)).ceil << 20
        end
      end

      # Of kernels, too, no proof is asked for where none can be given.
      def unproven(part)
        settings = part.settings
        return {} if @provable || settings.key?(:cache)

        { cache: "any", said: [*settings[:said], "cache"] }
      end

      def workers = @options[:workers]

      # All workers at the same time.
      # @return [Float] of the fastest, s
      def side_by_side(name, words)
        threads = Array.new(workers) do |worker|
          Thread.new { Launch.capture({}, *words.map { |word| word.gsub("%w", worker.to_s) }, timeout: @options[:timeout]) }
        end
        threads.map(&:value).map do |output, status|
          raise Failure, "#{name}: #{output.lines.first.to_s.strip}" unless status.success?

          raw = MicroSteps.raw(name, JSON.parse(output))
          (raw["end_ns"] - raw["start_ns"]) / 1e9
        end.min
      ensure
        threads&.each(&:kill)&.each(&:join)
      end

      def transfer_sized(part, bytes, seconds)
        fitted = part.dup
        fitted.own = part.settings.merge(bytes: bytes, trials: @repetitions, seconds: @options[:seconds], **unproven(part))
        each = (seconds * part.settings.fetch(:blocks).size * SLOWER) + MicroSteps::REREAD_S
        Sized.new(fitted, bytes * workers, each * @repetitions)
      end

      # The number of operations stays; it is only foreseen how long they take.
      def metadata(part, folder)
        begin_ns = Launch.now_ns
        words = [Programs.own("metadata-ops"), "--dir", File.join(folder, "metadata"), "--operations", METADATA_OPERATIONS.to_s]
        output, status = Launch.capture({}, *words, timeout: @options[:timeout])
        raise Failure, "metadata-ops: #{Launch.reason(output)}" unless status.success?

        times = part.settings.values_at(:operations, :trials).reduce(:*) / METADATA_OPERATIONS.to_f
        Sized.new(part, 0, (Launch.now_ns - begin_ns) / 1e9 * times)
      end
    end
  end
end
