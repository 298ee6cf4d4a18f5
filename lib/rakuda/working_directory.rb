# frozen_string_literal: true

# The current directory as each action sees it. A process has one, so the reactor tells here which activity goes on, and
# the process is moved when that activity's directory is another. With -j1 there is one for all, as in rake: an activity
# finds what the one before it has left. It does not know what activities do.

module Rakuda
  # Keeps the process in the directory of the activity that runs.
  class WorkingDirectory
    # @param shared [Boolean] whether all activities have one directory, as in rake
    def initialize(shared:)
      @shared = shared
      @base = @real = @start = Dir.pwd.freeze
    end

    # Directory in which activities start.
    # @return [String]
    attr_reader :base

    # The top level (the Rakefile's body) has moved: activities start there from now on.
    def base=(path)
      @base = @real = path == @base ? @base : path
    end

    # @param activity [#directory] what goes on now; a nil directory is the base
    def enter(activity)
      return if @shared

      wanted = activity.directory || @base
      return if wanted.equal?(@real)

      Hooks.move(wanted)
      @real = wanted
    rescue SystemCallError
      # The directory is gone. The activity finds out at its next use of a relative name, as it would in rake.
      @real = nil
    end

    # The activity changes its directory.
    # @return [Integer] 0, as Dir.chdir
    def change(activity, path)
      Hooks.move(path)
      @real = Dir.pwd.freeze
      @shared ? @base = @real : activity.directory = @real
      0
    end

    # @return [String] the activity's directory
    def of(activity)
      activity.directory || @base
    end

    # Only this process is still in it then.
    # @return [Boolean] whether the directory was removed that the activity or the Rakefile has changed to
    def gone?(activity)
      directory = of(activity)
      !directory.equal?(@start) && !File.directory?(directory)
    end

    # The activity goes back to a directory that it was in.
    def return_to(activity, path)
      change(activity, path)
      activity.directory = nil if path.equal?(@base)
    end

    # In front of Dir.chdir: without Ruby's own block counter, which is one for all Fibers.
    module Hooks
      class << self
        # @return [#call, nil] gives the session, or nil where Ruby's own chdir must serve
        attr_accessor :session

        # Ruby's own Dir.chdir without a block.
        def move(path)
          unguarded { Dir.chdir(path) }
        end

        # @return [Boolean] whether the activity is in the directory now
        def try(directory, activity, path)
          directory.change(activity, path)
          true
        rescue SystemCallError
          false
        end

        # Dir.chdir is Ruby's own inside the block.
        def unguarded
          Thread.current[:rakuda_chdir] = true
          yield
        ensure
          Thread.current[:rakuda_chdir] = nil
        end
      end

      def chdir(*args, &block)
        session = Hooks.session
        return super if session.nil? || Thread.current[:rakuda_chdir] || args.size > 1

        activity = session.current_activity
        return super unless activity

        directory = session.directory
        path = args.empty? ? (ENV["HOME"] || ENV["LOGDIR"] || raise(ArgumentError, "HOME/LOGDIR not set")) : args[0]
        return directory.change(activity, path) unless block

        before = directory.of(activity)
        # Ruby's own complaint has another text for the form with a block.
        return Hooks.unguarded { super } unless Hooks.try(directory, activity, path)

        begin
          yield(path.respond_to?(:to_path) ? path.to_path : path.to_str)
        ensure
          directory.return_to(activity, before)
        end
      end
    end
  end
end
