# frozen_string_literal: true

# One end of the socket between front and hub: frames and messages, nothing about what they mean.
# It does not know tasks or Fibers. All sending is done by the one thread that owns it; `interject` alone may
# come in between, from a signal handler.

unless defined?(MessagePack::Factory)
  # A project's own lib/msgpack.rb, or a bundle without it, must not stand in the way.
  $LOAD_PATH.unshift(*Rakuda::MSGPACK_PATHS)
  require "msgpack"
  $LOAD_PATH.shift(Rakuda::MSGPACK_PATHS.size)
end

module Rakuda
  # Frames of MessagePack values over a socket.
  class Link
    # Bytes to ask for in one read.
    READ_BYTES = 64 * 1024
    # A definition batch is sent once it holds this many tasks.
    DEFINITIONS_MAX = 2000
    # Or this many prerequisites: a frame stays far below the protocol's 64 MiB.
    EDGES_MAX = 1_000_000
    # Strings of 512 KiB and more are referred to otherwise, and msgpack 1.4.2 mixes up what is written after some of
    # them.
    COPIED = { write_reference_threshold: 1 << 30 }.freeze
    # Bytes from which on a frame is sent whose messages may be long.
    FRAME_BYTES = 8 << 20

    attr_reader :socket

    # @param socket [Socket] a connected stream socket
    def initialize(socket)
      @socket = socket
      @packer = MessagePack::Packer.new(**COPIED)      # messages not sent yet
      @definitions = MessagePack::Packer.new(**COPIED) # entries of the DefineTasks message that is being collected
      @definitions_count = 0
      @edges = 0
      @unpacker = MessagePack::Unpacker.new(symbolize_keys: true)
      @input = String.new(capacity: READ_BYTES)
      @frame_bytes = nil                         # length of a frame that has not come entirely
      @writing = false
      @interjection = nil
    end

    # Adds a message to the frame that is being collected.
    # @param name [String] name of the message
    # @param fields [Array] what MessagePack can write
    def send_message(name, *fields)
      flush_definitions unless @definitions_count.zero?
      @packer.write_map_header(1).write(name).write(fields)
    end

    # Adds the message ActionEnded; apart, because one is sent for every action.
    # @param began_ns [Integer, nil] when its code began, by Action.now_ns, if it has run until now without a core
    def send_action_ended(number, outcome, text, began_ns = nil)
      flush_definitions unless @definitions_count.zero?
      @packer.write_map_header(1).write("ActionEnded").write_array_header(4).write(number).write(outcome)
             .write_string(bytes(text)).write(began_ns && [began_ns, Action.now_ns])
    end

    # Adds a StartCommand of one command line.
    def send_command_line(command, number, line, options, echo)
      flush_definitions unless @definitions_count.zero?
      @packer.write_map_header(1).write("StartCommand").write_array_header(5)
             .write(command).write(number).write_string(bytes(line)).write(options)
      echo ? @packer.write_string(bytes(echo)) : @packer.write_nil
      flush_when_long
    end

    # Adds a DefineRequirement.
    # @param fields [Hash] as Properties.parse makes them
    # @param task [String] the first that has them
    # @param place [String, nil] where the Rakefile says so
    def send_requirement(id, fields, task, place)
      send_message("DefineRequirement", id, fields.merge("task" => task, "place" => place))
    end

    # Adds a DefineRule. It comes before the tasks that are being collected, which stay one batch.
    # @param location [String] `FILE:LINE`
    # @param source [String, nil]
    def send_rule(number, location, source)
      @packer.write_map_header(1).write("DefineRule").write_array_header(3).write(number).write_string(bytes(location))
      source ? @packer.write_string(bytes(source)) : @packer.write_nil
    end

    # Adds a DefineParameters, likewise.
    # @param list [Array<Array(String, String)>] names and values
    def send_parameters(id, list)
      @packer.write_map_header(1).write("DefineParameters").write_array_header(2).write(id).write_array_header(list.size)
      list.each do |name, value|
        @packer.write_array_header(2).write_string(bytes(name)).write_string(bytes(value))
      end
      flush_when_long
    end

    # Adds a DefineFiles, likewise.
    # @param declared [Hash] patterns of outputs and inputs, and the place
    def send_files(id, declared)
      @packer.write_map_header(1).write("DefineFiles").write_array_header(2).write(id)
             .write(declared.transform_values { |value| value.is_a?(Array) ? value.map(&:b) : value.b })
      flush_when_long
    end

    # Adds one task to the DefineTasks message that is being collected.
    # @param prerequisites [Array<Integer>]
    # @param rule [Integer] 0: none
    # @param parameters [Integer] 0: none
    # @param files [Integer] 0: nothing is declared
    def define_task(number, kind, flags, name, requirement, prerequisites, rule, parameters, files)
      @definitions.write_array_header(9).write(number).write(kind).write(flags).write_string(bytes(name))
                  .write(requirement).write(prerequisites).write(rule).write(parameters).write(files)
      @definitions_count += 1
      @edges += prerequisites.size
      flush if @definitions_count >= DEFINITIONS_MAX || @edges >= EDGES_MAX
    end

    # From here on another plan is collected: its definitions can be forgotten without those before them.
    def end_plan
      flush_definitions unless @definitions_count.zero?
    end

    # Forgets the last definitions. A batch holds those of one plan, so all of them go or none.
    # @return [Boolean] false when some had been sent already
    def forget_definitions(count)
      return false unless count == @definitions_count

      @definitions.clear
      @definitions_count = 0
      true
    end

    # Sends what has been collected, as one frame.
    def flush
      flush_definitions unless @definitions_count.zero?
      return if @packer.empty?

      payload = @packer.to_s
      @packer.clear
      write([payload.bytesize].pack("N") << payload)
    end

    # Sends one message at once; may be called from a signal handler.
    def interject(name, *fields)
      payload = MessagePack.pack({ name => fields })
      frame = [payload.bytesize].pack("N") << payload
      if @writing
        @interjection = (@interjection || +"") << frame
      else
        write(frame)
      end
    end

    # Reads what has come, waiting for the first byte.
    # @yield [name, fields] every message
    # @yieldparam name [Symbol]
    # @yieldparam fields [Array]
    def receive(&block)
      read
      buffer = @unpacker.buffer
      loop do
        @frame_bytes ||= buffer.read(4).unpack1("N") if buffer.size >= 4
        return if @frame_bytes.nil? || buffer.size < @frame_bytes

        rest = buffer.size - @frame_bytes
        @frame_bytes = nil
        @unpacker.read.each(&block) while buffer.size > rest
      end
    end

    # Waits until the other end is closed.
    def wait_for_end
      loop { @socket.readpartial(READ_BYTES, @input) }
    rescue EOFError, Errno::ECONNRESET
      nil
    end

    # No more messages will be sent or read.
    def close
      @socket.close unless @socket.closed?
    end

    private

    # The unpacker's buffer takes the bytes as they come, lengths and all: a slice of the input would share its memory,
    # and every read would then allocate anew.
    def read
      @socket.readpartial(READ_BYTES, @input)
      @unpacker.feed(@input)
    rescue EOFError, Errno::ECONNRESET => e
      raise why_lost(e)
    end

    # What the engine has said last, before its end was noticed, is why it has ended.
    # @param error [SystemCallError, EOFError]
    # @return [Exception]
    def why_lost(error)
      return error.cause if error.cause.is_a?(ConfigurationError)

      EngineLost.new("the engine (rakudad) ended unexpectedly")
    end

    # A MessagePack str when the bytes are ASCII, else a bin: never converted, whatever the encoding.
    def bytes(text)
      text.ascii_only? ? text : text.b
    end

    def flush_when_long
      flush if @packer.buffer.size >= FRAME_BYTES
    end

    def flush_definitions
      payload = @definitions.to_s
      @packer.write_map_header(1).write("DefineTasks").write_array_header(1).write_array_header(@definitions_count)
      @packer.buffer << payload
      @definitions.clear
      @definitions_count = 0
      @edges = 0
    end

    # Writes all of the bytes. The socket blocks: a hub that is slow to read slows the front, and nothing is lost.
    def write(bytes)
      @writing = true
      begin
        bytes = bytes.byteslice(@socket.syswrite(bytes)..) until bytes.empty?
      rescue Errno::EINTR
        retry
      end
      @writing = false
      return unless @interjection

      bytes = @interjection
      @interjection = nil
      write(bytes)
    rescue Errno::EPIPE, Errno::ECONNRESET => e
      raise why_lost(e)
    ensure
      @writing = false
    end
  end
end
