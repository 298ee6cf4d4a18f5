# frozen_string_literal: true

require "digest"
require "json"
require "rakuda/bench/errors"
require "rakuda/bench/programs"

module Rakuda
  module Bench
    # A workflow that every engine gets: tasks with command lines, files with sizes. It comes from an instance in
    # WfFormat (WfCommons): of the simulator, of a recorded run, or of anybody. A task whose program is one of ours runs
    # as it is; any other becomes its I/O alone (`io-task`): it reads its inputs, computes, writes its outputs.
    class Instance
      # One task. `command` is a list of words; `files` are named relative to the folder of the run.
      Task = Struct.new(:id, :name, :command, :inputs, :outputs, :parents, :cores, keyword_init: true) do
        # The file that stands for the task where an engine knows one file a task.
        def target = outputs.first
      end

      # Names in files of other engines: nothing that one of them would read as its own syntax.
      NAME = %r{\A[A-Za-z0-9_][A-Za-z0-9_.+=/-]*\z}
      BYTES_MAX = 1 << 50
      FNV_START = 0xcbf29ce484222325
      FNV_PRIME = 0x100000001b3
      FNV_MASK = (1 << 64) - 1
      OWN = %w[io-task homology-task timed].freeze

      attr_reader :name, :tasks, :files

      # @param path [String] of the instance
      # @param scale_bytes [Float] times each size
      # @param scale_time [Float] times each computing time; 0 for none
      # @raise [UsageError] with what is wrong
      def self.load(path, scale_bytes: 1.0, scale_time: 0.0)
        document = JSON.parse(File.read(path))
        new(document, scale_bytes, scale_time)
      rescue JSON::ParserError, KeyError, TypeError, NoMethodError => e
        raise UsageError, "#{path}: not an instance in WfFormat 1.5 or later: #{e.message.lines.first.strip}"
      end

      # @return [Integer] FNV-1a, 64 bits
      def self.fnv(text) = text.each_byte.reduce(FNV_START) { |sum, byte| ((sum ^ byte) * FNV_PRIME) & FNV_MASK }

      # @return [String] the same as results have it
      def self.fnv_digest(text) = format("fnv1a64:%016x", fnv(text))

      # What a task program notes of its words (task.c): FNV-1a, 64 bits, of each with a NUL behind it, but for the
      # program.
      # @param command [Array<String>]
      # @return [String]
      def self.noted_as(command) = format("%016x", fnv(command.drop(1).map { |word| "#{word}\0" }.join))

      def initialize(document, scale_bytes, scale_time)
        @name = document.fetch("name")
        workflow = document.fetch("workflow")
        specification = workflow.fetch("specification")
        @files = specification.fetch("files").to_h { |file| [file.fetch("id"), size_of(file, scale_bytes)] }
        @executed = workflow.fetch("execution", {}).fetch("tasks", []).to_h { |task| [task.fetch("id"), task] }
        @scale_time = scale_time
        @tasks = specification.fetch("tasks").map { |task| task_of(task) }
        check
      end

      # The figures of a result, from what it keeps of its instance: `rakudactl bench verify` computes them once more.
      # @param contents [Hash] see {#contents}
      # @return [Hash{String => Integer}]
      def self.figures(contents)
        files, tasks = contents.values_at("files", "tasks")
        bytes = ->(place) { tasks.sum { |task| task[place].sum { |file| files.fetch(file).last } } }
        { "tasks" => tasks.size, "files" => files.size, "bytes_in" => bytes[1], "bytes_out" => bytes[2] }
      end

      # What a result keeps: which files there are, and which of them each task reads and writes.
      # @return [Hash{String => Array}] names and bytes of files; of tasks names, and places of files among these
      def contents
        places = files.keys.each_with_index.to_h
        { "files" => files.to_a,
          "tasks" => tasks.map { |task| [task.id, *[task.inputs, task.outputs].map { |some| places.values_at(*some) }] } }
      end

      # @return [Array<String>] files that no task writes
      def inputs
        @inputs ||= tasks.flat_map(&:inputs).uniq - outputs
      end

      # @return [Array<String>] files that tasks write
      def outputs
        @outputs ||= tasks.flat_map(&:outputs)
      end

      # @return [Hash{String => Task}]
      def by_id
        @by_id ||= tasks.to_h { |task| [task.id, task] }
      end

      # Tasks in an order in which each stands behind its parents.
      # @raise [UsageError] when there is none
      def ordered
        @ordered ||= levels.flatten
      end

      # Tasks by the length of the longest way to them: what lies in one level can run at the same time.
      def levels
        @levels ||= begin
          missing = tasks.to_h { |task| [task.id, task.parents.size] }
          children = Hash.new { |hash, key| hash[key] = [] }
          tasks.each { |task| task.parents.each { |parent| children[parent] << task } }
          levels = [tasks.select { |task| task.parents.empty? }]
          until levels.last.empty?
            levels << levels.last.flat_map { |task| children[task.id] }.select { |task| (missing[task.id] -= 1).zero? }
          end
          levels.pop
          raise UsageError, "#{name}: tasks wait for each other in a circle" unless levels.sum(&:size) == tasks.size

          levels
        end
      end

      # Names of tasks by what their programs note of their words.
      # @return [Hash{String => String}]
      def noted = @noted ||= tasks.to_h { |task| [Instance.noted_as(task.command), task.id] }

      # What must be equal for results to be comparable, as far as they do not say {#digest_by_name}: results from
      # before do not.
      def digest = digest_of(tasks.map(&:command))

      # The same, whatever the folder of the task programs is: equal in two checkouts, and on two machines.
      def digest_by_name = digest_of(tasks.map { |task| [File.basename(task.command.first), *task.command.drop(1)] })

      # @param described [Hash] of a result
      # @return [String, nil] what results of one instance have alike
      def self.identity(described) = described.values_at("hash_by_name", "hash").compact.first

      # @param one [Hash] of a result
      # @param other [Hash] likewise
      # @return [Boolean] whether these are one instance
      def self.same?(one, other) = %w[hash hash_by_name].any? { |key| one[key] && one[key] == other[key] }

      def bytes_read = tasks.sum { |task| task.inputs.sum { |file| files.fetch(file) } }
      def bytes_written = tasks.sum { |task| task.outputs.sum { |file| files.fetch(file) } }
      def input_bytes = inputs.sum { |file| files.fetch(file) }

      private

      def digest_of(commands)
        text = tasks.zip(commands).map { |task, command| [task.id, command, task.outputs, task.parents, task.cores] }
        "sha256:#{Digest::SHA256.hexdigest(JSON.generate([text, files.sort]))[0, 32]}"
      end

      def task_of(task)
        id = task.fetch("id")
        executed = @executed.fetch(id, {})
        inputs, outputs = task.fetch("inputFiles").uniq, task.fetch("outputFiles").uniq
        Task.new(id: id, name: task.fetch("name"), inputs: inputs - outputs, outputs: outputs, parents: task.fetch("parents"),
                 cores: executed.fetch("coreCount", 1).to_i.clamp(1, 1 << 16),
                 command: command_of(inputs - outputs, outputs, executed))
      end

      def command_of(inputs, outputs, executed)
        program = executed.dig("command", "program").to_s
        own = OWN.find { |name| File.basename(program) == name }
        return [Programs.own(own), *executed.dig("command", "arguments")] if own

        milliseconds = (seconds_of(executed) * 1000 * @scale_time).round
        words = milliseconds.positive? ? ["--compute-ms", milliseconds.to_s] : []
        words += inputs.flat_map { |file| ["--read", "#{file}:#{@files.fetch(file)}"] }
        words += outputs.flat_map { |file| ["--write", "#{file}:#{@files.fetch(file)}"] }
        [Programs.own("io-task"), *words]
      end

      def size_of(file, scale)
        bytes = file.fetch("sizeInBytes")
        good = bytes.is_a?(Numeric) && bytes >= 0 && bytes * scale <= BYTES_MAX
        return (bytes * scale).round if good

        raise UsageError, "#{name}: file #{file["id"]}: sizeInBytes is #{bytes.inspect[0, 40]}: expected 0 to #{BYTES_MAX}"
      end

      def seconds_of(executed)
        seconds = executed.fetch("runtimeInSeconds", 0)
        return seconds if seconds.is_a?(Numeric) && seconds >= 0

        raise UsageError, "#{name}: task #{executed["id"]}: runtimeInSeconds is #{seconds.inspect[0, 40]}: expected 0 or more"
      end

      def check
        raise UsageError, "#{name}: it has no tasks" if tasks.empty?

        tasks.each do |task|
          raise UsageError,
"#{name}: task #{task.id} writes no file; engines that go by files cannot run it" if task.outputs.empty?

          unknown = task.parents - by_id.keys
          raise UsageError, "#{name}: task #{task.id} has the parent #{unknown.first}, which is not there" unless unknown.empty?
        end
        twice = outputs.tally.find { |_, count| count > 1 }
        raise UsageError, "#{name}: #{twice.first} is written by #{twice.last} tasks" if twice

        (files.keys + outputs + inputs).uniq.each { |file| check_file(file) }
        ordered
      end

      def check_file(file)
        good = file.match?(NAME) && !file.split("/").include?("..")
        raise UsageError, "#{name}: file #{file.inspect}: expected a relative name of letters, digits and _ . + = / -" unless good

        raise UsageError, "#{name}: file #{file} has no size" unless files[file]
      end
    end
  end
end
