# frozen_string_literal: true

require "optparse"
require "rakuda/bench/errors"

module Rakuda
  module Bench
    # The words of the command line, understood.
    class Options
      DEFAULTS = { size: "tiny", dir: "bench-work", out: "bench-results", rounds: nil, slots: nil, ranks: [2], per_node: nil,
                   workers: 2, engines: nil,
                   timeout: 3600, seed: 1, html: nil, family: nil, keep: false, dry_run: false, scale_bytes: 1.0,
                   scale_time: 0.0, hosts: nil, cluster: nil, nodes: [1], cache: "any", instance: nil, force: false,
                   seconds: nil, style: %w[flat], file_size: nil, blocks: nil, operations: nil, direct: false }.freeze
      PLACES = %i[size dir out timeout].freeze
      # Options that each kind of work takes; all others have no effect there, and are refused.
      TAKEN = {
        "list" => %i[family], "info" => %i[ranks], "verify" => [], "report" => %i[html], "diff" => %i[force],
        "predict" => %i[instance],
        "prepare" => %i[size dir scale_bytes scale_time], "emit" => %i[size dir engines slots style scale_bytes scale_time],
        "run of a kernel" => PLACES + %i[cache rounds keep dry_run seconds ranks per_node hosts cluster nodes],
        "run of a micro-benchmark" => PLACES + %i[keep dry_run seconds hosts cluster nodes workers rounds file_size blocks
                                                  operations cache direct],
        "run of others' benchmarks" => PLACES + %i[keep dry_run workers],
        "run of a workflow" => PLACES + %i[cache rounds keep slots style scale_bytes scale_time hosts cluster nodes],
        "run of MapReduce" => PLACES + %i[cache rounds keep slots engines hosts cluster nodes],
        "compare" => PLACES + %i[cache rounds keep slots engines style scale_bytes scale_time hosts cluster nodes],
        "suite" => %i[dir out timeout keep slots ranks per_node hosts cluster nodes workers size seconds],
        # What its figures say themselves has no effect on them.
        "suite paper" => PLACES + %i[keep hosts cluster nodes]
      }.freeze
      # Works that have tasks in engines.
      IN_ENGINES = ["run of a workflow", "run of MapReduce", "compare"].freeze
      SLOTS_FAR = "--slots: over hosts (-F, --cluster) workflows and MapReduce jobs have the slots of the hosts"
      # What stands on the command line for it, where that is another word.
      WORDS = { ranks: "np" }.freeze
      # What some options choose from; of STYLES there may be several, with commas between.
      VALUES = { size: %w[tiny small large], cache: %w[any warm cold], cluster: %w[slurm] }.freeze
      STYLES = %w[flat idiomatic].freeze
      HOURS_MAX = 30 * 24 * 3600
      COUNT_MAX = 1 << 20

      attr_reader :words, :behind

      # @param arguments [Array<String>]
      # @raise [UsageError]
      def initialize(arguments)
        split = arguments.index("--") || arguments.size
        @behind = arguments[(split + 1)..] || []
        @values = DEFAULTS.dup
        @given = []
        @words = parser.parse(arguments[0...split])
      rescue OptionParser::ParseError => e
        raise UsageError, "#{e.message}; `rakudactl bench help` lists the options"
      end

      def [](name) = @values.fetch(name)

      def values_at(*names) = @values.fetch_values(*names)

      # @return [Boolean] whether there are nodes beside this machine
      def far? = !(self[:hosts] || self[:cluster]).nil?

      # @return [Options] the same with other values
      def with(changes)
        dup.tap { |copy| copy.instance_variable_set(:@values, @values.merge(changes)) }
      end

      # @param works [Array<String>] keys of TAKEN
      # @param takes_behind [Boolean] whether options behind -- mean something
      # @raise [UsageError] for an option that none of them takes
      def check(works, takes_behind: false)
        other = (@given - works.flat_map { |work| TAKEN.fetch(work) }).first
        if other
          fitting = TAKEN.select { |_, names| names.include?(other) }.keys
          word = WORDS.fetch(other, other).to_s.tr("_", "-")
          raise UsageError, "--#{word} means nothing to `#{works.join("`, `")}`; it does to #{fitting.join(", ")}"
        end
        raise UsageError, "-F and --cluster: expected one of them" if self[:hosts] && self[:cluster]

        check_nodes if given?(:nodes) && works.intersect?(["run of a micro-benchmark", *IN_ENGINES])
        check_far if far? && works.intersect?(IN_ENGINES)
        raise UsageError, "--nodes #{self[:nodes].join(",")}: say which with -F or --cluster" if self[:nodes].max > 1 && !far?
        return if behind.empty? || takes_behind

        raise UsageError, "options behind -- (#{behind.first}) are for MPI kernels of `run`, for one benchmark of others, and " \
                          "for `predict`"
      end

      # Workers of micro-benchmarks, and tasks of workflows and jobs, take all hosts that there are.
      # @raise [UsageError]
      def check_nodes
        what = "--nodes of micro-benchmarks, workflows and MapReduce jobs"
        raise UsageError, "#{what} is the size of an allocation: give --cluster, too" unless self[:cluster]
        raise UsageError, "#{what}: expected one number, as they are no sweep" if self[:nodes].size > 1
      end
      private :check_nodes

      # Of workflows and jobs, whose tasks run on other hosts.
      # @raise [UsageError]
      def check_far
        raise UsageError, SLOTS_FAR if given?(:slots)
        return if self[:cache] == "any"

        raise UsageError, "--cache #{self[:cache]}: nothing looks at page caches of hosts (-F, --cluster); workflows and " \
                          "MapReduce jobs run there with any"
      end
      private :check_far

      # @return [Boolean] whether the option stands on the command line
      def given?(name) = @given.include?(name)

      # @return [String] the options, one a line
      def self.help = new([]).send(:parser).summarize.join

      # @return [Array<Array(String, Symbol, Boolean, String)>] of each option: as it stands on the command line, its
      #   name here, whether it has a value, and what it is
      def self.all
        new([]).send(:parser).top.list.flat_map do |switch|
          long = switch.long.first.delete_prefix("--")
          name = WORDS.key(long.to_sym) || long.tr("-", "_").to_sym
          (switch.long + switch.short.map { |letter| "-#{letter.delete_prefix("-")}" }).map do |flag|
            [flag, name, !switch.arg.nil?, switch.desc.first.to_s]
          end
        end
      end

      private

      def parser
        OptionParser.new do |on|
          on.summary_width = 24
          sizes(on)
          micro(on)
          counts(on)
          on.on("--engines A,B", Array, "engines to compare") { |value| set(:engines, names(value)) }
          on.on("--style STYLE,...", Array, "one rule for each task (flat), for each kind (idiomatic) [flat]") do |value|
            set(:style, styles(value))
          end
          on.on("--family NAME", "list: only these") { |value| set(:family, value) }
          on.on("--html FOLDER", "report: write a page and pictures into FOLDER") { |value| set(:html, value) }
          on.on("--instance FILE", "predict: the workflow in WfFormat that the results are of") do |value|
            set(:instance, File.expand_path(value))
          end
          on.on("--force", "diff: results that were measured under other conditions, too") { set(:force, true) }
          on.on("--keep", "leave the files that were measured") { set(:keep, true) }
          on.on("--dry-run", "run: print the Rakefile, and do nothing") { set(:dry_run, true) }
        end
      end

      def sizes(on)
        on.on("--size SIZE", VALUES[:size], "tiny (seconds), small (minutes here), large (the papers') [tiny]") do |value|
          set(:size, value)
        end
        on.on("--dir FOLDER", "where files are written and read; removed afterwards [bench-work]") { |value| set(:dir, value) }
        on.on("--out FOLDER", "where results are written [bench-results]") { |value| set(:out, value) }
        on.on("--cache STATE", VALUES[:cache], "what is read first: any, warm, cold [any; micro: cold]") do |value|
          set(:cache, value)
        end
        on.on("--scale-bytes X", Float, "a file in WfFormat: times each size [1]") { |value| set(:scale_bytes, positive(value)) }
        on.on("--scale-time X", Float, "a file in WfFormat: times each computing time [0]") { |value|
 set(:scale_time, not_less(value)) }
      end

      def micro(on)
        on.on("--file-size SIZE", "bandwidth, fio: a worker's file, such as 256M; memory: as large as this machine's") do |value|
          set(:file_size, bytes(value))
        end
        on.on("--blocks SIZE,...", Array, "bandwidth, fio: sizes of blocks, such as 4k,64k,1m") do |value|
          set(:blocks, blocks(value))
        end
        on.on("--direct", "bandwidth: write and read with O_DIRECT") { set(:direct, true) }
        on.on("--operations N", Integer, "metadata: how often each worker does each") { |value| set(:operations, count(value)) }
      end

      def counts(on)
        on.on("--rounds N", Integer, "rounds or repetitions [1 for tiny, else 6]") { |value| set(:rounds, count(value)) }
        on.on("--seconds S", Float, "sizes such that all writing, and all reading, take S seconds; suite node: 2") do |value|
          set(:seconds, positive(value))
        end
        on.on("-j", "--slots N", Integer, "tasks at the same time [the cores of this machine]") { |value|
 set(:slots, count(value)) }
        on.on("--np N,...", Array, "ranks of MPI kernels; several are a sweep [2]") { |value| set(:ranks, several(value)) }
        on.on("--per-node N", Integer, "ranks of each node, in place of --np") { |value| set(:per_node, count(value)) }
        on.on("-F", "--hosts FILE",
"run on the hosts of FILE; --dir of all but micro-benchmarks must be one folder on all of them") do |value|
          set(:hosts, File.expand_path(value))
        end
        on.on("--cluster slurm", VALUES[:cluster],
              "likewise, in an allocation of Slurm that is asked for, in place of -F") { |value| set(:cluster, value) }
        on.on("--nodes N,...", Array, "hosts that the ranks of a kernel are spread over; several are a sweep [1]") do |value|
          set(:nodes, several(value))
        end
        on.on("--workers N", Integer, "workers of micro-benchmarks [2]") { |value| set(:workers, count(value)) }
        on.on("--timeout S", Integer, "seconds after which a run, or all rounds of a comparison, are ended [3600]") { |value|
 set(:timeout, count(value, HOURS_MAX)) }
      end

      def set(name, value)
        @given |= [name]
        @values[name] = value
      end

      def count(value, most = COUNT_MAX)
        raise OptionParser::InvalidArgument, "#{value}: expected 1 to #{most}" unless value.between?(1, most)

        value
      end

      # @return [Integer] of a text such as 256M; whole blocks of 1 MiB, as blocks of all sizes must fit
      def bytes(text)
        return File.read("/proc/meminfo")[/^MemTotal:\s+(\d+)/, 1].to_i >> 10 << 20 if text == "memory"

        number, unit = text.match(/\A(\d{1,9})([kmgt])\z/i)&.captures
        size = number.to_i << { "k" => 10, "m" => 20, "g" => 30, "t" => 40 }.fetch(unit.to_s.downcase, 0)
        return size if size.positive? && (size % (1 << 20)).zero?

        raise OptionParser::InvalidArgument, "#{text}: expected a multiple of 1 MiB, such as 256M or 24G, or memory"
      end

      # @return [Array<String>] as fio reads them, from small to large, each once
      def blocks(words)
        words = words.map(&:downcase).uniq
        bad = words.find { |word| !word.match?(/\A(?:[1-9]\d{0,3}k|1m)\z/) || (1024 % word.to_i).positive? }
        raise OptionParser::InvalidArgument, "#{bad}: expected sizes that divide 1 MiB, such as 4k,64k,1m" if bad || words.empty?

        words.sort_by { |word| word.to_i << (word.end_with?("m") ? 10 : 0) }
      end

      # @return [Array<String>]
      def names(words)
        return words unless words.empty? || words.any?(&:empty?)

        raise OptionParser::InvalidArgument, "#{words.join(",").inspect}: expected names with commas between"
      end

      # @return [Array<Integer>] as they stand, each once
      def several(words)
        raise ArgumentError if words.empty?

        words.map { |word| count(Integer(word, 10)) }.uniq
      rescue ArgumentError
        raise OptionParser::InvalidArgument, "#{words.join(",").inspect}: expected numbers with commas between"
      end

      def styles(words)
        other = words.empty? ? '""' : (words - STYLES).first and
          raise OptionParser::InvalidArgument, "#{other}: expected flat, idiomatic, or both with a comma between"
        words.uniq
      end

      def positive(value)
        raise OptionParser::InvalidArgument, "#{value}: expected more than 0" unless value.positive? && value.finite?

        value
      end

      def not_less(value)
        raise OptionParser::InvalidArgument, "#{value}: expected 0 or more" unless value >= 0 && value.finite?

        value
      end
    end
  end
end
