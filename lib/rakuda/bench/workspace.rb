# frozen_string_literal: true

require "digest"
require "fileutils"
require "json"
require "rakuda/bench/digests"
require "rakuda/bench/errors"
require "rakuda/bench/guard"
require "rakuda/bench/launch"
require "rakuda/bench/processes"
require "rakuda/bench/programs"

module Rakuda
  module Bench
    # A folder that a benchmark writes into. It is marked, and locked while a command uses it; removed is what that
    # command has made, the folder itself only when it was not there before. What was kept stays until its user removes
    # it.
    class Workspace
      MARKER = ".rakuda-bench"
      # Minimum of free space, as a multiple of what the files need.
      SPARE = 1.2
      # File systems that know no locks say one of these.
      NO_LOCKS = [Errno::ENOTSUP, Errno::ENOSYS, Errno::ENOLCK, Errno::EINVAL].freeze
      # How long a file system may take to say how large it is.
      ANSWER_S = 60

      attr_reader :path

      # @param path [String] is not there, or empty, or one of ours
      # @param say [#call] told what a run that was killed has left
      def initialize(path, say = nil)
        @path = File.expand_path(path)
        @say = say
      end

      # @param needed_bytes [Integer] that the benchmark writes
      # @raise [UsageError] when the folder belongs to somebody else, or there is too little space
      def make(needed_bytes)
        take unless @taken
        Workspace.need(path, needed_bytes) do |free|
          "#{needed_bytes} bytes are written, #{free}; expected #{SPARE} times as many"
        end
      end

      # Removes what was made since {make}.
      # @param keep [Boolean] leaves it, for later commands, too
      def finish(keep: false)
        return unless @taken && !Workspace.given_up?

        Workspace.ask(path)
        keep ? note("stay" => children, "kept" => true) : clear
      ensure
        release
      end

      # @return [Boolean] whether a name in the folder was there before
      def stays?(name) = @state.fetch("stay").include?(name)

      # @param needed_bytes [Integer] that are written into a folder
      # @yieldparam free [String] what there is
      # @yieldreturn [String] what to say
      # @raise [UsageError] when they do not fit
      def self.need(path, needed_bytes)
        free, quota = room(path)
        left = [free, quota].compact.min
        return if left >= needed_bytes * SPARE

        words = left == quota ? "#{left} are what a quota leaves" : "#{left} are free"
        raise UsageError, "too little space at #{path}: #{yield words}"
      end

      # @return [Array(Integer, Integer)] bytes that are free for this user, and that quotas leave; nil where none is
      #   known
      def self.room(path)
        output, status = Launch.capture({}, Programs.own("room"), path, timeout: ANSWER_S)
        raise UsageError, output.strip unless status.success?

        output.split.map { |word| Integer(word) unless word == "-" }
      end

      # What an earlier command has killed, and what does not end, is looked for before a folder is opened.
      # @param folders [Array<String>] that a command is about to use
      # @raise [UsageError]
      # @raise [Stuck] when the file system of one does not answer
      def self.refuse_unended(folders)
        folders.map { |folder| File.expand_path(folder) }.each do |path|
          left = Processes.noted(path)
          unless left.empty?
            raise UsageError, "#{path}: an earlier command was ended, and what it had started is still there: " \
                              "#{left.join(", ")}; wait until its file system answers, or name another folder with --dir"
          end

          ask(path)
        end
      end

      # Removes what a round or a trial has made, unless its file system does not answer.
      # @raise [Stuck]
      def self.remove(folder)
        return if given_up?

        ask(File.dirname(folder))
        FileUtils.rm_rf(folder)
      end

      # @return [Boolean] whether something does not end, or does not answer
      def self.given_up? = Guard.current&.given_up? || false

      # Whoever asks a file system that does not answer waits for ever, and so a program is sent to ask.
      # @param limit [Numeric] seconds
      # @raise [Stuck]
      def self.ask(folder, limit: ANSWER_S)
        Launch.capture({}, "stat", "-f", folder, timeout: limit)
      rescue Errno::ENOENT
        nil # there is no such program: what is missing besides is said by whoever needs it
      rescue Failure
        left = Guard.current ? Processes.of(Guard.current.folder) : []
        Guard.current&.give_up(left)
        told = left.empty? ? "" : "; what was started is still there: #{left.join(", ")}"
        raise Stuck, "the file system of #{folder} has not answered for #{limit} s: nothing there is removed#{told}"
      end

      # Folders for what a workflow makes, and links to its inputs, so that it can be run.
      # @param instance [Instance]
      # @param inputs [String] folder that has them
      def self.place(instance, inputs, folder)
        (instance.outputs + instance.inputs).map { |file| File.dirname(file) }.uniq
                                            .each { |below| FileUtils.mkdir_p(File.join(folder, below)) }
        instance.inputs.each { |file| FileUtils.ln(File.join(inputs, file), File.join(folder, file), force: true) }
      end

      # @param files [Array<String>] below `folder`
      # @param limit [Numeric] seconds that reading them may take
      # @return [String] of names and contents
      # @raise [Failure] when one is missing, or the time is over
      def self.digest(folder, files, limit)
        files = files.sort
        sums = Digests.of(folder, files, limit).zip(files).map { |sum, file| "#{sum}  #{file}\n" }
        "sha256:#{Digest::SHA256.hexdigest(sums.join)}"
      end

      private

      def marker = File.join(path, MARKER)

      def children = Dir.children(path) - [MARKER]

      # The guard has the lock from then on.
      def take
        there = File.directory?(path)
        foreign = there && !Dir.empty?(path) && !File.exist?(marker)
        raise UsageError, "#{path} is there already and is no folder of a benchmark: name another one with --dir" if foreign

        FileUtils.mkdir_p(path)
        lock = locked
        @state = { "by" => "rakudactl bench", "made" => !there, "kept" => false, "stay" => [] }.merge(before(lock))
        note("pid" => Process.pid, "started" => Processes.started(Process.pid))
        Guard.current = Guard.new(lock, path)
        ENV[Processes::MARK] = path
        @taken = true
      ensure
        lock&.close
      end

      # Whoever had it may have removed it before it was locked.
      # @return [File]
      def locked
        loop do
          FileUtils.mkdir_p(path)
          file = File.open(marker, File::RDWR | File::CREAT)
          lock(file)
          return file if File.identical?(file, marker)

          file.close
        end
      end

      def lock(file)
        return if file.flock(File::LOCK_EX | File::LOCK_NB)

        said = state_of(file)
        pid = said["pid"]
        # The number may be somebody else's by now.
        gone = pid && Processes.started(pid) != said["started"]
        ends = gone ? "what a run that was killed has started is being ended" : "process #{pid}"
        file.close
        raise UsageError, "#{path} is in use (#{ends}): wait until it is free, or name another folder with --dir"
      rescue *NO_LOCKS
        nil
      end

      # What a run that has ended, or was killed, has said of the folder.
      # @raise [UsageError] when something of it still runs
      def before(lock)
        said = state_of(lock)
        return {} if said.empty?
        return { "kept" => true, "stay" => children, "made" => said.fetch("made", true) } if said.fetch("kept", true)

        refuse_running(said)
        running = Processes.of(path)
        unless running.empty?
          raise UsageError, "#{path}: a run that was killed has left processes: #{running.join(", ")}; end them, or name " \
                            "another folder with --dir"
        end
        @state = said
        @say&.call("#{path}: removed what a run that was killed has left") unless left.empty?
        left.each { |name| FileUtils.rm_rf(File.join(path, name)) }
        said.slice("made", "stay", "kept")
      end

      # @return [Hash] nothing when it was not marked before; of earlier versions all is kept
      def state_of(file)
        file.rewind
        text = file.read
        text.empty? ? {} : JSON.parse(text)
      rescue JSON::ParserError
        { "kept" => true }
      end

      # Its guard was killed, and so has no lock any more; or there are none.
      # @raise [UsageError]
      def refuse_running(said)
        pid, started = said.values_at("pid", "started")
        return if started.nil? || pid == Process.pid || Processes.started(pid) != started

        raise UsageError, "#{path} is in use (process #{pid}): wait until it is free, or name another folder with --dir"
      end

      # The file itself stays: it is what was locked.
      def note(changes)
        @state.merge!(changes)
        File.open(marker, File::WRONLY | File::TRUNC) { |file| file.puts(JSON.generate(@state)) }
      rescue Errno::ENOENT
        nil # somebody has removed the folder
      end

      # @return [Array<String>] names that no earlier command has kept
      def left = children - @state.fetch("stay")

      def clear
        left.each { |name| FileUtils.rm_rf(File.join(path, name)) }
        return note("kept" => true, "stay" => children) unless children.empty?

        FileUtils.rm_f(marker)
        Dir.rmdir(path) if @state.fetch("made")
      rescue Errno::ENOENT, Errno::ENOTEMPTY
        nil # somebody else writes into it, or has removed it
      end

      def release
        return unless @taken

        Guard.current&.close
        Guard.current = nil
        ENV.delete(Processes::MARK)
        @taken = false
      end
    end
  end
end
