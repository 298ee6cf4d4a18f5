# frozen_string_literal: true

# What `rakudactl sync` has rakuda load: reads the configuration and defines the task `sync` from it. Everything else is
# as with the statement `sync` of a Rakefile.

require "json"
require "rakuda/sync_configuration"

# The command line is read when this is loaded, and the Rakefile is empty: so the tasks are defined in its place.
module Rakuda
  # In front of the application's own.
  module SyncMain
    def load_rakefile
      super
      options = sync_options
      options.delete(:call)
      path = ENV.fetch("RAKUDA_SYNC_CONFIGURATION", "")
      SyncConfiguration.new(path.empty? ? nil : path, ENV, options, elsewhere: cluster?).define(self)
    end

    # With what the environment has said.
    def resume_words
      set = SyncConfiguration::NAMES.reject { |name| ENV[name].to_s.empty? }.map { |name| "#{name}=#{ENV.fetch(name)}" }
      call = sync_options[:call]
      call && !set.empty? ? ["env", *set, *call] : call
    end

    private

    def sync_options
      JSON.parse(ENV.fetch("RAKUDA_SYNC_OPTIONS", "{}"), symbolize_names: true).compact
    end
  end

  Application.prepend(SyncMain)
end
