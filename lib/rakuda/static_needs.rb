# frozen_string_literal: true

# What rake would say of tasks' `needed?` while nothing has been made, for the lines of a dry run. Rake asks each file
# task for all that it needs, recursively; here each task is looked at once, in the order in which tasks get their
# numbers. It decides nothing: what would run is the hub's decision.

module Rakuda
  # `needed?` of planned tasks, by the files as they are.
  class StaticNeeds
    NEVER = -(1 << 100)                    # a file's time has 63 bits of seconds, which is less than 2**93 ns
    LATE = 1 << 100

    # @param build_all [Boolean] -B
    def initialize(build_all)
      @build_all = build_all
      @now = nanoseconds(Time.now)
      @stamps = []                         # by number: rake's timestamp
      @newest = []                         # by number: the greatest of all that it needs
      @needed = {}.compare_by_identity     # task => true or false
    end

    # A task has got its number.
    # @param task [Rake::Task, nil] nil: a helper of the plan
    # @param kind [Integer] one of Protocol::TaskKind
    # @param numbers [Array<Integer>] of its prerequisites
    def add(number, task, kind, numbers)
      newest = NEVER
      numbers.each do |one|
        newest = [newest, @stamps[one], @newest[one]].max
      end
      @newest[number] = newest
      @stamps[number] = stamp(task, kind, newest)
    end

    # @return [Boolean] rake's `needed?`
    def of(task)
      @needed.fetch(task) { task.needed? }
    end

    private

    def stamp(task, kind, newest)
      case task && kind
      when Protocol::TaskKind::PLAIN then @now
      when Protocol::TaskKind::FILE then file_stamp(task, newest)
      when Protocol::TaskKind::DIRECTORY
        @needed[task] = !File.exist?(task.name)
        NEVER
      when Protocol::TaskKind::ASKED then answer(task.timestamp)
      else NEVER
      end
    end

    def file_stamp(task, newest)
      stamp = nanoseconds(File.mtime(task.name))
      @needed[task] = newest > stamp || @build_all
      stamp
    rescue SystemCallError
      @needed[task] = true
      LATE
    end

    # @param time [Object] what the class of a task says
    def answer(time)
      return NEVER if time.equal?(Rake::EARLY)

      time.is_a?(Time) ? nanoseconds(time) : LATE
    end

    def nanoseconds(time)
      (time.to_i * 1_000_000_000) + time.nsec
    end
  end
end
