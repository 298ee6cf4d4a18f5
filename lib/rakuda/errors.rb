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

  # A task failed and the engine alone knows why.
  class TaskFailed < Error; end

  # Raised inside an action that the engine wants to end. Not a StandardError, so that `rescue => e` in an action
  # does not swallow it.
  class ActionAborted < Exception; end # rubocop:disable Lint/InheritException
end
