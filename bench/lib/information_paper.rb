# frozen_string_literal: true

require "fileutils"
require "json"
require "net/http"
require "optparse"
require "socket"

# The experiments of Muraki et al. (2005) with services of Rakuda: how long an answer takes from the request to its last
# byte, by data per node, nodes and providers, as kept in memory and with everything sampled for the question. slapd, where
# it is there, is asked for the same entries. Every node is a real service that registers with one other service; all
# of them are on this machine. Called by bench/information.
module InformationPaper
  ROOT = File.expand_path("../..", __dir__)
  ENGINE = File.join(ROOT, "target/release/rakudad")
  LIMIT = 120
  # Of one run of a program, seconds: it is not what is measured.
  RUN_LIMIT = 60

  class Stop < StandardError; end

  def self.clock = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  # A service, and who asks it.
  class Service
    attr_reader :address, :token_file

    def initialize(folder, name, *words)
      @token_file = File.join(folder, "#{name}.token")
      @output, writer = IO.pipe
      @pid = Process.spawn(ENGINE, "info", "--token-file", @token_file, *words,
                           out: writer, err: File.join(folder, "#{name}.errors"), chdir: folder)
      writer.close
    end

    # Waits until it listens.
    def ready
      line = @output.wait_readable(LIMIT) && @output.gets
      raise Stop, "a service did not start" unless line

      @address = URI(line.split.first)
      @http = Net::HTTP.start(@address.host, @address.port, read_timeout: LIMIT)
      @headers = { "Authorization" => "Bearer #{File.read(@token_file).chomp}" }
      self
    end

    # @return [String] the body
    def get(query = {})
      answer = @http.get("/v1/nodes?#{URI.encode_www_form(query)}", @headers)
      raise Stop, answer.body unless answer.code == "200"

      answer.body
    end

    # @return [Array(Float, Integer)] mean of some answers in s, and bytes of the last
    def timed(rounds, query)
      bytes = 0
      times = Array.new(rounds) do
        begun = InformationPaper.clock
        bytes = get(query).bytesize
        InformationPaper.clock - begun
      end
      [times.sum / rounds, bytes]
    end

    def stop
      @http&.finish
      Process.kill(:TERM, @pid)
      Process.wait(@pid)
    rescue Errno::ESRCH, Errno::ECHILD, IOError
      nil # it has ended already
    end
  end

  # slapd of OpenLDAP with entries of a service.
  class Slapd
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
      @pid = Process.spawn(Slapd.program, "-f", "slapd.conf", "-h", "ldap://127.0.0.1:#{@port}", "-d", "0",
                           chdir: @folder, %i[out err] => File::NULL)
      wait
    end

    # @return [Array(Float, Integer)] as {Service#timed}, of the whole command
    def timed(rounds)
      command = ["ldapsearch", "-x", "-LLL", "-o", "ldif-wrap=no", "-H", "ldap://127.0.0.1:#{@port}",
                 "-b", "Mds-Vo-name=local,o=grid", "objectClass=RakudaNode"]
      InformationPaper.command(rounds, command)
    end

    def stop
      Process.kill(:TERM, @pid)
      Process.wait(@pid)
    end

    private

    # Of the suffix and of what is between it and the nodes.
    def above
      "dn: o=grid\nobjectClass: Grid\no: grid\n\ndn: Mds-Vo-name=local,o=grid\nobjectClass: Grid\nMds-Vo-name: local\n"
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
      core = "/etc/ldap/schema/core.schema"
      <<~CONF
        include #{core}
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

    def wait
      limit = InformationPaper.clock + LIMIT
      begin
        TCPSocket.new("127.0.0.1", @port).close
      rescue Errno::ECONNREFUSED
        raise Stop, "slapd does not listen" if InformationPaper.clock > limit

        sleep 0.05
        retry
      end
    end
  end

  # @return [Array(Float, Integer)] mean of some runs of a command in s, and bytes that it printed
  def self.command(rounds, command)
    bytes = 0
    times = Array.new(rounds) do
      begun = clock
      bytes = IO.popen(command, err: File::NULL, &:read).bytesize
      raise Stop, "#{command.first} failed" unless $?.success? # rubocop:disable Style/SpecialGlobalVars

      clock - begun
    end
    [times.sum / rounds, bytes]
  end

  # Nodes, and the one service that they register with.
  class Tree
    attr_reader :top

    def initialize(folder)
      @folder = folder
      @top = Service.new(folder, "top", "-F", "none").ready
      @nodes = []
    end

    def grow(count, providers)
      register = ["--register", @top.address.to_s, "--register-token-file", @top.token_file]
      fresh = (@nodes.size...count).map do |number|
        name = "node#{number}"
        Service.new(@folder, name, "--name", name, "--providers", providers, "--file-system", "/", *register)
      end
      @nodes.concat(fresh.map(&:ready))
    end

    # Waits until all nodes tell these attributes with so many bytes each.
    def wait(attributes, bytes)
      limit = InformationPaper.clock + LIMIT
      loop do
        nodes = JSON.parse(@top.get(fields: attributes.join(","), max_age: 0))["nodes"]
        all = nodes.flat_map { |node| attributes.map { |name| node.dig("values", name, "value").to_s.bytesize } }
        return if nodes.size == @nodes.size && all.all?(bytes)

        raise Stop, "#{@nodes.size} nodes do not tell #{attributes.join(", ")}" if InformationPaper.clock > limit
      rescue Stop => e
        # Nothing is called so before the first has told it.
        raise unless e.message.include?("nothing is called") && InformationPaper.clock < limit

        sleep 0.1
      end
    end

    def stop = (@nodes + [@top]).each(&:stop)
  end

  # All of it.
  class Experiments
    def initialize(values)
      @values = values
      @rounds = values[:rounds]
      @folder = File.join(ROOT, "tmp/information-#{Process.pid}")
      FileUtils.mkdir_p(@folder)
    end

    def call
      load = File.read("/proc/loadavg").split.first(3).join(" ")
      puts "one client, mean of #{@rounds}; all services on this machine, load #{load}"
      puts Slapd.program ? `#{Slapd.program} -VV 2>&1`.lines.grep(/slapd/).first : "slapd is not installed: left out"
      by_data
      by_providers
    ensure
      FileUtils.rm_rf(@folder)
    end

    private

    def ms(seconds) = seconds ? format("%.2f", seconds * 1000) : "-"

    def table(title, head, rows)
      widths = head.each_index.map { |place| [head, *rows].map { |row| row[place].to_s.size }.max }
      puts "", title
      [head, *rows].each { |row| puts row.each_with_index.map { |cell, place| cell.to_s.rjust(widths[place]) }.join("  ") }
    end

    # Experiments 1 and 2: eight programs print texts of some KB together.
    def by_data
      write_providers("eight.toml", (0...8).map { |part| [part, ["cat", File.join(@folder, "part#{part}")]] })
      write_parts(@values[:sizes].first)
      tree = Tree.new(@folder)
      rows = @values[:nodes].flat_map do |count|
        tree.grow(count, "eight.toml")
        @values[:sizes].map { |kilobytes| [count, kilobytes, *row_of_data(tree, kilobytes)] }
      end
      head = ["nodes", "KB a node", "KB", "cached", "compact", "uncached", "rakudactl", "ldapsearch"]
      table("data per node, 8 programs; ms", head, rows)
      slopes(rows)
    ensure
      tree&.stop
    end

    def row_of_data(tree, kilobytes)
      write_parts(kilobytes)
      tree.wait((0...8).map { |part| "part#{part}" }, kilobytes * 125)
      cached, bytes = tree.top.timed(@rounds, {})
      compact, = tree.top.timed(@rounds, fields: "load1,mem_available")
      uncached, = tree.top.timed(@rounds, max_age: 0)
      command = [ENGINE, "ctl", "nodes", "--service", tree.top.address.to_s, "--token-file", tree.top.token_file, "--json"]
      ours, = InformationPaper.command(@rounds, command)
      [bytes / 1000, ms(cached), ms(compact), ms(uncached), ms(ours), ms(slapd(tree))]
    end

    def slapd(tree)
      return unless Slapd.program

      slapd = Slapd.new(@folder, tree.top.get(format: "ldif"))
      slapd.timed(@rounds).first
    ensure
      slapd&.stop
    end

    # Table 1 of the paper: by least squares.
    def slopes(rows)
      found = rows.group_by(&:first).filter_map do |count, of_count|
        next if of_count.size < 2

        [count, *[3, 5].map { |place| format("%.3f", slope(of_count.map { |row| [row[1], row[place].to_f] })) }]
      end
      table("slopes, ms for each KB of a node", %w[nodes cached uncached], found)
    end

    def slope(points)
      mean = [0, 1].map { |place| points.sum { |point| point[place] } / points.size.to_f }
      points.sum { |x, y| (x - mean[0]) * (y - mean[1]) } / points.sum { |x, _| (x - mean[0])**2 }
    end

    # Experiment 3: of many programs the question names one.
    def by_providers
      rows = @values[:at].flat_map do |count|
        @values[:providers].map { |programs| [count, programs, *row_of_providers(count, programs)] }
      end
      head = ["nodes", "programs", "cached", "uncached", "uncached, all programs"]
      table("programs per node, the question names one; ms", head, rows)
    end

    def row_of_providers(count, programs)
      write_parts(8)
      write_providers("many.toml", (0...programs).map { |part| [part, ["cat", File.join(@folder, "part0")], "value#{part}"] })
      (0...programs).each { |part| File.write(File.join(@folder, "value#{part}"), "value#{part} 1\n") }
      tree = Tree.new(@folder)
      tree.grow(count, "many.toml")
      tree.wait((0...programs).map { |part| "value#{part}" }, 1)
      one = { fields: "value0" }
      [one, one.merge(max_age: 0), { max_age: 0 }].map { |query| ms(tree.top.timed(@rounds, query).first) }
    ensure
      tree&.stop
    end

    # @param programs [Array] number, command, and of one that prints a number the file with it
    def write_providers(name, programs)
      text = programs.map do |number, command, file|
        words = file ? ["cat", File.join(@folder, file)] : command
        "[[provider]]\nname = \"program#{number}\"\ncommand = #{words.to_json}\nperiod = 3600\nlimit = #{RUN_LIMIT}\n"
      end
      File.write(File.join(@folder, name), text.join("\n"))
    end

    # In eight files that together have so many KB (of 1,000) of text.
    def write_parts(kilobytes)
      8.times do |part|
        file = File.join(@folder, "part#{part}")
        File.write("#{file}.new", "part#{part} \"#{"x" * (kilobytes * 125)}\"\n")
        File.rename("#{file}.new", file)
      end
    end
  end

  def self.numbers(text) = text.split(",").map { |word| Integer(word, 10) }

  VALUES = { nodes: [16, 32, 64], sizes: [2, 4, 8, 16, 32, 64],
             providers: [1, 2, 4, 8, 16, 32, 64], at: [1, 16], rounds: 3 }.freeze
  # That run at the same time: one machine has to start them all.
  PROGRAMS_MAX = 1024

  def self.check(values)
    programs = [values[:providers].max * values[:at].max, values[:nodes].max * 8].max
    return if programs <= PROGRAMS_MAX

    raise Stop, "#{programs} programs would run at the same time on this machine, at most #{PROGRAMS_MAX} may: " \
                "take fewer --providers, --at or --nodes"
  end

  def self.main(words)
    values = VALUES.dup
    OptionParser.new do |options|
      options.banner = "usage: bench/information paper [--nodes LIST] [--sizes LIST] [--providers LIST] [--at LIST] [--rounds N]"
      options.on("--nodes LIST", "services that register") { |list| values[:nodes] = numbers(list).sort }
      options.on("--sizes LIST", "KB of text of each") { |list| values[:sizes] = numbers(list) }
      options.on("--providers LIST", "programs of each node") { |list| values[:providers] = numbers(list) }
      options.on("--at LIST", "services, for the number of programs") { |list| values[:at] = numbers(list) }
      options.on("--rounds N", Integer, "questions of which the mean is taken") { |count| values[:rounds] = count }
    end.parse!(words)
    check(values)
    Experiments.new(values).call
  rescue Stop, OptionParser::ParseError, ArgumentError => e
    abort "bench/information: #{e.message}"
  end
end

InformationPaper.main(ARGV) if $PROGRAM_NAME == __FILE__
