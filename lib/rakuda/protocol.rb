# frozen_string_literal: true

# Kinds and words that front and hub say to each other (docs/design/protocol.md): what crates/proto/src/front.rs has as
# enums. It knows no message and sends nothing. The words of the user's choices stand where those are checked.

module Rakuda
  # Values of fields of the protocol.
  module Protocol
    # What the hub may decide of a task by itself.
    module TaskKind
      PLAIN = 0
      FILE = 1
      DIRECTORY = 2
      ASKED = 3
    end

    # Bits of a task's flags.
    module TaskFlags
      HAS_ACTION = 1
      DEFERRED = 2
      OWN_WAY = 4
    end

    # How an action ended.
    module ActionOutcome
      OK = "ok"
      FAILED = "failed"
      EXIT = "exit"
    end

    # How the error of a command begins that ran and was killed because of a bound.
    BOUND_EXCEEDED = "killed: "
    # How the error of a command begins when streams of its task are at fault.
    STREAMS_FAILED = "streams: "

    # How to stop a run.
    module StopHow
      INTERRUPT = "interrupt"
      KILL = "kill"
    end

    # What became of a task.
    module SettledHow
      EXECUTED = "executed"
      NOT_NEEDED = "not_needed"
      FAILED = "failed"
      ABANDONED = "abandoned"
    end

    # Where a file is that Ruby code has named.
    module FileAnswer
      HERE = "here"
      FILE = "file"
      FOLDER = "folder"
      DONE = "done"
      NOWHERE = "nowhere"
    end

    # The form of a plan.
    module PlanFormat
      TEXT = "text"
      SHORT = "short"
      JSON = "json"
    end

    # The time of a task that its class answers for.
    module Timestamp
      EARLY = "early"
      LATE = "late"
      NOW = "now"

      # @param seconds [Integer] since 1970
      # @param nanoseconds [Integer] after them
      def self.at(seconds, nanoseconds)
        { "at" => [seconds, nanoseconds] }
      end
    end

    # Where a descriptor of a command goes.
    module Redirect
      NULL = "null"
      CLOSE = "close"

      # @param descriptor [Integer] of the command
      def self.fd(descriptor)
        { "fd" => descriptor }
      end

      # @param path [String]
      # @param mode [String] as in fopen: r, w, a, r+, w+ or a+
      # @param permissions [Integer]
      def self.file(path, mode, permissions)
        { "file" => [path, mode, permissions] }
      end

      # @return [String, nil] the file's name; nil: it goes elsewhere
      def self.path(target)
        target["file"]&.first if target.is_a?(Hash)
      end
    end
  end
end
