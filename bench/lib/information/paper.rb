# frozen_string_literal: true

require "fileutils"
require "optparse"
require_relative "figures"
require_relative "others"
require_relative "services"

# The experiments of Muraki et al. (2005) with services of Rakuda: how long an answer takes from the request to its last
# byte, by data per node, nodes and programs, as kept in memory and with everything sampled for the question. slapd,
# where it is there, is asked for the same entries, Prometheus for the numbers. Up to 64 nodes, each is a real service
# that registers with one other service; more are a swarm. All of it is on this machine. Called by bench/information.
module Information
  # Of one run of a program, seconds: it is not what is measured.
  RUN_LIMIT = 60
  # Increase from 2 to 64 KB in the paper's table 1, ms, by nodes: cached, uncached.
  PAPER = { 16 => [130, 260], 32 => [320, 540], 64 => [690, 910] }.freeze
  PARTS = (0...8)
  PARTS_OF_ALL = %i[by_data by_providers one_node swarms].freeze
  # Nodes, services that they are behind, KB of text of each.
  SWARMS = [[500, 8, 0], [500, 8, 32], [500, 500, 0], [10_000, 100, 0]].freeze
  FILTER = { where: "load1 < 20", fields: "load1,load5,mem_available,cpu_idle,threads" }.freeze
  # Seconds over which the cost of a swarm is measured.
  COST_S = 10

  # All of it.
  class Experiments
    def initialize(values)
      @values = values
      @rounds = values[:rounds]
      @figures = Figures.new
      @folder = File.join(ROOT, "tmp/information-#{Process.pid}")
      FileUtils.mkdir_p(@folder)
    end

    def call
      puts "one client, mean of #{@rounds}; all of it on this machine, load #{load}"
      puts Slapd.program ? `#{Slapd.program} -VV 2>&1`.lines.grep(/slapd/).first : missing(Slapd)
      puts missing(Ldapsearch) unless Ldapsearch.program
      { Prometheus => "--version", NodeExporter => "--version", Gmetad => "-V" }.each do |other, word|
        puts other.program ? `#{other.program} #{word} 2>&1`.lines.first : missing(other)
      end
      PARTS_OF_ALL.each { |part| send(part) if @values[:parts].include?(part) }
      puts "", @figures.write(@values[:svg]) if @values[:svg]
      puts "", "load at the end #{load}"
    ensure
      FileUtils.rm_rf(@folder)
    end

    private

    def load = File.read("/proc/loadavg").split.first(3).join(" ")

    def missing(other) = "#{other.name[/\w+\z/]} is not installed (Debian: #{other::PACKAGE}): left out"

    # A column of times in ms that may be missing.
    def number(cell) = cell.to_s.match?(/\A-?\d/) ? cell.to_f : nil

    def ms(seconds) = seconds ? format("%.2f", seconds * 1000) : "-"

    # As it goes into bench/README.
    def table(title, head, rows)
      cell = ->(value) { value.is_a?(Integer) ? value.to_s.gsub(/(?<=\d)(?=(\d{3})+\z)/, ",") : value.to_s }
      line = ->(row) { "|#{row.map { |value| value == "" ? " |" : " #{cell.(value)} |" }.join}" }
      puts "", "#{title}:", "", line.(head), "|#{"---|" * head.size}", rows.map(&line)
    end

    # Experiments 1 and 2: eight programs print texts of some KB together.
    def by_data
      write_providers("eight.toml", PARTS.map { |part| [part, "part#{part}"] })
      write_parts(@values[:sizes].first)
      tree = Tree.new(@folder)
      rows = @values[:nodes].flat_map do |count|
        tree.grow(count, "eight.toml")
        @values[:sizes].map { |kilobytes| [count, kilobytes, *row_of_data(tree, kilobytes)] }
      end
      head = ["nodes", "KB a node", "KB in all", "cached", "2 columns", "uncached", "`rakudactl`", "slapd", "`ldapsearch`",
              "paper, cached", "uncached"]
      table("data per node, 8 programs; ms", head,
            rows.map { |row| [*row, *Figures::SIXTY_FOUR.values.map { |time| row.first(2) == [64, 32] ? time : "" }] })
      @figures.data(rows.map do |row|
        [row[0], row[1], { "cached" => number(row[3]), "uncached" => number(row[5]), "slapd" => number(row[7]) }]
      end)
      slopes(rows)
    ensure
      tree&.stop
    end

    def row_of_data(tree, kilobytes)
      write_parts(kilobytes)
      tree.wait(PARTS.map { |part| "part#{part}" }, kilobytes * 125, { max_age: 0 })
      cached, bytes = tree.top.timed(@rounds, {})
      compact, = tree.top.timed(@rounds, fields: "load1,mem_available")
      uncached, = tree.top.timed(@rounds, max_age: 0)
      ours, = Information.command(@rounds, tree.top.command)
      [bytes / 1000, ms(cached), ms(compact), ms(uncached), ms(ours), *slapd(tree)]
    end

    # @return [Array<String>] over one connection, and by ldapsearch
    def slapd(tree)
      return ["-", "-"] unless Slapd.program

      slapd = Slapd.new(@folder, tree.top.get({ format: "ldif" }))
      [slapd.timed(@rounds), slapd.command(@rounds)].map { |time, _| ms(time) }
    ensure
      slapd&.stop
    end

    # Table 1 of the paper, by least squares.
    def slopes(rows)
      found = rows.group_by(&:first).filter_map do |count, of_count|
        next if of_count.size < 2

        ours = [3, 5, 7].map { |place| format("%.1f", 62 * slope(of_count.map { |row| [row[1], row[place].to_f] })) }
        [count, *ours, *PAPER.fetch(count, ["-", "-"])]
      end
      names = ["cached", "uncached", "slapd", "paper: cached", "paper: uncached"]
      @figures.slopes(found.map { |row| [row.first, names.zip(row.drop(1).map { |cell| number(cell) }).to_h] })
      table("62 KB more of each node; ms", ["nodes", "cached", "uncached", "slapd", "paper, cached", "uncached"], found)
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
      head = ["nodes", "programs of each", "cached", "uncached", "uncached, all"]
      table("programs per node, the question names one; ms", head, rows)
      names = ["cached", "uncached", "uncached, all"]
      @figures.providers(rows.map { |row| [row[0], row[1], names.zip(row.drop(2).map { |cell| number(cell) }).to_h] })
    end

    # This machine by itself: what node_exporter says of it, and what a service does.
    def one_node
      service = Service.new(@folder, "alone", "-F", "localhost").ready
      questions = [["values, cached", {}, "/v1/nodes"], ["values, uncached", { max_age: 0 }, "/v1/nodes"],
                   ["/metrics", {}, "/metrics"]]
      rows = questions.map do |name, query, path|
        time, bytes = Information.mean(@rounds) { service.get(query, path:).bytesize }
        [name, ms(time), bytes / 1000]
      end
      table("this machine alone", ["", "ms", "KB"], rows << ["node_exporter, /metrics", *exporter])
    ensure
      Information.stop([service.pid]) if service
    end

    def exporter
      return [missing(NodeExporter), "-"] unless NodeExporter.program

      exporter = NodeExporter.new
      time, bytes = exporter.timed(@rounds)
      [ms(time), bytes / 1000]
    ensure
      exporter&.stop
    end

    def row_of_providers(count, programs)
      names = (0...programs).map { |part| "value#{part}" }
      write_providers("many.toml", (0...programs).zip(names))
      names.each { |name| File.write(File.join(@folder, name), "#{name} 1\n") }
      tree = Tree.new(@folder)
      tree.grow(count, "many.toml")
      tree.wait(names, 1, {})
      one = { fields: "value0" }
      [one, one.merge(max_age: 0), { max_age: 0 }].map { |query| ms(tree.top.timed(@rounds, query).first) }
    ensure
      tree&.stop
    end

    # Nodes that are made up.
    def swarms
      raise Stop, "#{SWARM} is missing: cargo build --release -p rakuda-service --example swarm" unless File.executable?(SWARM)

      times, costs = @values[:swarms].map { |swarm| rows_of_swarm(*swarm) }.transpose
      head = ["nodes", "services", "KB a node", "filter", "KB", "whole table", "KB", "uncached", "slapd", "`ldapsearch`",
              "Prometheus", "gmetad"]
      table("swarm; ms", head, times)
      @figures.swarms(times.map do |row|
        names = { "whole table" => 5, "uncached" => 7, "slapd" => 8, "Prometheus" => 10, "gmetad" => 11 }
        [*row.first(3), names.transform_values { |place| number(row[place]) }]
      end)
      head = ["nodes", "services", "KB a node", "% of a core", "MB resident", "KB/s received"]
      table("what the service takes, nodes sampled once a second", head, costs)
    end

    def rows_of_swarm(nodes, services, kilobytes)
      swarm = Swarm.new(@folder, nodes, services, kilobytes)
      top = swarm.top
      share, received = top.cost(COST_S)
      cost = [format("%.1f", share * 100), format("%.1f", top.resident / 1e6), (received / 1000).round]
      filter, few = top.timed(@rounds, FILTER)
      whole, all = top.timed(@rounds, {})
      uncached, = top.timed(@rounds, max_age: 0)
      times = [ms(filter), few / 1000, ms(whole), all / 1000, ms(uncached), *slapd(swarm), prometheus(swarm, nodes),
               gmetad(swarm, kilobytes)]
      [times, cost].map { |row| [nodes, services, kilobytes, *row] }
    ensure
      swarm&.stop
    end

    def prometheus(swarm, nodes)
      return "-" unless Prometheus.program

      prometheus = Prometheus.new(@folder, swarm.top, nodes)
      ms(prometheus.timed(@rounds).first)
    ensure
      prometheus&.stop
    end

    # It has no place for texts of some KB.
    def gmetad(swarm, kilobytes)
      return "-" unless Gmetad.program && kilobytes.zero?

      gmetad = Gmetad.new(@folder, JSON.parse(swarm.top.get)["nodes"])
      ms(gmetad.timed(@rounds).first)
    ensure
      gmetad&.stop
    end

    # @param programs [Array] number, and the file that it prints
    def write_providers(name, programs)
      text = programs.map do |number, file|
        "[[provider]]\nname = \"program#{number}\"\ncommand = [\"cat\", \"#{File.join(@folder, file)}\"]\n" \
          "period = 3600\nlimit = #{RUN_LIMIT}\n"
      end
      File.write(File.join(@folder, name), text.join("\n"))
    end

    # In eight files that together have this much text, in KB of 1,000 bytes.
    def write_parts(kilobytes)
      PARTS.each do |part|
        file = File.join(@folder, "part#{part}")
        File.write("#{file}.new", "part#{part} \"#{"x" * (kilobytes * 125)}\"\n")
        File.rename("#{file}.new", file)
      end
    end
  end

  def self.numbers(text) = text.split(",").map { |word| Integer(word, 10) }

  VALUES = { nodes: [1, 2, 4, 8, 16, 32, 64], sizes: [2, 4, 8, 16, 32, 64], providers: [1, 2, 4, 8, 16, 32, 64],
             at: [1, 64], swarms: SWARMS, rounds: 3, parts: PARTS_OF_ALL }.freeze

  def self.main(words)
    values = VALUES.dup
    OptionParser.new do |options|
      options.banner = "usage: bench/information paper [OPTIONS]"
      options.on("--nodes LIST", "services that register") { |list| values[:nodes] = numbers(list).sort }
      options.on("--sizes LIST", "KB of text of each") { |list| values[:sizes] = numbers(list) }
      options.on("--providers LIST", "programs of each node") { |list| values[:providers] = numbers(list) }
      options.on("--at LIST", "services, for the number of programs") { |list| values[:at] = numbers(list) }
      options.on("--swarm NODES,SERVICES,KB", "instead of #{SWARMS.map { |it| it.join(",") }.join(" ")}") do |list|
        values[:swarms] = (values[:swarms].equal?(SWARMS) ? [] : values[:swarms]) + [numbers(list)]
      end
      options.on("--rounds N", Integer, "questions of which the mean is taken") { |count| values[:rounds] = count }
      options.on("--svg FOLDER", "draws what was measured beside the paper's figures") { |folder| values[:svg] = folder }
      options.on("--parts LIST", "of #{VALUES[:parts].join(",")}") { |list| values[:parts] = list.split(",").map(&:to_sym) }
    end.parse!(words)
    %i[INT TERM].each { |signal| trap(signal) { raise Stop, "ended by SIG#{signal}" } }
    Experiments.new(values).call
  rescue Stop, OptionParser::ParseError, ArgumentError => e
    abort "bench/information: #{e.message}"
  end
end

Information.main(ARGV) if $PROGRAM_NAME == __FILE__
