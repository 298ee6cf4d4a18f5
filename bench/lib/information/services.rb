# frozen_string_literal: true

require "json"
require "socket"
require "uri"

# Services of information and who asks them, one question after the other over one connection.
module Information
  ROOT = File.expand_path("../../..", __dir__)
  TARGET = ENV.fetch("CARGO_TARGET_DIR", File.join(ROOT, "target"))
  ENGINE = File.join(TARGET, "release/rakudad")
  SWARM = File.join(TARGET, "release/examples/swarm")
  # Of something that is to come, seconds.
  LIMIT = 600
  LOOK = 0.1

  class Stop < StandardError; end

  def self.clock = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  # Ends with this process, however that ends.
  #
  # @return [Integer] its number
  def self.start(*words, **options)
    Process.spawn("setpriv", "--pdeathsig", "TERM", *words, **options)
  end

  def self.stop(pids)
    pids.each { |pid| Process.kill(:TERM, pid) }
    pids.each { |pid| Process.wait(pid) }
  end

  # @yieldreturn [Object] what is waited for, once it is there
  def self.wait(what)
    limit = clock + LIMIT
    loop do
      found = yield and return found
      raise Stop, "it did not come within #{LIMIT} s: #{what}" if clock > limit

      sleep LOOK
    end
  end

  # @yieldreturn [Integer] bytes of an answer
  # @return [Array(Float, Integer)] mean of some answers in s, and bytes of the last
  def self.mean(rounds)
    bytes = 0
    times = Array.new(rounds) do
      begun = clock
      bytes = yield
      clock - begun
    end
    [times.sum / rounds, bytes]
  end

  # The time of a whole command, as {mean}.
  def self.command(rounds, command)
    mean(rounds) do
      bytes = IO.popen(command, err: File::NULL, &:read).bytesize
      raise Stop, "#{command.first} failed" unless $?.success? # rubocop:disable Style/SpecialGlobalVars

      bytes
    end
  end

  # A service, and who asks it.
  class Service
    attr_reader :pid, :address, :token_file

    def initialize(folder, name, *words)
      @token_file = File.join(folder, "#{name}.token")
      @output, writer = IO.pipe
      @pid = Information.start(ENGINE, "info", "--token-file", @token_file, *words,
                               out: writer, err: File.join(folder, "#{name}.errors"), chdir: folder)
      writer.close
    end

    # Waits until it listens.
    def ready
      line = @output.wait_readable(LIMIT) && @output.gets
      raise Stop, "a service did not start" unless line

      @address = URI(line.split.first)
      @token = File.read(@token_file).chomp
      self
    end

    # @return [String] the body
    def get(query = {}, path: "/v1/nodes")
      status, body = ask("#{path}?#{URI.encode_www_form(query)}")
      raise Stop, body unless status == 200

      body
    end

    # @return [Hash, nil] the body; nothing, as long as no attribute is called so
    def find(query)
      status, body = ask("/v1/nodes?#{URI.encode_www_form(query)}")
      return JSON.parse(body) if status == 200
      raise Stop, body unless body.include?("nothing is called")
    end

    # @return [Array(Float, Integer)] {Information.mean}
    def timed(rounds, query) = Information.mean(rounds) { get(query).bytesize }

    # @return [Array<String>] those of `rakudactl nodes`
    def command = [ENGINE, "ctl", "nodes", "--service", @address.to_s, "--token-file", @token_file, "--json"]

    # @return [Array(Float, Float)] share of a core, and bytes/s that have come over its connections
    def cost(seconds)
      before = [processor_s, received]
      begun = Information.clock
      sleep seconds
      time = Information.clock - begun
      [processor_s, received].zip(before).map { |now, then_| (now - then_) / time }
    end

    # @return [Integer] bytes
    def resident = File.read("/proc/#{@pid}/status")[/^VmRSS:\s+(\d+)/, 1].to_i * 1024

    private

    # A connection that is new is not kept waiting by what another one has left.
    def ask(path)
      @socket ||= TCPSocket.new(@address.host, @address.port)
      @socket.write("GET #{path} HTTP/1.1\r\nHost: #{@address.host}:#{@address.port}\r\nAuthorization: Bearer #{@token}\r\n\r\n")
      head = @socket.gets("\r\n\r\n")
      [head[/\A\S+ (\d+)/, 1].to_i, @socket.read(head[/^content-length: (\d+)/i, 1].to_i)]
    rescue SystemCallError, NoMethodError
      # It was closed, as nothing was asked for a while.
      raise if @again

      @socket&.close
      @socket = nil
      @again = true
      retry
    ensure
      @again = false
    end

    def processor_s
      fields = File.read("/proc/#{@pid}/stat").rpartition(")").last.split
      fields[11, 2].sum(&:to_i) / 100.0
    end

    def received
      lines = IO.popen(["ss", "-tinH", "sport", "=", ":#{@address.port}"], &:read)
      lines.scan(/bytes_received:(\d+)/).flatten.sum(&:to_i)
    end
  end

  # A service for each node, and the one that they register with.
  class Tree
    attr_reader :top

    def initialize(folder)
      @folder = folder
      @nodes = []
      @top = Service.new(folder, "top", "-F", "none")
      @top.ready
    end

    def grow(count, providers)
      register = ["--register", @top.address.to_s, "--register-token-file", @top.token_file]
      (@nodes.size...count).each do |number|
        name = "node#{number}"
        @nodes << Service.new(@folder, name, "--name", name, "--providers", providers, "--file-system", "/", *register)
      end
      @nodes.each { |node| node.address || node.ready }
    end

    # Waits until all nodes tell these attributes, each with this number of bytes.
    def wait(attributes, bytes, query)
      query = query.merge(fields: ["node", *attributes].join(","))
      Information.wait("#{attributes.join(", ")} of #{@nodes.size} nodes") do
        nodes = @top.find(query)&.fetch("nodes") || []
        all = nodes.flat_map { |node| attributes.map { |name| node.dig("values", name, "value").to_s.bytesize } }
        nodes.size == @nodes.size && all.all?(bytes)
      end
    end

    def stop = Information.stop([@top, *@nodes].map(&:pid))
  end

  # Nodes that are made up, behind some services in one process, and the service that these register with.
  class Swarm
    attr_reader :top

    def initialize(folder, nodes, services, kilobytes)
      @top = Service.new(folder, "top", "-F", "none")
      @top.ready
      input, @end = IO.pipe
      words = { register: @top.address, token: @top.token_file, services:, nodes:, text: kilobytes }
      @pid = Process.spawn(SWARM, *words.flat_map { |name, value| ["--#{name}", value.to_s] }, in: input)
      input.close
      last = kilobytes.zero? ? "load1" : "part7"
      Information.wait("#{nodes} nodes") do
        @top.find(fields: "node,#{last}")&.fetch("nodes")&.count { |node| node.dig("values", last) } == nodes
      end
    end

    def stop
      @end&.close
      Process.wait(@pid) if @pid
      Information.stop([@top.pid])
    end
  end
end
