# frozen_string_literal: true

require "rakuda/bench/errors"
require "rakuda/bench/instance"

module Rakuda
  module Bench
    module MapReduce
      # What maps and reduces note of themselves in a round (IOBENCH_PHASES): when each began, had its rows in order,
      # and ended, by the clock of its host. On one machine times stand in the order of beginning; over hosts in the
      # order of the job, since there the record says which is which. It starts nothing.
      class Marks
        # One line. `words` is the digest of the words of the command (task.c); the programs in Java have none.
        Mark = Struct.new(:part, :begun, :sorted, :ended, :bytes, :words) do
          def of_map = [begun, ended]
          def of_reduce = [begun, sorted, ended]
        end

        # @param path [String] a file, or over hosts a folder with a file of each host
        # @param counts [Hash{String => Integer}] how many there must be of map and of reduce
        # @raise [Failure]
        def initialize(path, counts)
          files = File.directory?(path) ? Dir.children(path).sort.map { |name| File.join(path, name) } : [path]
          @marks = files.flat_map { |file| File.readlines(file) }.map { |line| mark(*line.split) }
          found = counts.to_h { |part, _| [part, of(part).size] }
          return if found == counts

          raise Failure, "#{found.values.join(" maps and ")} reduces ran: expected #{counts.values.join(" and ")}"
        end

        # @return [Hash] of a round on this machine
        def near
          { "maps_ns" => of("map").map(&:of_map).sort, "reduces_ns" => of("reduce").map(&:of_reduce).sort, **shuffled }
        end

        # @param maps [Array<Array<String>>] the commands of the maps
        # @param reduces [Array<Array<String>>] those of the reduces
        # @return [Hash] of a round over hosts, as far as the tasks say it
        # @raise [Failure]
        def far(maps, reduces)
          by_words = @marks.group_by(&:words)
          maps, reduces = [maps, reduces].map { |commands| commands.map { |command| only(command, by_words) } }
          { "maps_ns" => maps.map(&:of_map), "reduces_ns" => reduces.map(&:of_reduce), **shuffled }
        end

        private

        def mark(part, *numbers, words)
          # Those in Java say four numbers alone.
          numbers, words = [*numbers, words], nil if numbers.size == 3
          Mark.new(part, *numbers.map { |number| Integer(number) }, words)
        end

        def of(part) = @marks.select { |mark| mark.part == part }

        def shuffled = { "shuffle_bytes" => @marks.sum(&:bytes) }

        def only(command, by_words)
          found = by_words.fetch(Instance.noted_as(command), [])
          return found.first if found.one?

          raise Failure, "#{command.drop(1).first(3).join(" ")} ran #{found.size} times"
        end
      end
    end
  end
end
