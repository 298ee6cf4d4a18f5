# frozen_string_literal: true

# Loads what every run needs. Knows nothing of the engine: what only a run with actions needs (msgpack, sockets,
# fiddle) is loaded by Rakuda::Session when the first task is invoked, so that `rakuda -T` stays quick.

require "rake"

# The Ruby front of Rakuda: plans a Rakefile's tasks and runs their action blocks.
module Rakuda
  # Version of the front; equal to that of the engine, which the handshake checks.
  VERSION = "0.1.0"
end

require "rakuda/errors"
require "rakuda/properties"
require "rakuda/rake_bridge"
require "rakuda/command_line"
require "rakuda/application"
