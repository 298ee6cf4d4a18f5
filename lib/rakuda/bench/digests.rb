# frozen_string_literal: true

require "rakuda/bench/errors"
require "rakuda/bench/launch"
require "rbconfig"

module Rakuda
  module Bench
    # SHA-256 of files. A program reads them: whoever reads a file system that hangs waits for ever, and a program can
    # be ended. OpenSSL is several times as fast as sha256sum. It does not know what the files are for.
    module Digests
      SCRIPT = 'ARGV.each { |file| puts File.file?(file) ? OpenSSL::Digest.new("SHA256").file(file).hexdigest : "-" }'
      COMMAND = [RbConfig.ruby, "--disable-gems", "-ropenssl", "-e", SCRIPT, "--"].freeze
      # As many names as fit on a command line.
      FILES_MAX = 1000

      module_function

      # @param folder [String]
      # @param files [Array<String>] below it
      # @param limit [Numeric] seconds that all may take
      # @return [Array<String>] one for each file
      # @raise [Failure] when one is missing or cannot be read, or when the time is over
      def of(folder, files, limit)
        end_ns = Launch.now_ns + (limit * 1e9)
        sums = files.each_slice(FILES_MAX).flat_map do |some|
          read(folder, some, [(end_ns - Launch.now_ns) / 1e9, 0].max) { raise Failure, late(folder, limit) }
        end
        missing = sums.index("-")
        raise Failure, "#{files[missing]} was not made" if missing

        sums
      end

      # @yield when the time is over
      # @return [Array<String>] a dash for each that is missing
      def read(folder, files, limit)
        begin
          output, status = Launch.capture({ "RUBYOPT" => nil }, *COMMAND, *files, timeout: limit, chdir: folder)
        rescue Failure
          yield
        end
        sums = output.split("\n")
        return sums if status.success? && sums.size == files.size

        raise Failure, "outputs in #{folder} cannot be read: #{Launch.reason(output)}"
      end

      def late(folder, limit)
        "reading the outputs in #{folder} did not end within #{limit.ceil} s: give it longer with --timeout, or, where its " \
          "file system hangs, name another folder with --dir"
      end
    end
  end
end
