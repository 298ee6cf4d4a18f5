# frozen_string_literal: true

require "json"
require "open3"
require "rakuda/bench/errors"
require "rakuda/bench/launch"
require "rakuda/bench/programs"

module Rakuda
  module Bench
    # Hosts that the rounds of a workflow or a job run on, beside this machine: how `rakuda` learns of them, and what
    # the record of a round says. Tasks note times of their host's clock, which are compared with no other host's.
    class Hosts
      # How long a run that is asked to end may take to end what runs on hosts.
      GRACE_S = 30
      # Maximum that the clock of this machine gains on its monotonic one within a round, as a share: by adjusting it.
      DRIFT = 1e-3
      DRIFT_MIN_NS = 1_000_000

      # How often both clocks are read at a time.
      READINGS = 5

      STEPPED = "the clock of this machine was set meanwhile: when commands began is not known"
      ALLOCATION = "each round asks for an allocation of its own: makespan and start-up have the wait for it"

      # The moments at which an engine was started and had ended, by both clocks of this machine.
      Span = Struct.new(:start, :finish, :wall_start, :wall_finish) do
        # ns since 1970 at which the monotonic clock showed 0.
        def offset = wall_start - start

        def length = finish - start

        # @return [Boolean] whether somebody has set the clock meanwhile
        def stepped? = (wall_finish - finish - offset).abs > [length * DRIFT, DRIFT_MIN_NS].max
      end

      # @param options [Options]
      # @return [Hosts, nil] nil for this machine alone
      def self.of(options) = options.far? ? new(options) : nil

      # @param options [Options]
      def initialize(options)
        @options = options
      end

      # @return [Array<String>] of `rakuda`
      def words
        return ["-F", @options[:hosts]] if @options[:hosts]

        ["--cluster", @options[:cluster], "--nodes", @options[:nodes].max.to_s]
      end

      # How many were asked for. Whether those of a host file can be reached is looked at once, before anything is
      # measured.
      # @return [Integer]
      # @raise [Failure]
      def count = @count ||= @options[:hosts] ? reached : @options[:nodes].max

      # @return [Array<String>]
      def notes = @options[:cluster] ? [ALLOCATION] : []

      # What commands on hosts get of the environment, with what the user passes.
      # @param variables [Hash{String => String}]
      # @return [Hash{String => String}]
      def environment(variables)
        variables.merge("PASS_ENV" => [*ENV.fetch("PASS_ENV", "").split(/[\s,]+/), *variables.keys].uniq.join(" "))
      end

      # The clocks of this machine, as near to each other as they can be read: something else may run between two
      # readings, and not each time.
      # @return [Array(Integer, Integer)] monotonic, and since 1970; ns
      def self.now
        readings = Array.new(READINGS) do
          before = Launch.now_ns
          wall = Process.clock_gettime(Process::CLOCK_REALTIME, :nanosecond)
          [Launch.now_ns - before, before, wall]
        end
        readings.min.drop(1)
      end

      # @param record [RunRecord]
      # @param span [Span]
      # @return [Array(Integer, Integer)] ns from the start of the engine until the first command was started, and until
      #   the last one was known to have ended
      # @raise [Failure] when that is not known
      def self.commands_ns(record, span)
        raise Failure, STEPPED if span.stepped?

        times = [record.first_ns, record.last_ns]
        raise Failure, "its record has no command" if times.include?(nil)

        within(span, [times]).first
      end

      # Times of a record as those of the round.
      # @param times [Array<Array(Integer, Integer)>] from and to, ns by the clock of the record
      # @return [Array<Array(Integer, Integer)>] ns from the start of the engine
      # @raise [Failure] when they do not lie within the round
      def self.within(span, times)
        raise Failure, STEPPED if span.stepped?

        times.map do |both|
          first, last = both.map { |time| time - span.offset - span.start }
          raise Failure, "the times in its record do not lie within the round" unless
            first.between?(0, last) && last <= span.length

          [first, last]
        end
      end

      private

      # @return [Integer] of hosts, which are all there
      def reached
        output, errors, status = Open3.capture3(Programs.rakudactl, "nodes", "-F", @options[:hosts], "--json")
        raise Failure, "#{@options[:hosts]}: #{errors.lines.first.to_s.strip.delete_prefix("rakudactl: ")}" unless
          status.success?

        nodes = JSON.parse(output).fetch("nodes")
        return nodes.size if nodes.all? { |node| node["state"] == "up" }

        down = nodes.reject { |node| node["state"] == "up" }.map { |node| node["node"] }
        told = errors.lines.map { |line| line.strip.delete_prefix("rakudactl: ") }.first
        raise Failure, "#{@options[:hosts]}: #{told || "#{down.join(", ")} cannot be reached"}"
      end
    end
  end
end
