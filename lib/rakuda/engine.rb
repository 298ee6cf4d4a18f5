# frozen_string_literal: true

# The process of the engine: where its program is, how it is started and ended. It knows the handshake and no other
# message.

require "io/nonblock"
require "socket"

module Rakuda
  # Starts and ends `rakudad`.
  class Engine
    NAME = "rakudad"
    # Descriptor of the socket in the engine.
    FD = 3

    # Variable that marks the processes of a run, so that none of them is left when the run is killed. Nested runs
    # stand behind one another, separated by colons.
    MARK = "RAKUDA_RUN"

    # @return [Link]
    attr_reader :link

    # Starts the engine and says hello; does not wait for the answer.
    # @param settings [Hash] of the message Hello
    # @return [Link]
    # @raise [EngineError]
    def start(settings)
      ours, theirs = UNIXSocket.pair
      ours.nonblock = theirs.nonblock = false
      program = find
      @mark = "#{Process.pid}-#{Random.bytes(4).unpack1("H*")}"
      ENV[MARK] = [ENV.fetch(MARK, nil), @mark].compact.join(":")
      @pid = Process.spawn([program, program], "--front-fd", FD.to_s, FD => theirs, pgroup: true)
      theirs.close
      @link = Link.new(ours)
      @link.send_message("Hello", VERSION, settings)
      @link
    rescue SystemCallError => e
      raise EngineError, "cannot start the engine #{program}: #{e.message}"
    end

    # The message Welcome has come.
    def welcome(version, _run, _jobs)
      return if version == VERSION

      raise EngineError, "the engine is version #{version}, rakuda is #{VERSION}: both must come from one installation"
    end

    # Says goodbye and waits for the end of the process.
    # @param failed [Boolean] whether the run ends because of an error, so that the engine says what went wrong
    def finish(failed)
      begin
        @link.send_message("Goodbye", failed)
        @link.flush
      rescue EngineLost
        sweep # gone already; whoever noticed it first has said so
      end
      @link.close
      Process.wait(@pid)
    rescue Errno::ECHILD
      nil
    end

    private

    # The engine was killed, perhaps with its guard: whatever still carries the run's mark goes, too.
    def sweep
      Process.wait(@pid)
      Dir.each_child("/proc") do |entry|
        next unless entry.match?(/\A\d+\z/) && entry.to_i != Process.pid

        marks = File.binread("/proc/#{entry}/environ").split("\0").find { |line| line.start_with?("#{MARK}=") }
        Process.kill(:KILL, entry.to_i) if marks&.split(/[=:]/)&.include?(@mark)
      rescue SystemCallError
        next # not ours, or gone
      end
    rescue Errno::ECHILD
      nil
    end

    def find
      candidates.find { |path| File.file?(path) && File.executable?(path) } or
        raise EngineError, "cannot find the engine #{NAME} (looked at: #{candidates.first(3).join(', ')} and PATH); " \
                           "build it with `cargo build --release` or name it in RAKUDA_ENGINE"
    end

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
