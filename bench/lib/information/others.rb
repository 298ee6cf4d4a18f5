# frozen_string_literal: true

require "fileutils"
require "json"
require "socket"
require_relative "services"

# What others answer that have the same: slapd with the entries, Prometheus with the numbers.
module Information
  # slapd of OpenLDAP with entries of a service.
  class Slapd
    BASE = "Mds-Vo-name=local,o=grid"
    FOUND = ["objectClass", "RakudaNode"].freeze

    def self.program = ["/usr/sbin/slapd", "/usr/local/sbin/slapd"].find { |file| File.executable?(file) }

    def initialize(folder, ldif)
      @folder = File.join(folder, "slapd")
      FileUtils.rm_rf(@folder)
      FileUtils.mkdir_p(File.join(@folder, "data"))
      entries = ldif.gsub("\n ", "")
      names = entries.scan(/^([A-Za-z][A-Za-z0-9-]*):/).flatten.uniq - %w[version dn objectClass]
      classes = entries.scan(/^objectClass: (.*)$/).flatten.uniq - ["RakudaNode"]
      File.write(File.join(@folder, "slapd.conf"), configuration(names, classes))
      File.write(File.join(@folder, "entries"), "#{above}\n#{entries.sub(/\Aversion: 1\n/, "")}")
      run("slapadd", "-q", "-f", "slapd.conf", "-l", "entries")
      @port = TCPServer.open("127.0.0.1", 0) { |server| server.addr[1] }
      @pid = Information.start(Slapd.program, "-f", "slapd.conf", "-h", "ldap://127.0.0.1:#{@port}", "-d", "0",
                               chdir: @folder, %i[out err] => File::NULL)
      @socket = Information.wait("slapd") { connect }
    end

    # @return [Array(Float, Integer)] as {Information.mean}, over one connection
    def timed(rounds) = Information.mean(rounds) { search }

    # @return [Array(Float, Integer)] of the whole command
    def command(rounds)
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
    def above
      "dn: o=grid\nobjectClass: Grid\no: grid\n\ndn: #{BASE}\nobjectClass: Grid\nMds-Vo-name: local\n"
    end

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
        objectclass ( #{oid}.3.1 NAME 'Grid' SUP top STRUCTURAL MAY ( o $ Mds-Vo-name ) )
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

  # A server of Prometheus that scrapes a service each second. It keeps numbers only.
  class Prometheus
    QUERY = "/api/v1/query?query=%7B__name__%3D~%22rakuda_.%2B%22%7D"

    def self.program = ENV.fetch("PATH").split(":").map { |it| File.join(it, "prometheus") }.find { |it| File.executable?(it) }

    # @param nodes [Integer] so many are waited for
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

    # @return [Array(Float, Integer)] as {Information.mean}, over one connection
    def timed(rounds) = Information.mean(rounds) { get.bytesize }

    def stop = Information.stop([@pid])

    private

    def configuration(service)
      JSON.generate(
        scrape_configs: [{ job_name: "rakuda", scrape_interval: "1s",
                           authorization: { credentials_file: service.token_file },
                           static_configs: [{ targets: ["#{service.address.host}:#{service.address.port}"] }] }]
      )
    end

    def get
      @socket ||= TCPSocket.new("127.0.0.1", @port)
      @socket.write("GET #{QUERY} HTTP/1.1\r\nHost: localhost\r\n\r\n")
      head = @socket.gets("\r\n\r\n")
      return @socket.read(head[/^content-length: (\d+)/i, 1].to_i) if head.match?(/^content-length/i)

      chunks
    rescue Errno::ECONNREFUSED
      ""
    end

    def chunks
      text = +""
      until (length = @socket.gets.to_i(16)).zero?
        text << @socket.read(length)
        @socket.read(2)
      end
      @socket.read(2)
      text
    end
  end
end
