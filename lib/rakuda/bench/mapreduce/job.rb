# frozen_string_literal: true

require "digest"
require "fileutils"
require "json"
require "rakuda/bench/catalogue"
require "rakuda/bench/digests"
require "rakuda/bench/launch"
require "rakuda/bench/programs"
require "rakuda/bench/workspace"

module Rakuda
  module Bench
    module MapReduce
      # A MapReduce job: its inputs, what each map and reduce does, and what must come out. Every engine runs the same;
      # how is not known here.
      class Job
        OUT = "out"
        ROW_BYTES = 100
        # Of a read and of a subject, with what stands before and behind.
        READ_BYTES = 113
        SUBJECT_BYTES = 313
        LETTERS = 300
        # Minimum of the reads that come from a subject and have it as their best hit, in percent.
        FOUND_LEAST = "99"

        attr_reader :entry, :settings, :size

        # @param entry [Catalogue::Entry]
        # @param size [String]
        # @param settings [Hash{Symbol => Integer}] those of a result, which may be of another version
        def initialize(entry, size, settings = Catalogue.settings(entry, size))
          @entry = entry
          @size = size
          @settings = settings
        end

        # @return [String] as the programs in Java call it
        def name = entry.name.delete_prefix("mr-")

        # @return [Boolean] whether reads are searched in a database
        def search? = name.start_with?("homology")

        # @return [Boolean] whether hits are those that a real aligner finds
        def aligned? = name == "homology-diamond"

        def reducers = settings.fetch(:reducers)

        # @return [Array<Array<String>>] a command that makes an input, for each
        def makers
          case name
          when "homology"
            chunked(:reads, :read_chunks, reads, homology, "queries") +
              chunked(:subjects, :database_chunks, database, homology, "database")
          when "homology-diamond" then reads_from_subjects + formatted_database
          when "sort" then chunked(:rows, :files, files, mapreduce, "rows")
          when "dfsio-read" then files.map { |file| [mapreduce, "write", file, settings.fetch(:bytes).to_s, "-"] }
          else []
          end
        end

        # @return [Array<String>] files that maps read
        def inputs
          return reads + database if search?

          name == "dfsio-write" ? [] : files
        end

        # @param place [#call] number of a map => where its rows go: the beginning of a file's name, or - for stdout
        # @return [Array<Array<String>>] a command for each map
        def maps(place)
          read = search? ? reads.product(database) : files.map { |file| [file] }
          parameter = settings.fetch(name.start_with?("dfsio") ? :bytes : :reducers).to_s
          read.map.with_index { |some, i| [*mapper, *some, parameter, place[i]] }
        end

        # @return [Array<Array<String>>] what each map reads
        def map_inputs
          search? ? reads.product(database) : files.map { |file| [file] & inputs }
        end

        # @return [Array<String>] what each map works on
        def map_names = (search? ? reads.product(database) : files.map { |file| [file] }).map { |some| some.join(" ") }

        # @return [Array<String>] what each reduce makes
        def reduce_names = Array.new(reducers) { |i| part(i) }

        # @return [Array<String>] the files that map `number` gives to reducers, by reducer
        def between(prefix)
          name.start_with?("dfsio") ? [prefix] : Array.new(reducers) { |i| "#{prefix}.#{i}" }
        end

        # @return [Array<String>] the command of a reduce over files
        def reduce(number, files)
          word = { "homology" => "reduce", "homology-diamond" => "merge", "sort" => "merge" }.fetch(name, "sum")
          [program, word, part(number), *files]
        end

        # @return [Array<String>] the command of a reduce over all rows, on stdin
        def collect(number)
          return [program, "sum", part(number), "-"] if name.start_with?("dfsio")

          [program, aligned? ? "gather" : "collect", part(number), number.to_s, reducers.to_s]
        end

        def part(number) = format("#{OUT}/part-%05d", number)

        # @return [Array<String>] what the programs in Java get behind their names
        def words(slots)
          own = case name
                when "homology", "homology-diamond" then [*mapper, "--", *reads, "--", *database]
                when "sort" then files
                else [settings.fetch(:bytes).to_s, *files]
                end
          [name, slots.to_s, reducers.to_s, OUT, *own]
        end

        # Whether a run made what it must.
        # @param limit [Numeric] seconds that each look may take
        # @raise [Failure]
        # @return [String] digest of the outputs
        def verify(folder, limit)
          outputs = Dir[File.join(folder, OUT, "part-*")].map { |path| path.delete_prefix("#{folder}/") }.sort
          raise Failure, "#{outputs.size} outputs: expected #{reducers}" unless outputs.size == reducers

          checks(outputs).each { |command| succeed(command, folder, limit) }
          total = name.start_with?("dfsio") && File.read(File.join(folder, outputs.first))
          raise Failure, "it wrote #{total.inspect}: expected #{total_line.inspect}" if total && total != total_line

          digest(folder, outputs + (name == "dfsio-write" ? files : []), limit)
        end

        # What must come out where no numbers tell it: the same maps and reduces, one after the other, without an
        # engine.
        # @param folder [String] with the inputs, and nothing else afterwards
        # @param limit [Numeric] seconds that each of them may take
        # @return [String, nil] digest of the outputs
        # @raise [Failure]
        def reference(folder, limit)
          return unless aligned?

          Dir.mkdir(File.join(folder, OUT))
          parts = map_inputs.each_index.map { |i| between("map_#{i}") }
          [*maps(->(i) { "map_#{i}" }), *Array.new(reducers) { |i| reduce(i, parts.map { |of_map| of_map[i] }) }]
            .each { |command| succeed(command, folder, limit) }
          verify(folder, limit)
        ensure
          [OUT, *parts&.flatten].each { |file| FileUtils.rm_rf(File.join(folder, file)) } if aligned? && !Workspace.given_up?
        end

        # @return [String] how outputs are verified
        def verified_by = aligned? ? "subjects found, output without an engine, sha256" : "expected output, sha256"

        # @return [Integer] that all maps read, or write; of a search as text
        def bytes
          case name
          when "homology", "homology-diamond"
            (settings.fetch(:reads) * READ_BYTES * settings.fetch(:database_chunks)) +
              (settings.fetch(:subjects) * SUBJECT_BYTES * settings.fetch(:read_chunks))
          when "sort" then settings.fetch(:rows) * ROW_BYTES
          else settings.fetch(:files) * settings.fetch(:bytes)
          end
        end

        # @return [Integer] a bound of what is there at the same time: inputs, rows between, spills, outputs
        def space = (search? ? bytes : 0) + space_of_round

        # @return [Integer] the same without the inputs of a search; those of others are a part of it
        def space_of_round
          rows = search? ? settings.fetch(:reads) * settings.fetch(:database_chunks) * 1000 : bytes
          rows * (name.start_with?("dfsio") ? 2 : 4)
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
        def program = search? ? homology : mapreduce
        def reads = Array.new(settings.fetch(:read_chunks)) { |i| format("reads_%04d", i) }
        def database = Array.new(settings.fetch(:database_chunks)) { |i| format("database_%04d%s", i, (".dmnd" if aligned?)) }
        def files = Array.new(settings.fetch(:files)) { |i| format("file_%04d", i) }
        def total_line = "#{settings.fetch(:files)} files, #{bytes} bytes\n"

        def chunked(count, chunks, names, program, word)
          total, each = settings.fetch(count), (settings.fetch(count).to_f / settings.fetch(chunks)).ceil
          names.map.with_index { |file, i| [program, word, file, (i * each).to_s, [each, total - (i * each)].min.to_s] }
        end

        # What stands before the files of a map.
        def mapper
          return [homology, "search", (settings.fetch(:subjects) * LETTERS).to_s] if aligned?

          [program, { "homology" => "map", "sort" => "split" }.fetch(name) { name.delete_prefix("dfsio-") }]
        end

        def reads_from_subjects
          more = settings.values_at(:subjects, :percent).map(&:to_s)
          chunked(:reads, :read_chunks, reads, homology, "homologs").map { |command| command + more }
        end

        def formatted_database
          texts = database.map { |file| file.sub(".dmnd", ".fasta") }
          chunked(:subjects, :database_chunks, texts, homology, "database") +
            texts.zip(database).map { |text, formatted| [homology, "format", text, formatted] }
        end

        def succeed(command, folder, limit)
          output, status = Launch.capture({}, *command, timeout: limit, chdir: folder)
          raise Failure, output.lines.last.to_s.strip unless status.success?
        end

        def checks(outputs)
          case name
          when "homology-diamond"
            [[homology, "recall", *settings.values_at(:reads, :subjects, :percent).map(&:to_s), FOUND_LEAST, *outputs]]
          when "homology"
            chunk = (settings.fetch(:subjects).to_f / settings.fetch(:database_chunks)).ceil
            numbers = [settings.fetch(:reads), settings.fetch(:subjects), chunk, reducers].map(&:to_s)
            [[homology, "check", *numbers, *outputs]]
          when "sort" then [[mapreduce, "check", settings.fetch(:rows).to_s, *outputs]]
          else files.map { |file| [mapreduce, "read", file, settings.fetch(:bytes).to_s, "-"] }
          end
        end

        # Of contents in the order of reducers: engines have names of their own for the parts.
        def digest(folder, outputs, limit)
          "sha256:#{Digest::SHA256.hexdigest(Digests.of(folder, outputs, limit).join("\n"))}"
        end
      end
    end
  end
end
