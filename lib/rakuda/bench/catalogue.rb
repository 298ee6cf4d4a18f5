# frozen_string_literal: true

require "rakuda/bench/errors"
require "rakuda/bench/others"

module Rakuda
  module Bench
    # What can be run: names, families, sizes; ours and those of others. It knows nothing of how.
    module Catalogue
      # One benchmark. `sizes` are the settings of each size; `needs` programs besides our own. One of others has its
      # program and Debian's packages of what it needs.
      Entry = Struct.new(:name, :family, :summary, :sizes, :needs, :program, :packages, keyword_init: true) do
        # @return [Boolean] a workflow whose tasks rakuda finds out by running a Rakefile once
        def recorded? = name.start_with?("homology") || name == "montage"

        # @return [Array<String>] modules of Python that it needs
        def modules = family == "wfcommons" ? %w[wfcommons] : []

        # @return [Boolean] one that every engine can run
        def workflow? = %w[workflow wfcommons].include?(family)
      end

      FAMILIES = %w[mpi micro mapreduce workflow wfcommons].freeze
      KERNEL_SIZES = { "tiny" => {}, "small" => {}, "large" => {} }.freeze
      MIB = 1 << 20
      DFSIO_SIZES = { "tiny" => { files: 16, bytes: MIB, reducers: 1 }, "small" => { files: 32, bytes: 32 * MIB, reducers: 1 },
                      "large" => { files: 256, bytes: 100 * MIB, reducers: 1 } }.freeze
      TRANSFERS = { "tiny" => { bytes: 16 * MIB, blocks: %w[4k 64k], trials: 2 },
                    "small" => { bytes: 2048 * MIB, blocks: %w[4k 64k 1m], trials: 6 },
                    "large" => { bytes: 24_576 * MIB, trials: 6, blocks: %w[4k 8k 16k 32k 64k 128k 256k 512k 1m] } }.freeze

      # Applications whose shapes WfCommons draws, and what each does. In the instances bytes range over seven powers of
      # ten: they are scaled so that all tasks together read as many as the size says.
      SHAPES = { "blast" => "a search of sequences, split, searched, and joined", "bwa" => "alignment of reads to a genome",
                 "cycles" => "parameters of a model of crops", "epigenomics" => "lanes of a sequencer through one pipeline each",
                 "genome" => "individuals of the 1000 genomes, merged and analysed", "montage" => "a mosaic of the sky",
                 "seismology" => "seismograms deconvolved, and one task over all", "soykb" => "variants of soybeans",
                 "srasearch" => "runs of an archive, each fetched and searched" }.freeze
      SHAPE_SIZES = { "tiny" => { tasks: 200, reading: 20 * MIB }, "small" => { tasks: 1000, reading: 4096 * MIB },
                      "large" => { tasks: 5000, reading: 100 * 1024 * MIB, time: 0.01 } }.freeze

      ALL = [
        Entry.new(name: "argot-io", family: "mpi", needs: %w[mpirun], sizes: KERNEL_SIZES,
                  summary: "a file for each process, records through stdio, blocks or O_DIRECT"),
        Entry.new(name: "les-io", family: "mpi", needs: %w[mpirun], sizes: KERNEL_SIZES,
                  summary: "netCDF-4 over MPI-IO, one shared file for each output"),
        Entry.new(name: "qcd-io", family: "mpi", needs: %w[mpirun], sizes: KERNEL_SIZES,
                  summary: "gauge configurations: a file for each process, one by MPI-IO, one by rank 0"),
        Entry.new(name: "bandwidth", family: "micro", needs: [],
                  summary: "sequential writing and reading by block size, by all workers at one instant",
                  sizes: TRANSFERS),
        Entry.new(name: "fio", family: "micro", needs: %w[fio],
                  summary: "the same with fio, whose workers take a different time each to begin", sizes: TRANSFERS),
        Entry.new(name: "metadata", family: "micro", needs: [],
                  summary: "create, stat and remove of directories and files, by all workers at the same time",
                  sizes: { "tiny" => { operations: 200, trials: 2 }, "small" => { operations: 10_000, trials: 10 },
                           "large" => { operations: 10_000, trials: 10 } }),
        Entry.new(name: "mr-homology", family: "mapreduce", needs: [],
                  summary: "a homology search as its I/O, in one job: hits of reads, shuffled by read, the best ten kept",
                  sizes: { "tiny" => { reads: 2_000, read_chunks: 4, subjects: 1_600, database_chunks: 2, reducers: 2 },
                           "small" => { reads: 100_000, read_chunks: 8, subjects: 200_000, database_chunks: 4, reducers: 4 },
                           "large" => { reads: 20_000_000, read_chunks: 64, subjects: 27_000_000, database_chunks: 8,
                                        reducers: 64 } }),
        Entry.new(name: "mr-homology-diamond", family: "mapreduce", needs: %w[diamond],
                  summary: "the same with a real aligner (diamond); most reads must find the protein that they come from",
                  sizes: { "tiny" => { reads: 1_000, read_chunks: 4, subjects: 400, database_chunks: 2, reducers: 2, percent: 5 },
                           "small" => { reads: 40_000, read_chunks: 8, subjects: 20_000, database_chunks: 4, reducers: 4,
                                        percent: 5 },
                           "large" => { reads: 10_000_000, read_chunks: 64, subjects: 500_000, database_chunks: 8, reducers: 64,
                                        percent: 5 } }),
        Entry.new(name: "mr-sort", family: "mapreduce", needs: [], summary: "rows of 100 bytes, sorted by key over all reducers",
                  sizes: { "tiny" => { rows: 32_000, files: 4, reducers: 2 },
                           "small" => { rows: 3_200_000, files: 16, reducers: 4 },
                           "large" => { rows: 1_000_000_000, files: 1000, reducers: 64 } }),
        Entry.new(name: "mr-dfsio-write", family: "mapreduce", needs: [], sizes: DFSIO_SIZES,
                  summary: "a file written by each map, counted by one reduce"),
        Entry.new(name: "mr-dfsio-read", family: "mapreduce", needs: [], sizes: DFSIO_SIZES,
                  summary: "a file read and checked by each map, counted by one reduce"),
        Entry.new(name: "homology-io", family: "workflow", needs: [],
                  summary: "a metagenome homology search as its I/O: chunks of reads x chunks of a database, merged by read",
                  sizes: { "tiny" => { reads: 2_000, read_chunks: 4, subjects: 1_600, database_chunks: 2, reducers: 2 },
                           "small" => { reads: 100_000, read_chunks: 8, subjects: 400_000, database_chunks: 4, reducers: 8 },
                           "large" => { reads: 20_000_000, read_chunks: 64, subjects: 27_000_000, database_chunks: 8,
                                        reducers: 64 } }),
        Entry.new(name: "homology", family: "workflow", needs: %w[diamond],
                  summary: "the same search with a real aligner (diamond); most reads must find the protein that they come from",
                  sizes: { "tiny" => { reads: 1_000, read_chunks: 4, subjects: 400, database_chunks: 2, reducers: 2, percent: 5 },
                           "small" => { reads: 40_000, read_chunks: 8, subjects: 20_000, database_chunks: 4, reducers: 8,
                                        percent: 5 },
                           "large" => { reads: 10_000_000, read_chunks: 64, subjects: 500_000, database_chunks: 8, reducers: 64,
                                        percent: 5 } }),
        Entry.new(name: "copyfile", family: "workflow", needs: [],
                  summary: "n files, copied in two stages (Tanaka, Tatebe 2014)",
                  sizes: { "tiny" => { simulated: %w[copyfile --files 8 --file-size 1] },
                           "small" => { simulated: %w[copyfile --files 32 --file-size 64] },
                           "large" => { simulated: %w[copyfile --files 100 --file-size 3072] } }),
        Entry.new(name: "montage", family: "workflow", needs: %w[mProjectPP],
                  summary: "a mosaic of tiles with the Montage tools; overlapping tiles must agree when it is done",
                  sizes: { "tiny" => { tiles: 2, pixels: 96 }, "small" => { tiles: 6, pixels: 256 },
                           "large" => { tiles: 20, pixels: 1500 } }),
        Entry.new(name: "montage-io", family: "workflow", needs: [],
                  summary: "a mosaic of 421 images (Tanaka, Tatebe 2014) as its I/O; bytes divided by 10,000, 100, 1",
                  sizes: { "tiny" => { simulated: %w[montage], bytes: 1e-4 }, "small" => { simulated: %w[montage], bytes: 0.01 },
                           "large" => { simulated: %w[montage], bytes: 1.0, time: 1.0 } }),
        Entry.new(name: "layers-io", family: "workflow", needs: [],
                  summary: "a random graph in layers, as its I/O",
                  sizes: { "tiny" => { simulated: %w[layers --tasks 100], bytes: 1e-4 },
                           "small" => { simulated: %w[layers --tasks 2000], bytes: 0.01 },
                           "large" => { simulated: %w[layers --tasks 10000], bytes: 1.0 } }),
        *SHAPES.map do |shape, summary|
          Entry.new(name: "wf-#{shape}", family: "wfcommons", needs: [], summary: "#{summary}: its shape, as its I/O",
                    sizes: SHAPE_SIZES.transform_values { |settings| { recipe: shape, **settings } })
        end
      ].freeze

      module_function

      # @return [Array<Entry>] ours, and those of others
      # @raise [UsageError] when one of others cannot be understood
      def all
        others = Others.all.map do |one|
          taken = ALL.any? { |ours| ours.name == one.name }
          raise UsageError, "#{one.folder}: #{one.name} is a benchmark of ours, or a family: rename it" if
            taken || FAMILIES.include?(one.name)

          Entry.new(name: one.name, family: Others::FAMILY, summary: one.summary, sizes: one.sizes, needs: one.needs.keys,
                    program: one.program, packages: one.needs)
        end
        ALL + others
      end

      # @raise [UsageError]
      def find(name)
        ours = ALL.find { |entry| entry.name == name }
        return ours if ours

        entries = all
        entries.find { |entry| entry.name == name } or
          raise UsageError, "no benchmark #{name}; there are #{entries.map(&:name).join(", ")}, and files in WfFormat (FILE.json)"
      end

      # @raise [UsageError]
      def settings(entry, size)
        entry.sizes.fetch(size) { raise UsageError, "#{entry.name} has no size #{size}: expected #{entry.sizes.keys.join(", ")}" }
      end
    end
  end
end
