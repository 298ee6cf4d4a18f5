# frozen_string_literal: true

module Rakuda
  # The runner of I/O benchmarks.
  module Bench
    # What a user can mend: the words of the command line, a tool that is missing, too little space. Ends with status 2.
    class UsageError < StandardError; end

    # A run that failed: ends with status 1.
    class Failure < StandardError; end

    # What was killed and does not end, or a file system that does not answer: nothing more is done there, and nothing
    # is removed. Ends with status 1.
    class Stuck < StandardError; end
  end
end
