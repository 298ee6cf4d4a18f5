# frozen_string_literal: true

require "json"
require "rakuda/bench/catalogue"
require "rakuda/bench/figures"
require "rakuda/bench/programs"
require "securerandom"
require "time"

module Rakuda
  module Bench
    # Micro-benchmarks: a program of one thread, run by all workers at the same time. Here is what the Rakefile says of them, and
    # what their output says together.
    module Micro
      SCHEMA = "rakuda-bench-micro/1"
      # What of the time may pass between the first and the last worker to begin (Iwai, Tatebe, Tanaka 2016: 5.4.1).
      SKEW_MAX = 0.01

      module_function

      # @return [String] rules of the Rakefile whose last makes the file of the part: what the workers printed, as JSON
      def rules(part, before, work, workers)
        steps = part.entry.name == "fio" ? fio_steps(part, work) : [metadata_step(part, work)]
        last = [before].compact
        text = steps.map.with_index do |(name, command), number|
          files = Array.new(workers) { |worker| "#{part.entry.name}-#{part.scale}/#{number}-#{name}.#{worker}" }
          rule = step(files, last, command)
          last = files
          rule
        end
        <<~RUBY
          directory "#{part.entry.name}-#{part.scale}"
          #{text.join}file(#{part.file.inspect} => #{last.inspect}) do |t|
            require "json"
            steps = Dir["#{part.entry.name}-#{part.scale}/*"].sort_by { |path| [path[%r{/(\\d+)}, 1].to_i, path[/\\d+\\z/].to_i] }
            File.write(t.name, JSON.generate(steps.map { |path| [path[%r{/\\d+-(.+)\\.\\d+\\z}, 1], JSON.parse(File.read(path))] }))
          end
        RUBY
      end

      # %w in a command is the worker.
      def step(files, last, command)
        files.map.with_index do |file, worker|
          words = command.map { |word| word.gsub("%w", worker.to_s) }
          "file(#{file.inspect} => #{(last + [File.dirname(file)]).inspect}) " \
            "{ |t| sh #{words.map(&:inspect).join(", ")}, out: t.name }\n"
        end.join
      end

      def metadata_step(part, work)
        operations = Catalogue.settings(part.entry, part.scale).fetch(:operations)
        ["metadata", [Programs.own("metadata-ops"), "--dir", "#{work}/metadata.%w", "--operations", operations.to_s]]
      end

      # Written and flushed, then read from disk: fio drops a file's pages before it reads. Last, the largest blocks are read once
      # more, from memory.
      def fio_steps(part, work)
        settings = Catalogue.settings(part.entry, part.scale)
        steps = settings.fetch(:blocks).product(%w[write read]) + [[settings.fetch(:blocks).last, "reread"]]
        steps.map do |block, step|
          words = [Programs.need("fio"), "--name=worker", "--rw=#{step == "write" ? "write" : "read"}", "--bs=#{block}",
                   "--size=#{settings.fetch(:bytes)}", "--filename=#{work}/fio.%w", "--ioengine=psync", "--output-format=json",
                   "--thread"]
          words << { "write" => "--end_fsync=1", "read" => "--invalidate=1", "reread" => "--invalidate=0" }.fetch(step)
          ["#{step}-#{block}", words]
        end
      end

      # What the simulator takes for `--rates`: what one transfer reaches with the largest blocks, in MiB/s. Of other nodes
      # nothing is known here: the own disk and memory stand for theirs.
      # @param result [Hash] of fio
      # @return [Array<Integer>] own disk, own memory, another's disk, another's memory, write
      def rates(result)
        block = result.fetch("settings").fetch("blocks").last
        disk, memory, write = %w[read reread write].map do |step|
          outputs = result.fetch("steps").fetch("#{step}-#{block}")
          seconds = outputs.sum { |one| one["end_ns"] - one["start_ns"] } / 1e9
          [(outputs.sum { |one| one["bytes"] } / seconds / (1 << 20)).round, 1].max
        end
        [disk, memory, disk, memory, write]
      end

      # @return [Integer] bytes that are there at the same time
      def bytes(part, workers)
        settings = Catalogue.settings(part.entry, part.scale)
        part.entry.name == "fio" ? settings.fetch(:bytes) * workers : 0
      end

      # @param printed [Array] pairs: name of the step, what a worker printed
      # @return [Hash] the result
      def result(part, printed, machine, workers)
        steps = printed.group_by(&:first).transform_values { |pairs| pairs.map(&:last) }
        raw = steps.to_h { |name, outputs| [name, outputs.map { |output| part.entry.name == "fio" ? fio_raw(output) : output }] }
        derived = derived(raw)
        reasons = raw.filter_map { |name, outputs| "#{name}: #{outputs.size} of #{workers} workers" if outputs.size != workers }
        skew = derived.map { |one| one["start_skew"] }.max
        late = part.scale != "tiny" && skew > SKEW_MAX
        reasons << "workers began up to #{(skew * 100).round(1)} % of the time apart: expected at most 1 %" if late
        described(part, raw, machine, workers, reasons)
      end

      # @param raw [Hash] what each worker measured, by step
      # @return [Hash] the result
      def described(part, raw, machine, workers, reasons)
        { "schema" => SCHEMA, "id" => SecureRandom.uuid, "benchmark" => part.entry.name, "family" => part.entry.family,
          "size" => part.scale,
          "workers" => workers, "settings" => Catalogue.settings(part.entry, part.scale).transform_keys(&:to_s),
          "machine" => machine, "steps" => raw, "derived" => derived(raw), "valid" => reasons.empty?, "reasons" => reasons,
          "ended_at" => Time.now.utc.iso8601 }
      end

      # What of fio's report is kept: figures that its version 3.33 gets right when a job only reads or only writes. It tells
      # when it ended, and how long it took, in ms.
      def fio_raw(output)
        job = output.fetch("jobs").first
        way = %w[read write].find { |name| job.fetch(name).fetch("io_bytes").positive? }
        end_ms = output.fetch("timestamp_ms")
        took_ms = [job.fetch("job_runtime"), job.fetch(way).fetch("runtime")].max
        { "bytes" => job.fetch(way).fetch("io_bytes"), "start_ns" => (end_ms - took_ms) * 1_000_000,
          "end_ns" => end_ms * 1_000_000, "calls" => job.fetch(way).fetch("total_ios") }
      end

      # Steps whose names differ in a number at the end are repetitions: all bytes / the sum of their times, and the extremes.
      # @param result [Hash]
      # @return [Array<Hash>] name, bw, time_s, repetitions, min_bw, max_bw
      def repeated(result)
        result.fetch("derived").group_by { |one| one["name"].sub(/-\d+\z/, "") }.map do |name, ones|
          bytes = ones.sum { |one| result.fetch("steps").fetch(one["name"]).sum { |worker| worker["bytes"] } }
          time, rates = ones.sum { |one| one["time_s"] }, ones.map { |one| one["bw"] }
          { "name" => name, "bw" => bytes / time, "time_s" => time, "repetitions" => ones.size, "min_bw" => rates.min,
            "max_bw" => rates.max }
        end
      end

      # The figures of a result from what the workers printed: from the first to begin to the last to end.
      # @return [Array<Hash>]
      def derived(raw)
        raw.flat_map do |name, outputs|
          begin_ns, end_ns = outputs.map { |one| one.fetch("start_ns") }, outputs.map { |one| one.fetch("end_ns") }
          time = [(end_ns.max - begin_ns.min) / 1e9, 1e-9].max
          common = { "time_s" => time, "start_skew" => (begin_ns.max - begin_ns.min) / 1e9 / time }
          next [{ "name" => name, "bw" => outputs.sum { |one|
 one["bytes"] } / time }.merge(common)] if outputs.first.key?("bytes")

          outputs.first.fetch("ns").keys.map do |kind|
            rates = outputs.map { |one| one.fetch("operations") * 1e9 / one.fetch("ns").fetch(kind) }
            { "name" => kind, "ops_per_s" => rates.sum }.merge(common)
          end
        end
      end
    end
  end
end
