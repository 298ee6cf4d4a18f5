# frozen_string_literal: true

# Loads what every run needs. Knows nothing of the engine: what only a run with actions needs (msgpack, sockets,
# fiddle) is loaded by Rakuda::Session when the first task is invoked, so that `rakuda -T` stays quick.

# An older Ruby would complain of what it cannot read in the other files; all that it reads here it knows.
abort "rakuda: Ruby #{RUBY_VERSION} is too old: expected 3.0 or later" if RUBY_VERSION.to_f < 3.0

# RubyGems finds a gem by its name in its own file; to find who has a file rake.rb, it would read those of all gems.
begin
  gem "rake" if defined?(Gem)
rescue Gem::LoadError
  nil # not in the bundle, or rake is no gem
end
begin
  require "rake"
rescue LoadError => e
  raise unless e.path == "rake"

  abort "rakuda: #{RbConfig.ruby} has no library rake: install Debian's rake, or `gem install --user-install rake`"
end
require "rakuda/boot_sizes"

Rakuda::BootSizes.take_back

# The Ruby front of Rakuda: plans a Rakefile's tasks and runs their action blocks.
module Rakuda
  # Version of the front; equal to that of the engine, which the handshake checks.
  VERSION = "0.1.0"

  # Where the msgpack library is. Found here, before a Rakefile may call Bundler, which hides what is not in its bundle.
  MSGPACK_PATHS = begin
    Gem::Specification.find_by_name("msgpack").full_require_paths
  rescue Gem::LoadError
    Gem.path.flat_map { |path| Dir["#{path}/specifications/msgpack-*.gemspec"] }
       .filter_map { |file| Gem::Specification.load(file) }.max_by(&:version)&.full_require_paths || []
  end.freeze

  # Numbers of the devices that the running action has for itself, by resource.
  # @example
  #   desc "resource=gpu:1"
  #   task(:train) { sh "train --device #{Rakuda.devices[:gpu].first}" }
  # @return [Hash{Symbol => Array<Integer>}] empty outside an action
  def self.devices
    application = Rake.application
    application.is_a?(Application) ? application.running_session&.current_devices || {} : {}
  end

  # Nodes with what is known of them now: those of the run in an action, else this machine.
  # @example
  #   Rakuda.nodes.where("load1 < 0.5*threads").max_by(:mem_available)&.name
  # @return [NodeList]
  def self.nodes
    require "rakuda/node_list"
    application = Rake.application
    NodeList.new(application.is_a?(Application) ? application.running_session&.run_name : nil)
  end
end

require "rakuda/errors"
require "rakuda/protocol"
require "rakuda/guard"
require "rakuda/inherited_state"
require "rakuda/properties"
require "rakuda/needs"
require "rakuda/gangs"
require "rakuda/dsl"
require "rakuda/rake_bridge"
require "rakuda/command_line"
require "rakuda/targets"
require "rakuda/application"
