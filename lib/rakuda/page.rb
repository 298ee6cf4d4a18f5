# frozen_string_literal: true

# The page of a run in a browser (`--ui`): starts `rakudactl ui` beside the run and tells its address. That process
# reads what the run writes; it knows when the run has ended, and ends then. Nothing here waits for a browser.

require "rakuda/guard"

module Rakuda
  # Starts the server of a page.
  class Page
    # @param engine [String] the engine's program
    # @param run [String] name of the run
    # @param folder [String] in which, or above which, its record is
    # @param name [String] of this program, for messages
    def self.open(engine, run, folder, name)
      # It leaves this process at once: who waits for all of its children does not wait for it.
      command = [{ "RAKUDA_RUN" => nil }, engine, "ctl", "-C", folder, "ui", run, "--beside", Process.pid.to_s]
      address, process = IO.popen(command, in: File::NULL, pgroup: true, &:gets)&.split
      Guard.spare_page(process) if process
      $stderr.puts "#{name}: the page of this run#{address ? ": #{address}" : " could not be opened"}"
    rescue SystemCallError => e
      $stderr.puts "#{name}: the page of this run could not be opened: #{e.message}"
    end
  end
end
