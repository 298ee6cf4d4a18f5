# frozen_string_literal: true

# The engine: where its program is, how it is started and ended. It knows the handshake and no other message.

require "io/nonblock"
require "socket"
require "rakuda/guard"

module Rakuda
  # Starts and ends `rakudad`.
  class Engine
    NAME = "rakudad"
    # @return [Link]
    attr_reader :link

    # @return [String, nil] name of the run, once the engine has said it
    attr_reader :run

    # Has the engine started and says hello, in one frame with what follows; does not wait for the answer.
    # @param settings [Hash] of the message Hello
    # @raise [EngineError]
    # @raise [ConfigurationError] when Ruby has no library msgpack
    def start(settings)
      program = find
      raise EngineError, "no guard of #{program} is above this process; start it by the command rakuda" unless Guard.there?

      ours, theirs = UNIXSocket.pair
      ours.nonblock = theirs.nonblock = false
      Guard.start_hub(program, theirs)
      theirs.close
      require "rakuda/link" # while the engine starts; who asks only where its program is needs no MessagePack
      @link = Link.new(ours)
      @link.send_message("Hello", VERSION, settings)
    rescue SystemCallError => e
      raise EngineError, "cannot start the engine #{program}: #{e.message}"
    rescue LoadError => e
      raise unless e.path == "msgpack"

      raise ConfigurationError, "#{RbConfig.ruby} has no library msgpack: install Debian's ruby-msgpack, or " \
                                "`gem install --user-install msgpack`", cause: nil
    end

    # The message Welcome has come.
    def welcome(version, run, _jobs)
      @run = run
      return if version == VERSION

      raise EngineError, "the engine is version #{version}, rakuda is #{VERSION}: both must come from one installation"
    end

    # Says goodbye and waits for the end of the process.
    # @param failed [Boolean] whether the run ends because of an error, so that the engine says what went wrong
    def finish(failed)
      @link.send_message("Goodbye", failed)
      @link.flush
      @link.wait_for_end
    rescue EngineLost
      nil # gone already; whoever noticed it first has said so
    ensure
      @link.close
    end

    # In a child made by fork: the link is the parent's.
    def forget
      @link.close
    end

    # @return [String] the engine's program
    # @raise [EngineError]
    def self.find
      new.find
    end

    # @return [String] the program
    # @raise [EngineError]
    def find
      candidates.find { |path| File.file?(path) && File.executable?(path) } or
        raise EngineError, "cannot find the engine #{NAME} (looked at: #{candidates.first(3).join(', ')} and PATH); " \
                           "build it with `make build` in Rakuda's sources, put it into PATH or name it in RAKUDA_ENGINE"
    end

    private

    def candidates
      named = ENV.fetch("RAKUDA_ENGINE", "")
      return [named] unless named.empty?

      root = File.expand_path("../..", __dir__)
      [File.join(root, "target", "release", NAME), File.join(root, "libexec", NAME),
       File.join(root, "libexec", "rakuda", NAME)] +
        ENV.fetch("PATH", "").split(File::PATH_SEPARATOR).map { |folder| File.join(folder, NAME) }
    end
  end
end
