# frozen_string_literal: true

require "fileutils"
require "json"
require "socket"
require_relative "services"

# What others answer that have the same: slapd with the entries, Prometheus with the numbers.
module Information
  # Asks slapd, with the start of a process.
  class Ldapsearch
    PACKAGE = "ldap-utils"

    def self.program = Information.server("ldapsearch")
  end

  # slapd of OpenLDAP with entries of a service.
  class Slapd
    BASE = "Mds-Vo-name=local,o=grid"
    FOUND = ["objectClass", "RakudaNode"].freeze

    PACKAGE = "slapd"

    def self.program = Information.server("slapd")

    def initialize(folder, ldif)
      @folder = File.join(folder, "slapd")
      FileUtils.rm_rf(@folder)
      FileUtils.mkdir_p(File.join(@folder, "data"))
      entries = ldif.gsub("\n ", "")
      names = entries.scan(/^([A-Za-z][A-Za-z0-9-]*):/).flatten.uniq - %w[version dn objectClass o]
      classes = entries.scan(/^objectClass: (.*)$/).flatten.uniq - %w[RakudaNode RakudaGrid]
      File.write(File.join(@folder, "slapd.conf"), configuration(names, classes))
      File.write(File.join(@folder, "entries"), entries)
      run("slapadd", "-q", "-f", "slapd.conf", "-l", "entries")
      @port = TCPServer.open("127.0.0.1", 0) { |server| server.addr[1] }
      @pid = Information.start(Slapd.program, "-f", "slapd.conf", "-h", "ldap://127.0.0.1:#{@port}", "-d", "0",
                               chdir: @folder, %i[out err] => File::NULL)
      @socket = Information.wait("slapd") { connect }
    end

    # @return [Array(Float, Integer)] as {Information.mean}, over one connection
    def timed(rounds) = Information.mean(rounds) { search }

    # @return [Array(Float, Integer)] of the whole command; nothing, where that is missing
    def command(rounds)
      return [nil, 0] unless Ldapsearch.program

      Information.command(rounds, ["ldapsearch", "-x", "-LLL", "-o", "ldif-wrap=no", "-H", "ldap://127.0.0.1:#{@port}",
                                   "-b", BASE, FOUND.join("=")])
    end

    def stop = Information.stop([@pid])

    private

    def connect
      TCPSocket.new("127.0.0.1", @port)
    rescue Errno::ECONNREFUSED
      nil
    end

    # RFC 4511: one request, its entries, and at last how it ended.
    def search
      @socket.write(request)
      bytes = 0
      loop do
        message = element.last
        bytes += message.bytesize
        # Behind the number of the message, which is 1.
        case message.getbyte(3)
        when 0x64 then next
        when 0x65 then return bytes
        else raise Stop, "slapd says something else"
        end
      end
    end

    # @return [Array(Integer, String)] tag and content of what comes next
    def element
      tag, length = @socket.read(2).unpack("CC")
      length = @socket.read(length - 128).unpack("C*").inject { |sum, byte| (sum << 8) + byte } if length >= 128
      [tag, @socket.read(length)]
    end

    def request
      none = encoded(2, "\0")
      filter = encoded(0xa3, FOUND.map { |word| encoded(4, word) }.join)
      # The whole subtree, no aliases, no limits, values as well, all attributes.
      body = encoded(4,
BASE) + encoded(10, "\2") + encoded(10, "\0") + none + none + encoded(1, "\0") + filter + encoded(0x30, "")
      encoded(0x30, encoded(2, "\1") + encoded(0x63, body))
    end

    def encoded(tag, content) = [tag, content.bytesize].pack("CC") + content.b

    # Of the suffix and of what is between it and the nodes.
    def configuration(names, classes)
      oid = "1.3.6.1.4.1.4203.666.1"
      text = "SUP name"
      # Values may be longer than an index takes; none is there but of the name.
      long = "SYNTAX 1.3.6.1.4.1.1466.115.121.1.15"
      attributes = ["Mds-Vo-name", *names].uniq.each_with_index.map do |name, index|
        kind = %w[Mds-Vo-name Mds-Host-hn].include?(name) ? text : long
        "attributetype ( #{oid}.1.#{index + 1} NAME '#{name}' #{kind} )"
      end
      others = classes.each_with_index.map do |name, index|
        "objectclass ( #{oid}.2.#{index + 1} NAME '#{name}' SUP top AUXILIARY )"
      end
      <<~CONF
        include /etc/ldap/schema/core.schema
        #{attributes.join("\n")}
        #{others.join("\n")}
        objectclass ( #{oid}.3.1 NAME 'RakudaGrid' SUP top STRUCTURAL MAY ( o $ Mds-Vo-name ) )
        objectclass ( #{oid}.3.2 NAME 'RakudaNode' SUP top STRUCTURAL MAY ( #{names.join(" $ ")} ) )
        modulepath /usr/lib/ldap
        moduleload back_mdb
        pidfile #{@folder}/pid
        sizelimit unlimited
        database mdb
        maxsize 1073741824
        suffix "o=grid"
        directory #{@folder}/data
        index objectClass eq
      CONF
    end

    def run(program, *words)
      path = File.join(File.dirname(Slapd.program), program)
      system(path, *words, chdir: @folder, %i[out err] => File.join(@folder, "#{program}.out")) or
        raise Stop, "#{program} failed: #{File.read(File.join(@folder, "#{program}.out")).lines.last}"
    end
  end

  # A server of others that is on the path, or where Debian puts servers.
  def self.server(name)
    folders = ENV.fetch("PATH").split(":") + %w[/usr/sbin /usr/local/sbin]
    folders.map { |folder| File.join(folder, name) }.find { |file| File.executable?(file) }
  end

  # A server that is asked over one connection of HTTP. Its class says what for, in PATH.
  module OverHttp
    # @return [Array(Float, Integer)] as {Information.mean}, over one connection
    def timed(rounds) = Information.mean(rounds) { get.bytesize }

    def stop = Information.stop([@pid])

    private

    def get
      @socket ||= TCPSocket.new("127.0.0.1", @port)
      @socket.write("GET #{self.class::PATH} HTTP/1.1\r\nHost: localhost\r\n\r\n")
      Information.body(@socket)
    rescue Errno::ECONNREFUSED
      ""
    end
  end

  # What node_exporter says of this machine, which it samples for each question.
  class NodeExporter
    include OverHttp

    PATH = "/metrics"
    PACKAGE = "prometheus-node-exporter"

    def self.program = Information.server("prometheus-node-exporter")

    def initialize
      @port = TCPServer.open("127.0.0.1", 0) { |server| server.addr[1] }
      @pid = Information.start(NodeExporter.program, "--web.listen-address=127.0.0.1:#{@port}", %i[out err] => File::NULL)
      Information.wait("node_exporter") { get.include?("node_load1") }
    end
  end

  # Ganglia's gmetad, which has the same nodes from one source and tells all it knows to whoever connects.
  class Gmetad
    PACKAGE = "gmetad"

    def self.program = Information.server("gmetad")

    # @param nodes [Array<Hash>] of a service's answer
    def initialize(folder, nodes)
      @folder = File.join(folder, "gmetad")
      FileUtils.rm_rf(@folder)
      FileUtils.mkdir_p(File.join(@folder, "rrds"))
      @source = TCPServer.new("127.0.0.1", 0)
      xml = cluster(nodes)
      @serving = Thread.new { loop { tell(xml) } }
      @port, other = Array.new(2) { TCPServer.open("127.0.0.1", 0) { |server| server.addr[1] } }
      File.write(File.join(@folder, "gmetad.conf"), configuration(other))
      @pid = Information.start(Gmetad.program, "-c", "gmetad.conf", "-d", "1", chdir: @folder, %i[out err] => File::NULL)
      Information.wait("all nodes in gmetad") { get.scan("<HOST ").size == nodes.size }
    end

    # @return [Array(Float, Integer)] as {Information.mean}, a connection for each question: that is how it is asked
    def timed(rounds) = Information.mean(rounds) { get.bytesize }

    def stop
      @serving&.kill
      Information.stop([@pid]) if @pid
    end

    private

    # Scraped once: what is measured is how it answers. It keeps no history.
    def configuration(interactive)
      <<~CONF
        data_source "rakuda" 3600 127.0.0.1:#{@source.addr[1]}
        gridname "grid"
        setuid off
        write_rrds off
        rrd_rootdir "#{@folder}/rrds"
        xml_port #{@port}
        interactive_port #{interactive}
        all_trusted on
      CONF
    end

    def tell(xml)
      client = @source.accept
      client.write(xml)
    rescue SystemCallError
      nil
    ensure
      client&.close
    end

    def get
      TCPSocket.open("127.0.0.1", @port, &:read)
    rescue SystemCallError
      ""
    end

    # As gmond says it.
    def cluster(nodes)
      now = Time.now.to_i
      hosts = nodes.each_with_index.map do |node, index|
        metrics = node["values"].map { |name, value| metric(name, value) }
        address = "10.#{index >> 16}.#{index >> 8 & 255}.#{index & 255}"
        "<HOST NAME=\"#{node["node"]}\" IP=\"#{address}\" TAGS=\"\" REPORTED=\"#{now}\" TN=\"1\" " \
          "TMAX=\"20\" DMAX=\"0\" LOCATION=\"unspecified\" GMOND_STARTED=\"#{now}\">\n#{metrics.join}</HOST>\n"
      end
      "<?xml version=\"1.0\" encoding=\"ISO-8859-1\" standalone=\"yes\"?>\n<GANGLIA_XML VERSION=\"3.7.2\" SOURCE=\"gmond\">\n" \
        "<CLUSTER NAME=\"rakuda\" LOCALTIME=\"#{now}\" OWNER=\"\" LATLONG=\"\" URL=\"\">\n#{hosts.join}</CLUSTER>\n" \
        "</GANGLIA_XML>\n"
    end

    def metric(name, value)
      kind = value["value"].is_a?(Numeric) ? "double" : "string"
      name, text = [name, value["value"].to_s].map { |it| it.encode(xml: :attr) }
      "<METRIC NAME=#{name} VAL=#{text} TYPE=\"#{kind}\" UNITS=\"#{value["unit"]}\" TN=\"1\" TMAX=\"60\" DMAX=\"0\" " \
        "SLOPE=\"both\" SOURCE=\"gmond\"/>\n"
    end
  end

  # @return [String] the body of an answer of HTTP, whole or in chunks
  def self.body(socket)
    head = socket.gets("\r\n\r\n")
    return socket.read(head[/^content-length: (\d+)/i, 1].to_i) if head.match?(/^content-length/i)

    text = +""
    until (length = socket.gets.to_i(16)).zero?
      text << socket.read(length)
      socket.read(2)
    end
    socket.read(2)
    text
  end

  # A server of Prometheus that scrapes a service each second. It keeps numbers only.
  class Prometheus
    include OverHttp

    PATH = "/api/v1/query?query=%7B__name__%3D~%22rakuda_.%2B%22%7D"

    PACKAGE = "prometheus"

    def self.program = Information.server("prometheus")

    # @param nodes [Integer] how many it waits for
    def initialize(folder, service, nodes)
      @folder = File.join(folder, "prometheus")
      FileUtils.rm_rf(@folder)
      FileUtils.mkdir_p(@folder)
      File.write(File.join(@folder, "prometheus.yml"), configuration(service))
      @port = TCPServer.open("127.0.0.1", 0) { |server| server.addr[1] }
      @pid = Information.start(Prometheus.program, "--config.file=prometheus.yml", "--storage.tsdb.path=data",
                               "--web.listen-address=127.0.0.1:#{@port}", chdir: @folder, %i[out err] => File::NULL)
      Information.wait("all nodes in Prometheus") { get.scan('"__name__":"rakuda_load1"').size == nodes }
    end

    private

    def configuration(service)
      JSON.generate(
        scrape_configs: [{ job_name: "rakuda", scrape_interval: "1s",
                           authorization: { credentials_file: service.token_file },
                           static_configs: [{ targets: ["#{service.address.host}:#{service.address.port}"] }] }]
      )
    end
  end
end
