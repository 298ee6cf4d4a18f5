# frozen_string_literal: true

# What the Rakefile of a MegaScript program loads first: the run knows by which command the program was started, and
# says whether it runs tasks or only answers a question, as with -n. Without such a program it changes nothing.

require "json"

module Rakuda
  # In front of the application's own.
  module MegascriptMain
    # Taken out of the environment, which commands have, too.
    PROGRAM = JSON.parse(ENV.delete("RAKUDA_MEGASCRIPT") || "{}")

    # The program starts this run again.
    def resume_words
      PROGRAM["command"] || super
    end

    def top_level
      asked = options.dryrun || options.show_tasks || options.show_prereqs
      File.write(PROGRAM["mark"], "") if PROGRAM["mark"] && !asked
      super
    end
  end

  Application.prepend(MegascriptMain)
end
