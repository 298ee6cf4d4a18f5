# frozen_string_literal: true

require "digest"
require "fileutils"
require "rakuda/bench/errors"

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
        free = Workspace.free_bytes(path)
        return if free >= needed_bytes * SPARE

        raise UsageError, "too little space at #{path}: #{needed_bytes} bytes are written, #{free} are free; " \
                          "expected #{SPARE} times as many"
      end

      def remove
        FileUtils.rm_rf(path) if File.exist?(File.join(path, MARKER))
      end

      # @return [Integer] bytes that this user may still write
      def self.free_bytes(path)
        Integer(IO.popen(["df", "-B1", "--output=avail", path], &:read).lines.last)
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
