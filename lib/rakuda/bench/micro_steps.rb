# frozen_string_literal: true

require "digest"
require "rakuda/bench/programs"
require "shellwords"

module Rakuda
  module Bench
    # The programs of micro-benchmarks: a command for each step, and what is kept of what it prints. It knows no
    # figures.
    module MicroSteps
      # Behind the name of a step that is repeated.
      NUMBER = /-\d+\z/
      # Time for which the largest blocks are read from memory, over and over, s: once is too short to be measured.
      REREAD_S = 2
      # Steps that compare every byte, of which nothing is timed.
      CHECK = "check-"
      # The parameter of the round that removes files.
      CLEAN = "clean"
      # A name that no file has: what a gate sees to before a step that reads nothing from the disk.
      NOTHING = "nothing"

      module_function

      # All is repeated, so that a repetition of each step lies between those of the others.
      # @return [Hash{String => Array<String>}] a command for each step; %w is the worker
      def of(part, work)
        case part.entry.name
        when "metadata" then metadata(part, work)
        when "fio" then fio(part, work)
        else bandwidth(part, work)
        end
      end

      # @return [Array<String>] what makes the folder of files, where there is none
      def make(part, work)
        return [Programs.own("bandwidth-io"), "make", "--file", file(part, work)] if part.entry.name == "bandwidth"

        ["mkdir", "-p", work]
      end

      # @return [Array<String>] what removes the files of a worker, and the folder where it is empty then
      def clean(part, work)
        return [Programs.own("bandwidth-io"), "remove", "--file", file(part, work)] if part.entry.name == "bandwidth"

        words = Shellwords.escape(work)
        ["sh", "-c", "rm -f #{words}/fio.%w; rmdir #{words} 2>/dev/null; true"]
      end

      # @return [String] words of the statement `sync`
      def keywords(part, work)
        return ", gate: :call" if part.entry.name == "bandwidth"
        return "" unless part.entry.name == "fio" && cold?(part)

        # Each worker's gate drops the file that is read next, and says what is left of it in memory.
        own, none = ["#{work}/fio.", "#{work}/#{NOTHING}"].map(&:inspect)
        ", cache: :cold, files: ->(w) { [w.parameter.start_with?(\"read-\") ? #{own} + w.id.to_s : #{none}] }"
      end

      # @return [Boolean] whether what is read is to come from the disk
      def cold?(part) = part.settings.fetch(:cache, "cold") == "cold"

      def metadata(part, work)
        settings = part.settings
        command = [Programs.own("metadata-ops"), "--dir", "#{work}/metadata.%w", "--operations", settings.fetch(:operations).to_s]
        settings.fetch(:trials).times.to_h { |trial| ["metadata-#{trial}", command] }
      end

      # Written and flushed, then read from disk; last, the largest blocks are read once more, from memory.
      def ways(part)
        blocks = part.settings.fetch(:blocks)
        steps = blocks.product(%w[write read]) + [[blocks.last, "reread"]]
        part.settings.fetch(:trials).times.to_a.product(steps)
      end

      # fio drops a file's pages itself, too, before it reads.
      def fio(part, work)
        ways(part).to_h do |trial, (block, step)|
          words = [Programs.need("fio"), "--name=worker", "--rw=#{step == "write" ? "write" : "read"}", "--bs=#{block}",
                   "--size=#{part.settings.fetch(:bytes)}", "--filename=#{work}/fio.%w", "--ioengine=psync",
                   "--output-format=json", "--thread"]
          words << { "write" => "--end_fsync=1", "read" => "--invalidate=#{cold?(part) ? 1 : 0}",
                     "reread" => "--invalidate=0" }.fetch(step)
          words.push("--time_based", "--runtime=#{REREAD_S}") if step == "reread" && part.scale != "tiny"
          ["#{step}-#{block}-#{trial}", words]
        end
      end

      # What is read first is compared byte by byte when all have read it.
      def bandwidth(part, work)
        ways(part).flat_map do |trial, (block, step)|
          own = ["--file", file(part, work), "--bytes", part.settings.fetch(:bytes).to_s, "--block", size(block).to_s,
                 "--key", Digest::SHA256.hexdigest("#{block}-#{trial}").to_i(16).%(1 << 63).to_s]
          name = "#{step}-#{block}-#{trial}"
          steps = [[name, [Programs.own("bandwidth-io"), step.sub("reread", "read"), *own, *condition(part, step)]]]
          steps << ["#{CHECK}#{name}", [Programs.own("bandwidth-io"), "check", *own]] if step == "read"
          steps
        end.to_h
      end

      def condition(part, step)
        words = part.settings[:direct] && step != "reread" ? %w[--direct] : []
        words << "--cold" if step == "read" && cold?(part)
        words.push("--seconds", REREAD_S.to_s) if step == "reread" && part.scale != "tiny"
        words
      end

      def file(part, work) = "#{work}/#{part.entry.name}.%w"

      # @return [Integer] bytes of a block such as 4k
      def size(block) = block.to_i << (block.end_with?("m") ? 20 : 10)

      # @param output [Hash] what a worker has printed
      # @return [Hash] what is kept of it
      def raw(name, output) = name == "fio" ? fio_raw(output) : output.except("cache")

      # Figures that fio's version 3.33 gets right when a job only reads or only writes. It tells when it ended, and how
      # long it took, in ms.
      def fio_raw(output)
        job = output.fetch("jobs").first
        way = %w[read write].find { |name| job.fetch(name).fetch("io_bytes").positive? }
        end_ms = output.fetch("timestamp_ms")
        took_ms = [job.fetch("job_runtime"), job.fetch(way).fetch("runtime")].max
        { "bytes" => job.fetch(way).fetch("io_bytes"), "start_ns" => (end_ms - took_ms) * 1_000_000,
          "end_ns" => end_ms * 1_000_000, "calls" => job.fetch(way).fetch("total_ios") }
      end
    end
  end
end
