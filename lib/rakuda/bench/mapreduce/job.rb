# frozen_string_literal: true

require "digest"
require "fileutils"
require "json"
require "open3"
require "rakuda/bench/catalogue"
require "rakuda/bench/programs"
require "rakuda/bench/workspace"

module Rakuda
  module Bench
    module MapReduce
      # A MapReduce job: its inputs, what each map and reduce does, and what must come out. Every engine runs the same; how is
      # not known here.
      class Job
        OUT = "out"
        ROW_BYTES = 100
        # Of a read and of a subject, with what stands before and behind.
        READ_BYTES = 113
        SUBJECT_BYTES = 313

        attr_reader :entry, :settings, :size

        # @param entry [Catalogue::Entry]
        # @param size [String]
        def initialize(entry, size)
          @entry = entry
          @size = size
          @settings = Catalogue.settings(entry, size)
        end

        # @return [String] as the programs in Java call it
        def name = entry.name.delete_prefix("mr-")

        def reducers = settings.fetch(:reducers)

        # @return [Array<Array<String>>] a command that makes an input, for each
        def makers
          case name
          when "homology"
            chunked(:reads, :read_chunks, reads, homology, "queries") +
              chunked(:subjects, :database_chunks, database, homology, "database")
          when "sort" then chunked(:rows, :files, files, mapreduce, "rows")
          when "dfsio-read" then files.map { |file| [mapreduce, "write", file, settings.fetch(:bytes).to_s, "-"] }
          else []
          end
        end

        # @return [Array<String>] files that maps read
        def inputs
          case name
          when "homology" then reads + database
          when "dfsio-write" then []
          else files
          end
        end

        # @param place [#call] number of a map => where its rows go: the beginning of a file's name, or - for stdout
        # @return [Array<Array<String>>] a command for each map
        def maps(place)
          read = name == "homology" ? reads.product(database) : files.map { |file| [file] }
          word = { "homology" => "map", "sort" => "split" }.fetch(name) { name.delete_prefix("dfsio-") }
          parameter = settings.fetch(name.start_with?("dfsio") ? :bytes : :reducers).to_s
          read.map.with_index { |some, i| [program, word, *some, parameter, place[i]] }
        end

        # @return [Array<Array<String>>] what each map reads
        def map_inputs
          name == "homology" ? reads.product(database) : files.map { |file| [file] & inputs }
        end

        # @return [Array<String>] the files that map `number` gives to reducers, by reducer
        def between(prefix)
          name.start_with?("dfsio") ? [prefix] : Array.new(reducers) { |i| "#{prefix}.#{i}" }
        end

        # @return [Array<String>] the command of a reduce over files
        def reduce(number, files)
          [program, { "homology" => "reduce", "sort" => "merge" }.fetch(name, "sum"), part(number), *files]
        end

        # @return [Array<String>] the command of a reduce over all rows, on stdin
        def collect(number)
          return [program, "sum", part(number), "-"] if name.start_with?("dfsio")

          [program, "collect", part(number), number.to_s, reducers.to_s]
        end

        def part(number) = format("#{OUT}/part-%05d", number)

        # @return [Array<String>] what the programs in Java get behind their names
        def words(slots)
          own = case name
                when "homology" then [homology, *reads, "--", *database]
                when "sort" then files
                else [settings.fetch(:bytes).to_s, *files]
                end
          [name, slots.to_s, reducers.to_s, OUT, *own]
        end

        # Whether a run made what it must.
        # @raise [Failure]
        # @return [String] digest of the outputs
        def verify(folder)
          outputs = Dir[File.join(folder, OUT, "part-*")].map { |path| path.delete_prefix("#{folder}/") }.sort
          raise Failure, "#{outputs.size} outputs: expected #{reducers}" unless outputs.size == reducers

          checks(outputs).each do |command|
            output, status = Open3.capture2e(*command, chdir: folder)
            raise Failure, output.lines.last.to_s.strip unless status.success?
          end
          total = name.start_with?("dfsio") && File.read(File.join(folder, outputs.first))
          raise Failure, "it wrote #{total.inspect}: expected #{total_line.inspect}" if total && total != total_line

          digest(folder, outputs + (name == "dfsio-write" ? files : []))
        end

        # @return [Integer] that all maps read, or write
        def bytes
          case name
          when "homology"
            (settings.fetch(:reads) * READ_BYTES * settings.fetch(:database_chunks)) +
              (settings.fetch(:subjects) * SUBJECT_BYTES * settings.fetch(:read_chunks))
          when "sort" then settings.fetch(:rows) * ROW_BYTES
          else settings.fetch(:files) * settings.fetch(:bytes)
          end
        end

        # @return [Integer] a bound of what is there at the same time: inputs, rows between, spills, outputs
        def space
          rows = name == "homology" ? settings.fetch(:reads) * settings.fetch(:database_chunks) * 1000 : bytes
          (name == "homology" ? bytes : 0) + (rows * (name.start_with?("dfsio") ? 2 : 4))
        end

        # @return [Hash{String => Object}] what must be equal for results to be comparable
        def instance
          values = settings.transform_keys(&:to_s)
          { "hash" => "sha256:#{Digest::SHA256.hexdigest(JSON.generate([entry.name, values.sort]))[0, 32]}",
            "maps" => map_inputs.size, "reduces" => reducers, "bytes" => bytes, "settings" => values }
        end

        private

        def homology = Programs.own("homology-task")
        def mapreduce = Programs.own("mapreduce-task")
        def program = name == "homology" ? homology : mapreduce
        def reads = Array.new(settings.fetch(:read_chunks)) { |i| format("reads_%04d", i) }
        def database = Array.new(settings.fetch(:database_chunks)) { |i| format("database_%04d", i) }
        def files = Array.new(settings.fetch(:files)) { |i| format("file_%04d", i) }
        def total_line = "#{settings.fetch(:files)} files, #{bytes} bytes\n"

        def chunked(count, chunks, names, program, word)
          total, each = settings.fetch(count), (settings.fetch(count).to_f / settings.fetch(chunks)).ceil
          names.map.with_index { |file, i| [program, word, file, (i * each).to_s, [each, total - (i * each)].min.to_s] }
        end

        def checks(outputs)
          case name
          when "homology"
            chunk = (settings.fetch(:subjects).to_f / settings.fetch(:database_chunks)).ceil
            numbers = [settings.fetch(:reads), settings.fetch(:subjects), chunk, reducers].map(&:to_s)
            [[homology, "check", *numbers, *outputs]]
          when "sort" then [[mapreduce, "check", settings.fetch(:rows).to_s, *outputs]]
          else files.map { |file| [mapreduce, "read", file, settings.fetch(:bytes).to_s, "-"] }
          end
        end

        # Of contents in the order of reducers: engines have names of their own for the parts.
        def digest(folder, outputs)
          sums = outputs.map { |file| Digest::SHA256.file(File.join(folder, file)).hexdigest }
          "sha256:#{Digest::SHA256.hexdigest(sums.join("\n"))}"
        end
      end
    end
  end
end
