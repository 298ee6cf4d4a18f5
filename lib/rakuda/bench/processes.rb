# frozen_string_literal: true

require "digest"
require "fileutils"
require "json"
require "tmpdir"

module Rakuda
  module Bench
    # Processes of this machine that were started for a run, by /proc: what a run that was killed has left, and what
    # does not end although it was killed. It opens nothing below the folder that is measured, since its file system may
    # not answer.
    module Processes
      # In the environment of all that is started: by it a later command finds what was left.
      MARK = "RAKUDA_BENCH_DIR"
      # States (proc(5)) of processes that have ended, and that nobody has asked for yet.
      ENDED = %w[Z X].freeze
      # Places behind the name in /proc/PID/stat: the state, the group, and when it was started, in ticks.
      STATE = 0
      GROUP = 2
      STARTED = 19
      NAME_MAX = 60
      PAUSE_S = 0.02

      # One of them. `started` tells it from a later one that has its number.
      One = Struct.new(:pid, :started, :name) do
        def to_s = "#{pid} (#{name})"

        def running? = Processes.started(pid) == started
      end

      module_function

      # @param folder [String, nil] of the run
      # @param group [Integer, nil] of processes
      # @return [Array<One>] those of the run and those of the group, without this one and the one that has started it
      def of(folder, group = nil)
        pids = Dir.children("/proc").grep(/\A\d+\z/).map(&:to_i) - [Process.pid, Process.ppid]
        pids.sort.filter_map do |pid|
          name, fields = stat(pid)
          next if name.nil? || ENDED.include?(fields[STATE])
          next unless fields[GROUP].to_i == group || (folder && marked?(pid, folder))

          One.new(pid, fields[STARTED].to_i, words(pid) || name)
        end
      end

      # @return [Integer, nil] when it was started; nil where it has ended
      def started(pid)
        _, fields = stat(pid)
        fields[STARTED].to_i unless fields.nil? || ENDED.include?(fields[STATE])
      end

      # @param some [Array<One>]
      # @return [Array<One>] those of them that have not ended when the time is over
      def remaining(some, seconds)
        limit = now + seconds
        loop do
          some = some.select(&:running?)
          return some if some.empty? || now > limit

          sleep PAUSE_S
        end
      end

      # @param some [Array<One>] that have not ended; they are killed
      def kill(some)
        some.select(&:running?).each do |one|
          Process.kill(:KILL, one.pid)
        rescue Errno::ESRCH, Errno::EPERM
          nil # it has ended meanwhile, or is somebody else's by now
        end
      end

      # Leaves word of what does not end, for the next command in the folder.
      # @param some [Array<One>]
      def note(folder, some)
        FileUtils.rm_f(path = note_path(folder))
        File.open(path, File::WRONLY | File::CREAT | File::EXCL | File::NOFOLLOW, 0o600) do |file|
          file.write(JSON.generate(some.map(&:to_a)))
        end
      rescue SystemCallError
        nil # then nothing is known of it later
      end

      # @return [Array<One>] what an earlier command has left word of, and has not ended yet
      def noted(folder)
        text = File.open(path = note_path(folder), File::RDONLY | File::NOFOLLOW) { |file| file.read if file.stat.owned? }
        found = JSON.parse(text || "[]").map { |one| One.new(*one) }.select(&:running?)
        FileUtils.rm_f(path) if found.empty?
        found
      rescue SystemCallError, JSON::ParserError
        []
      end

      # Not on the file system that is measured.
      def note_path(folder)
        File.join(Dir.tmpdir, "rakuda-bench-#{Process.euid}-#{Digest::SHA256.hexdigest(folder)[0, 12]}.json")
      end

      # @return [Array(String, Array<String>), nil] its name, and what stands behind that; nil where there is none
      def stat(pid)
        name, rest = File.binread("/proc/#{pid}/stat").match(/\((.*)\) (.*)/m).captures
        [name.force_encoding(Encoding::UTF_8).scrub, rest.split]
      rescue SystemCallError
        nil
      end

      def marked?(pid, folder)
        File.binread("/proc/#{pid}/environ").split("\0").include?("#{MARK}=#{folder}".b)
      rescue SystemCallError
        false # it has ended meanwhile, or is somebody else's
      end

      # @return [String, nil] the first words of its command, without folders; nil where it has none any more
      def words(pid)
        words = File.binread("/proc/#{pid}/cmdline").split("\0").first(3)
        words = words.map { |word| word.start_with?("/") ? File.basename(word) : word }.join(" ")
        words.force_encoding(Encoding::UTF_8).scrub[0, NAME_MAX] unless words.empty?
      rescue SystemCallError
        nil
      end

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
