# frozen_string_literal: true

# One run with many agents that are made up: how long they take to join, what tasks without work and synchronised rounds
# take, and what information about all of them costs the hub. Figures are the journal's and /proc's. With groups, each
# has a real leader, and a real agent at its host, where no tasks run.

require "etc"
require "fileutils"
require "json"
require "optparse"
require "tmpdir"

# What is measured of one run.
class Agents
  ROOT = File.expand_path("../..", __dir__)
  RAKUDA = File.join(ROOT, "bin/rakuda")
  RAKUDACTL = File.join(ROOT, "bin/rakudactl")
  TARGET = ENV.fetch("CARGO_TARGET_DIR", File.join(ROOT, "target"))
  SWARM = File.join(TARGET, "release/examples/agents")
  # Of something that is to come, seconds.
  LIMIT = 900
  # Maximum number of descriptors of a swarm beside those of its agents.
  SPARE_DESCRIPTORS = 64
  TICKS = Etc.sysconf(Etc::SC_CLK_TCK).to_f
  # Between two phases the run waits on its own machine, where no agent of the swarm is.
  RAKEFILE = <<~'RUBY'
    agents, tasks, rounds = %w[AGENTS TASKS ROUNDS].map { |name| Integer(ENV.fetch(name)) }
    def pause(name)
      needs deny: "s*"
      task(name) { sh "touch #{name}.begun; until test -e #{name}.go; do sleep 0.05; done" }
    end
    %i[joined idle informed].each { |name| pause(name) }
    %i[plain known].each do |name|
      work = Array.new(tasks) do |i|
        needs allow: "s*"
        task("#{name}#{i}") { sh "true" }
      end
      multitask(name => work.map(&:name))
    end
    pause(:measured)
    needs allow: "s*"
    sync(:together, workers: agents, rounds: rounds, overhead: false) { |w| sh "true" } if rounds > 0
    pause(:finished)
  RUBY

  class Stop < StandardError; end

  # Processor time of a process, and bytes that have crossed this machine's loopback, both ways; with groups those that
  # the hub has read and written, as its leaders are at the other end of pipes.
  Use = Struct.new(:time, :cpu, :bytes) do
    def -(other) = Use.new(*to_a.zip(other.to_a).map { |one, before| one - before })
  end

  # @param count [Integer] agents
  # @param values [Hash] of the command line
  def initialize(count, values)
    @count = count
    @values = values
  end

  # @return [Hash] of what {Table} shows
  def measure
    Dir.mktmpdir("agents", @values[:folder]) do |folder|
      @folder = folder
      File.write("#{folder}/Rakefile", RAKEFILE)
      run { take_all }
    end
  end

  private

  # A run with its swarm, while the block measures.
  def run
    swarms = start_listening if @values[:groups]
    words = ["setpriv", "--pdeathsig", "TERM", "timeout", "-s", "KILL", LIMIT.to_s, RAKUDA, "-q", *places,
             "SAMPLE_INTERVAL=#{@values[:period]}", "AGENTS=#{@count}", "TASKS=#{@values[:tasks]}",
             "ROUNDS=#{@values[:rounds]}", *phases]
    rakuda = Process.spawn(@around || {}, *words, chdir: @folder, out: "#{@folder}/out", err: %i[child out])
    begun("joined")
    swarms ||= [start_swarm]
    result = yield
    Process.wait(rakuda)
    raise Stop, "the run failed:\n#{File.read("#{@folder}/out").lines.last(5).join}" unless $?.success? # rubocop:disable Style/SpecialGlobalVars

    swarms.each { |pid| Process.wait(pid) }
    result.merge(rounds_figures, ended: Dir["#{@folder}/swarm.*.out"].sum { |path| Integer(File.read(path)[/^\d+/]) })
  ensure
    [rakuda, *swarms].compact.each { |pid| end_process(pid) }
  end

  # Where the agents are, for `rakuda`.
  def places
    return ["-j", "1", "--joinable"] unless @values[:groups]

    numbers = (0...@count).each_slice((@count / @values[:groups].to_f).ceil).to_a
    File.write("#{@folder}/hosts.toml", numbers.each_with_index.map do |own, number|
      hosts = ["g#{number} 1", *own.map { |one| format("s%05d 1", one) }]
      "[[group]]\nname = \"group#{number}\"\nleader = \"g#{number}\"\nhosts = #{hosts.inspect}\n"
    end.join)
    @leaders = numbers.size
    ["-F", "hosts.toml"]
  end

  # What stands for ssh, and the swarms, to which that hands over what leaders start: several, as each agent has two
  # descriptors. The engine is brought into a cache of its own.
  def start_listening
    tools = "#{@folder}/tools"
    FileUtils.mkdir_p(tools)
    system("cc", "-O2", "-Wall", "-o", "#{tools}/ssh", File.join(ROOT, "bench/swarm_ssh.c"), exception: true)
    parts = ((@count * 2) + SPARE_DESCRIPTORS).fdiv(Process.getrlimit(:NOFILE).last).ceil
    @around = { "PATH" => "#{tools}:#{ENV.fetch("PATH")}", "XDG_CACHE_HOME" => "#{@folder}/cache",
                "SWARM_SOCKET" => "#{@folder}/swarm", "SWARM_SOCKETS" => parts.to_s }
    @joining = clock
    Array.new(parts) do |part|
      socket = "#{@folder}/swarm.#{part}"
      swarm = spawn_swarm(part, (part...@count).step(parts).size, "--listen", socket, in: File::NULL)
      wait("the swarm") { File.socket?(socket) }
      swarm
    end
  end

  def spawn_swarm(part, count, *words, **streams)
    Process.spawn("setpriv", "--pdeathsig", "TERM", @values[:swarm], "--agents", count.to_s, "--states", *words,
                  out: "#{@folder}/swarm.#{part}.out", err: "#{@folder}/swarm.#{part}.err", **streams)
  end

  def phases
    words = %w[joined plain idle informed known measured]
    @values[:rounds].positive? ? words + %w[together finished] : words
  end

  def end_process(pid)
    Process.kill(:TERM, pid)
    Process.wait(pid)
  rescue Errno::ESRCH, Errno::ECHILD
    nil
  end

  def start_swarm
    invitation = wait("the invitation") { Dir["#{@folder}/.rakuda/join/*"].first }
    @joining = clock
    spawn_swarm(0, @count, in: invitation)
  end

  def take_all
    @hub = wait("the hub") { hub }
    wait("the agents") { up == @count + (@leaders || 1) }
    figures = { joining: clock - @joining, memory: memory }
    figures[:plain] = during { go("joined", "idle") }
    figures[:idle] = during { sleep @values[:idle] }
    # Whoever asks for values has them sampled from then on.
    ctl("nodes", "--limit", "1", "--cols", "load1")
    go("idle", "informed")
    wait("values of all") { known == @count }
    figures[:informed] = during { sleep @values[:idle] }
    figures[:memory_informed] = memory
    figures[:known] = during { go("informed", "measured") }
    return go("measured", nil).then { figures } unless @values[:rounds].positive?

    figures[:together] = during { go("measured", "finished") }
    go("finished", nil)
    figures
  end

  # Ends one pause, and waits until the next one begins.
  def go(pause, following)
    FileUtils.touch("#{@folder}/#{pause}.go")
    begun(following) if following
  end

  def begun(pause) = wait("#{pause} to begin") { File.exist?("#{@folder}/#{pause}.begun") }

  # What the hub has used while the block ran.
  def during
    before = use
    yield
    use - before
  end

  def use
    stat = File.read("/proc/#{@hub}/stat").rpartition(")").last.split
    Use.new(clock, (stat[11].to_i + stat[12].to_i) / TICKS, bytes)
  end

  def bytes
    return Integer(File.read("/proc/net/dev")[/^ *lo: *(\d+)/, 1]) unless @values[:groups]

    File.read("/proc/#{@hub}/io").scan(/^[rw]char: (\d+)$/).sum { |digits| digits.first.to_i }
  end

  def memory = Integer(File.read("/proc/#{@hub}/status")[/^VmRSS:\s+(\d+)/, 1]) / 1024.0

  # The process that has the record open.
  def hub
    found = Dir["/proc/[0-9]*/fd"].find do |folder|
      Dir["#{folder}/*"].any? { |fd| link(fd).match?(%r{\A#{Regexp.escape(@folder)}/.*journal\.jsonl\z}) }
    end
    found && Integer(found[/\d+/])
  end

  # It may be closed meanwhile.
  def link(descriptor)
    File.readlink(descriptor)
  rescue Errno::ENOENT, Errno::EACCES
    ""
  end

  def ctl(*words) = IO.popen([RAKUDACTL, *words], chdir: @folder, err: File::NULL, &:read)

  def up = ctl("nodes").scan(/^  \S+ +up /).size

  def known = ctl("nodes", "--cols", "load1", "--csv").scan(/^[^,\n]*,?s\d{5},.*\d/).size

  def wait(what)
    limit = clock + LIMIT
    loop do
      found = yield and return found
      raise Stop, "it did not come within #{LIMIT} s: #{what}" if clock > limit

      sleep 0.1
    end
  end

  def clock = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  def rounds_figures
    lines = File.readlines(Dir["#{@folder}/.rakuda/runs/*/journal.jsonl"].first)
    rounds = lines.filter_map { |line| JSON.parse(line) if line.include?('"event":"round_ended"') }
    { rounds: rounds }
  end
end

# All of it on a terminal.
class AgentsBench
  def initialize(words)
    @values = { agents: [100, 1000], tasks: 10_000, rounds: 5, idle: 5, period: 1000, folder: Dir.tmpdir,
                swarm: Agents::SWARM, groups: nil }
    OptionParser.new do |o|
      o.banner = "usage: bench/agents [option ...]"
      o.on("--agents A,B", Array, "how many agents (100,1000)") { |v| @values[:agents] = v.map { |it| Integer(it) } }
      o.on("--tasks N", Integer, "tasks without work, twice (10000)") { |v| @values[:tasks] = v }
      o.on("--rounds N", Integer, "synchronised rounds with a worker on each (5)") { |v| @values[:rounds] = v }
      o.on("--idle SECONDS", Float, "for which the hub is watched when nothing runs (5)") { |v| @values[:idle] = v }
      o.on("--period MS", Integer, "between two samples of a node (1000)") { |v| @values[:period] = v }
      o.on("--groups N", Integer, "groups with a leader each, behind which the agents are (none)") { |v| @values[:groups] = v }
      o.on("--swarm PROGRAM", "what makes the agents up (its release build)") { |v| @values[:swarm] = v }
    end.parse!(words)
  end

  def call
    puts "tasks: #{@values[:tasks]}; a node has 40 attributes, of which 6 move every #{@values[:period]} ms"
    @values[:agents].each { |count| show(count, Agents.new(count, @values).measure) }
  end

  private

  def show(count, found)
    behind = " behind #{@values[:groups]} leaders" if @values[:groups]
    puts "", "#{count} agents#{behind} (#{found[:ended]} of #{count} ended by the hub)"
    row("joined", format("%.1f s, %.0f a second; hub %.0f MB", found[:joining], count / found[:joining], found[:memory]))
    row("tasks", work(found[:plain]))
    row("idle", rest(found[:idle]))
    row("idle, information", format("%s; hub %.0f MB", rest(found[:informed]), found[:memory_informed]))
    row("tasks, information", work(found[:known]))
    row("rounds", together(found[:together])) if found[:together]
    found[:rounds].each { |round| row("round #{round["number"]}", round_line(round)) }
  end

  def row(name, text) = puts("  #{name.ljust(20)}#{text}")

  def work(use)
    tasks = @values[:tasks]
    format("%.2f s, %.0f a second; hub %.0f us of a core a task", use.time, tasks / use.time, use.cpu / tasks * 1e6)
  end

  def rest(use)
    where = @values[:groups] ? "at the hub" : "on the loopback"
    format("hub %.1f %% of a core, %.0f KB/s %s", use.cpu / use.time * 100, use.bytes / use.time / 1000, where)
  end

  # With the time between two rounds, in which the next one is prepared.
  def together(use)
    format("%.2f s; hub %.1f %% of a core, %.0f ms of it a round", use.time, use.cpu / use.time * 100,
           use.cpu / @values[:rounds] * 1e3)
  end

  def round_line(round)
    ms = ->(name) { round[name] ? format("%.2f", round[name] / 1e6) : "-" }
    "instant #{ms["margin_ns"]} ms ahead, late #{round["late"]} of #{round["workers"]}, lag #{ms["lag_ns"]} ms to within " \
      "#{ms["clock_bound_ns"]} ms#{" (#{round["fault"]})" if round["fault"]}"
  end
end

if $PROGRAM_NAME == __FILE__
  begin
    trap(:TERM) { exit 143 }
    $stdout.sync = true
    AgentsBench.new(ARGV).call
  rescue Agents::Stop, OptionParser::ParseError => e
    abort "bench/agents: #{e.message}"
  end
end
