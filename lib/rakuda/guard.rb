# frozen_string_literal: true

# The guard above this process (docs/design/engine.md): whether there is one, and what it is asked for. It knows no
# message of the engine.

module Rakuda
  # The line to the guard.
  module Guard
    # Names the descriptor of the line in the environment that the guard gives us.
    VARIABLE = "RAKUDA_GUARD"
    # The most bytes of a message: what the guard reads at once.
    PIECE_BYTES = 32 * 1024

    # Taken out of the environment before the Rakefile may look at it.
    @number = ENV.delete(VARIABLE)&.to_i

    class << self
      # @return [Boolean] whether this process runs below a guard
      def there?
        !@number.nil?
      end

      # @param environment [#fetch] as ENV
      # @return [Boolean] whether this process belongs to another run: it has a mark beside its own
      def nested?(environment)
        environment.fetch("RAKUDA_RUN", "").split(":").size > (there? ? 1 : 0)
      end

      # Executes this program once more, below a guard of the engine: as when a gem's own starter has loaded it.
      # @param engine [String] the engine's program
      def start_below(engine)
        words = File.binread("/proc/self/cmdline").split("\0", -1)[0...-1]
        exec([engine, engine], "start", *words)
      end

      # Has the guard start a hub, with the environment, the standard streams and the umask that this process has now.
      # @param program [String]
      # @param link [UNIXSocket] the hub's end of the link
      def start_hub(program, link)
        pieces(ENV.map { |name, value| "#{name}=#{value}\0".b }.join).each { |piece| line.sendmsg("E#{piece}") }
        streams = [STDIN, STDOUT, STDERR].map { |stream| stream.closed? ? File.open(File::NULL, "r+") : stream }
        rights = Socket::AncillaryData.unix_rights(link, *streams)
        line.sendmsg(format("S%03o %s", File.umask, program).b, 0, nil, rights)
      end

      # The process serves the page of the run: it is none of those that the guard ends with the run.
      # @param process [Integer]
      def spare_page(process)
        line.sendmsg("P#{process}")
      end

      private

      def line
        @line ||= UNIXSocket.for_fd(@number).tap { |line| line.close_on_exec = true }
      end

      def pieces(text)
        (0...text.bytesize).step(PIECE_BYTES).map { |at| text.byteslice(at, PIECE_BYTES) }
      end
    end
  end
end
