# frozen_string_literal: true

require "digest"
require "fileutils"
require "open3"
require "rakuda/bench/errors"
require "rakuda/bench/programs"

module Rakuda
  module Bench
    # A folder that a benchmark writes into: made by it, marked as its own, and removed by it; no other is touched.
    class Workspace
      MARKER = ".rakuda-bench"
      # So much more than the files need must be free.
      SPARE = 1.2

      attr_reader :path

      # @param path [String] must not be there, or be one of ours
      def initialize(path)
        @path = File.expand_path(path)
      end

      # @param needed_bytes [Integer] that the benchmark writes
      # @raise [UsageError] when the folder belongs to somebody else, or there is too little space
      def make(needed_bytes)
        foreign = File.directory?(path) && !Dir.empty?(path) && !File.exist?(File.join(path, MARKER))
        raise UsageError, "#{path} is there already and is no folder of a benchmark: name another one with --dir" if foreign

        FileUtils.mkdir_p(path)
        File.write(File.join(path, MARKER), "made by rakudactl bench\n")
        Workspace.need(path, needed_bytes) do |free|
          "#{needed_bytes} bytes are written, #{free}; expected #{SPARE} times as many"
        end
      end

      def remove
        FileUtils.rm_rf(path) if File.exist?(File.join(path, MARKER))
      end

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

      # @return [Array(Integer, Integer)] bytes that are free for this user, and that quotas leave; nil where none is known
      def self.room(path)
        output, errors, status = Open3.capture3(Programs.own("room"), path)
        raise UsageError, errors.strip unless status.success?

        output.split.map { |word| Integer(word) unless word == "-" }
      end

      # @param files [Array<String>] below `folder`
      # @return [String] of names and contents
      # @raise [Failure] when one is missing
      def self.digest(folder, files)
        sums = files.sort.map do |file|
          path = File.join(folder, file)
          raise Failure, "#{file} was not made" unless File.file?(path)

          "#{Digest::SHA256.file(path).hexdigest}  #{file}\n"
        end
        "sha256:#{Digest::SHA256.hexdigest(sums.join)}"
      end
    end
  end
end
