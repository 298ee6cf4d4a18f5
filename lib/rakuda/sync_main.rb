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

    def resume_words
      sync_options[:call]
    end

    private

    def sync_options
      JSON.parse(ENV.fetch("RAKUDA_SYNC_OPTIONS", "{}"), symbolize_names: true).compact
    end
  end

  Application.prepend(SyncMain)
end
