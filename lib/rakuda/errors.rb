# frozen_string_literal: true

# The tree of errors that the front raises itself. A task that fails is no such error: its own exception is kept.

module Rakuda
  # Root of all errors of Rakuda.
  class Error < StandardError; end

  # The engine cannot be found, started, or understood.
  class EngineError < Error; end

  # The engine ended while it was needed.
  class EngineLost < EngineError; end

  # What commands print cannot be written: the disk is full, or who read it has gone.
  class OutputError < Error; end

  # A key, property or option has a value that means nothing.
  class ConfigurationError < Error; end

  # The Rakefile says something wrong; the message begins with its place.
  class RakefileError < ConfigurationError; end

  # A task failed and the engine alone knows why.
  class TaskFailed < Error; end

  # A task was lost with several nodes, and is suspected of taking them down.
  class TaskBlamed < TaskFailed; end

  # Tasks were to begin together and never can.
  class GangRefused < TaskFailed; end

  # An action ended well without its target, with `--strict`.
  class TargetNotMade < TaskFailed; end

  # What an action's commands have printed into a stream is no good, as its last record is not whole.
  class OutputSpoilt < TaskFailed; end

  # A file could not be staged out from a node to this machine.
  class StagingFailed < TaskFailed; end

  # No node is left to run on.
  class NodesGone < Error; end

  # What is known of nodes was asked for (`Rakuda.nodes`), and there is no answer.
  class NodesNotKnown < Error; end

  # Raised inside an action whose node is gone: its task is run again elsewhere. Not a StandardError, as ActionAborted.
  class NodeLost < Exception; end # rubocop:disable Lint/InheritException

  # Raised inside an action that the engine wants to end. Not a StandardError, so that `rescue => e` in an action
  # does not swallow it.
  class ActionAborted < Exception; end # rubocop:disable Lint/InheritException
end
