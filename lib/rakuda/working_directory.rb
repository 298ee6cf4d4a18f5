# frozen_string_literal: true

# The current directory as each action sees it. A process has one, so the reactor tells here which job goes on, and the
# process is moved when that job's directory is another. With -j1 there is one for all, as in rake: a job finds what
# the one before it has left. It does not know what jobs do.

module Rakuda
  # Keeps the process in the directory of the job that runs.
  class WorkingDirectory
    # @param shared [Boolean] whether all jobs have one directory, as in rake
    def initialize(shared:)
      @shared = shared
      @base = @real = @start = Dir.pwd.freeze
    end

    # Directory in which jobs start.
    # @return [String]
    attr_reader :base

    # The top level (the Rakefile's body) has moved: jobs start there from now on.
    def base=(path)
      @base = @real = path == @base ? @base : path
    end

    # @param job [#directory] what goes on now; a nil directory is the base
    def enter(job)
      return if @shared

      wanted = job.directory || @base
      return if wanted.equal?(@real)

      Hooks.move(wanted)
      @real = wanted
    rescue SystemCallError
      # The directory is gone. The job finds out at its next use of a relative name, as it would in rake.
      @real = nil
    end

    # The job changes its directory.
    # @return [Integer] 0, as Dir.chdir
    def change(job, path)
      Hooks.move(path)
      @real = Dir.pwd.freeze
      @shared ? @base = @real : job.directory = @real
      0
    end

    # @return [String] the job's directory
    def of(job)
      job.directory || @base
    end

    # Only this process is still in it then.
    # @return [Boolean] whether the directory was removed that the job or the Rakefile has changed to
    def gone?(job)
      directory = of(job)
      !directory.equal?(@start) && !File.directory?(directory)
    end

    # The job goes back to a directory that it was in.
    def return_to(job, path)
      change(job, path)
      job.directory = nil if path.equal?(@base)
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

        # @return [Boolean] whether the job is in the directory now
        def try(directory, job, path)
          directory.change(job, path)
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

        job = session.current_job
        return super unless job

        directory = session.directory
        path = args.empty? ? (ENV["HOME"] || ENV["LOGDIR"] || raise(ArgumentError, "HOME/LOGDIR not set")) : args[0]
        return directory.change(job, path) unless block

        before = directory.of(job)
        # Ruby's own complaint has another text for the form with a block.
        return Hooks.unguarded { super } unless Hooks.try(directory, job, path)

        begin
          yield(path.respond_to?(:to_path) ? path.to_path : path.to_str)
        ensure
          directory.return_to(job, before)
        end
      end
    end
  end
end
