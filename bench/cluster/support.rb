# frozen_string_literal: true

require "digest"
require "etc"
require "fileutils"
require "json"
require "optparse"
require "shellwords"
require "tempfile"
require_relative "../../test/support/testbed"

# What the scripts that measure on a testbed share: a testbed that goes when the script does, commands on it with a
# limit, statistics and tables. It does not know what is measured.
module Shows
  ROOT = File.expand_path("../..", __dir__)
  RAKUDA = File.join(ROOT, "bin/rakuda")
  RAKUDACTL = File.join(ROOT, "bin/rakudactl")

  # A sentence that ends the script.
  class Stop < StandardError; end

  module_function

  # Runs a script: `--help` and other options, then the block. What is up is taken down at the end, also on Ctrl-C and
  # SIGTERM.
  # @yieldparam values [Hash] what the options say, with their defaults
  def main(about, values, **options)
    trap(:TERM) { exit 143 }
    $stdout.sync = true
    parser = OptionParser.new { |o| define(o, about, values, options) }
    parser.parse!(ARGV)
    raise Stop, "unexpected: #{ARGV.join(" ")} (--help tells what there is)" unless ARGV.empty?

    yield values
  rescue Stop, OptionParser::ParseError, Minitest::Assertion => e
    abort "#{File.basename($PROGRAM_NAME)}: #{e.message}"
  rescue Interrupt
    abort "#{File.basename($PROGRAM_NAME)}: interrupted"
  end

  # @param options [Hash] name => [type, text]; the default stands in `values`
  def define(parser, about, values, options)
    parser.banner = "usage: bench/cluster/#{File.basename($PROGRAM_NAME)} [option ...]\n\n#{about}\n"
    options.each do |name, (type, text)|
      default = values.fetch(name)
      shown = default.is_a?(Array) ? default.join(",") : default
      parser.on("--#{name.to_s.tr("_", "-")} #{type == Array ? "A,B" : "N"}", type, "#{text} (#{shown})") { |v| values[name] = v }
    end
  end

  # Prints what was run, and where.
  def show_machine
    model = File.read("/proc/cpuinfo")[/^model name\s*: (.*)$/, 1] || "unknown processor"
    uname = Etc.uname
    puts "command: bench/cluster/#{File.basename($PROGRAM_NAME)} #{Shows::WORDS.shelljoin}".rstrip
    puts "machine: #{Etc.nprocessors} cores, #{model}, #{uname[:sysname]} #{uname[:release]}; Ruby #{RUBY_VERSION}; " \
         "all hosts are namespaces of it"
  end
  WORDS = ARGV.dup.freeze

  def clock = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  # @return [Float, nil]
  def median(values)
    return if values.empty?

    sorted = values.sort
    (sorted[(sorted.size - 1) / 2] + sorted[sorted.size / 2]) / 2.0
  end

  # `1.23 [1.20-1.41]`, or `-`.
  def spread(values, digits = 2)
    values = values.compact
    return "-" if values.empty?

    number = ->(value) { format("%.#{digits}f", value) }
    text = number[median(values)]
    values.size > 1 ? "#{text} [#{values.minmax.map(&number).join("-")}]" : text
  end

  # `94 %`, or `-`.
  def percent(value) = value ? format("%.0f %%", value * 100) : "-"

  # Prints rows under a head, the first column to the left, the others as wide as they are.
  def table(title, head, rows)
    all = [head, *rows].map { |row| row.map(&:to_s) }
    widths = all.transpose.map { |column| column.map(&:size).max }
    puts "", title
    all.each do |row|
      puts "  #{row.each_with_index.map { |cell, i| i.zero? ? cell.ljust(widths[i]) : cell.rjust(widths[i]) }.join("  ")}".rstrip
    end
  end

  # Whether this build runs in Slurm.
  # @return [String, nil] why it does not
  def slurm_missing(bed)
    told = bed.timed("head", RAKUDA, "-q", "--cluster", "slurm", "--nodes", "1", "-e", "puts 1", limit: 60)
    said = (told[:err] + told[:out]).strip.lines.first&.strip
    "not run: this build cannot run in Slurm (rakuda --cluster slurm: #{said})" if told[:status] != 0
  end

  # A command that was started.
  class Running
    # @return [Float] on the monotonic clock
    attr_reader :started, :ended, :pid, :status

    def initialize(words, environment, limit, folder)
      @out = Tempfile.new("show-out", folder)
      @err = Tempfile.new("show-err", folder)
      @started = Shows.clock
      # A group of its own: Ctrl-C reaches this script alone, which then ends it.
      @pid = Process.spawn(environment, "timeout", "-s", "KILL", limit.to_s, *words,
                           in: File::NULL, out: @out.path, err: @err.path, pgroup: true)
    end

    # Waits for the end.
    # @return [self]
    def wait
      took_end(Process.wait2(@pid).last) unless @ended
      self
    end

    def ended?
      return true if @ended

      _, status = Process.wait2(@pid, Process::WNOHANG)
      took_end(status) if status
      !status.nil?
    end

    def seconds = @ended - @started

    def out = File.read(@out.path).scrub

    def err = File.read(@err.path).scrub

    def success? = @status.zero?

    # Ends it if it has not ended.
    def close
      Process.kill(:KILL, -@pid) unless ended?
      wait
    rescue Errno::ESRCH
      wait
    ensure
      [@out, @err].each(&:close!)
    end

    private

    # 128 and the signal's number, as a shell says it.
    def took_end(status)
      @ended = Shows.clock
      @status = status.exitstatus || (128 + status.termsig)
    end
  end

  # A testbed for one script.
  class Bed < ::Testbed
    # Seconds after which a command is killed, so that nothing waits for ever.
    LIMIT = 600

    # Starts a command on a host; the block has it, and after the block it is over.
    # @yieldparam running [Running]
    def during(host, *command, chdir: folder, environment: {}, limit: LIMIT)
      running = Running.new(on(host, *command, chdir: chdir), environment, limit, nil)
      yield running
    ensure
      running&.close
    end

    # Runs a command on a host.
    # @return [Hash] :seconds, :status, :out, :err
    def timed(host, *command, **options)
      during(host, *command, **options) do |running|
        running.wait
        { seconds: running.seconds, status: running.status, out: running.out, err: running.err }
      end
    end

    # As `timed`, but it must end well.
    def timed!(host, *command, **options)
      timed(host, *command, **options).tap do |result|
        next if result[:status].zero?

        said = (result[:err] + result[:out]).lines.last(12).join
        raise Stop, "on #{host}, #{command.shelljoin[0, 300]}: exit status #{result[:status]}\n#{said}"
      end
    end

    # Runs a script of /bin/sh on a host; it must end well.
    # @return [String] what it printed
    def shell(host, script, chdir: "/", **options) = timed!(host, "sh", "-c", script, chdir: chdir, **options)[:out]

    # Runs the block for each host at the same time.
    def each_host(hosts = self.hosts, &block) = hosts.map { |host| Thread.new { block.call(host) } }.each(&:value)

    # Writes dirty pages out and empties the page cache of each host, one after the other.
    def drop_caches = (hosts + ["head"]).each { |host| fault("drop-cache", host) }

    # A host file of the first hosts.
    # @return [String] path of it
    def host_file(count, cores) = write("hosts.#{count}.#{cores}", hosts.first(count).map { |host| "#{host} #{cores}\n" }.join)

    # The journal of the newest run in a folder of head.
    # @return [Journal]
    def journal(folder) = Journal.new(shell("head", "cat \"$(ls -d .rakuda/runs/*/ | tail -n 1)journal.jsonl\"", chdir: folder))

    # What rakudactl says of the newest run.
    # @return [Hash]
    def report(folder) = JSON.parse(timed!("head", RAKUDACTL, "report", "--json", chdir: folder)[:out])
  end

  # What the journal of a run tells.
  class Journal
    # One attempt: names of task and node, times in seconds since 1970, bytes of `inputs` as in
    # docs/reference/journal.md.
    Attempt = Struct.new(:task, :node, :started, :ended, :outcome, :message, :inputs)

    attr_reader :events

    def initialize(text)
      # The last line of a run that was killed may be cut off.
      @events = text.lines.select { |line| line.end_with?("\n") }.map { |line| JSON.parse(line) }
    end

    def of(kind) = @events.select { |event| event["event"] == kind }

    def run_id = of("run_started").first.fetch("run")

    def names = @names ||= of("task_defined").to_h { |event| [event["task"], event["name"]] }

    def nodes = @nodes ||= of("node_joined").to_h { |event| [event["node"], event["name"]] }

    # @return [Array<Attempt>] in order of their ends; those that did not end are left out
    def attempts
      open = {}
      @events.filter_map do |event|
        case event["event"]
        when "attempt_started" then (open[event["task"]] = event) && nil
        when "attempt_ended"
          start = open.delete(event["task"]) or next
          Attempt.new(names[event["task"]], nodes[start["node"]], start["time_ns"] / 1e9, event["time_ns"] / 1e9,
                      event["outcome"], event["message"], event["inputs"] || {})
        end
      end
    end

    # Numbers of attempts by outcome.
    def outcomes = attempts.map(&:outcome).tally
  end
end
