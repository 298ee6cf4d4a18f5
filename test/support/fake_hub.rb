#!/usr/bin/env ruby
# frozen_string_literal: true

# A small hub for tests of the front: decides with File.mtime, serial or with N slots, starts commands with
# Process.spawn. It keeps no record, knows one node, and forgets about speed.

require "msgpack"
require "socket"
require_relative "../../lib/rakuda/protocol"

# The other end of the link, as docs/design/protocol.md has it.
class FakeHub
  include Rakuda::Protocol

  Task = Struct.new(:number, :kind, :flags, :name, :requirement, :waits_for, :dependents, :prerequisites, :state, :attempt,
                    :newest, :stamp, :order, :how)
  Invocation = Struct.new(:id, :wanted, :failed, :abandoned, :caller, :stopped)

  NEVER = -(1 << 100)
  LATE = 1 << 100
  NOW = :now
  # wall_ns, user_us, system_us, max_rss_kib, read_bytes, write_bytes
  NO_USAGE = [0, 0, 0, 0, 0, 0].freeze

  def initialize(socket)
    @socket = socket
    @unpacker = MessagePack::Unpacker.new
    @input = String.new
    @out = []
    @tasks = {}
    @fresh = []
    @ready = []
    @running = 0
    @waiting_callers = 0
    @generation = 0
    @executed = false
    @invocations = {}
    @failed = false          # a task has failed: what no invocation that goes on needs is not started any more
    @requirements = {}
    @rules = 0               # defined so far
    @parameters = 0          # defined so far
    @files = 0               # likewise
    @environments = {}
    @commands = {}
    @ended = Thread::Queue.new
    @wake_reader, @wake_writer = IO.pipe
  end

  def run
    loop do
      flush
      readable, = IO.select([@socket, @wake_reader])
      if readable.include?(@wake_reader)
        @wake_reader.read_nonblock(4096, exception: false)
        command_ended(*@ended.pop) until @ended.empty?
      end
      receive if readable.include?(@socket)
      schedule
    end
  rescue EOFError, Errno::ECONNRESET
    kill_all("KILL")
    exit!(3) # the front may have become another program, which goes on
  end

  private

  def receive
    @input << @socket.readpartial(1 << 20)
    while @input.bytesize >= 4 && @input.bytesize >= 4 + (size = @input.unpack1("N"))
      @unpacker.feed_each(@input.byteslice(4, size)) { |message| take(message) }
      @input = @input.byteslice((4 + size)..)
    end
  end

  def take(message)
    name, fields = message.is_a?(Hash) ? message.first : [message, []]
    @stuck = nil
    send("on_#{name.gsub(/(?<=.)([A-Z])/, '_\1').downcase}", *fields)
  end

  def say(name, *fields)
    @out << { name => fields }
  end

  def flush
    return if @out.empty?

    payload = @out.map { |message| message.to_msgpack.b }.join
    @out.clear
    @socket.write([payload.bytesize].pack("N") + payload)
  end

  # --- messages of the front ---------------------------------------------------------------------------------------

  def on_hello(version, settings)
    @settings = settings
    @jobs = settings["jobs"]
    Dir.chdir(settings["directory"])
    say("Welcome", version, "fake", @jobs)
  end

  def on_forget_environments(below)
    @environments.reject! { |id, _| id < below }
  end

  def on_change_directory(path)
    Dir.chdir(path)
  end

  def on_define_requirement(id, map)
    @requirements[id] = map
  end

  def on_define_rule(number, _location, _text)
    raise "rule #{number} follows rule #{@rules}" unless number == @rules + 1

    @rules = number
  end

  def on_define_parameters(id, _list)
    raise "parameters #{id} follow #{@parameters}" unless id == @parameters + 1

    @parameters = id
  end

  def on_define_files(id, _map)
    raise "files #{id} follow #{@files}" unless id == @files + 1

    @files = id
  end

  def on_define_environment(id, set, unset)
    @environments[id] = set.merge(unset.to_h { |name| [name, nil] })
  end

  def on_define_tasks(tasks)
    tasks.each do |number, kind, flags, name, requirement, prerequisites, rule, parameters, files|
      raise "task #{number} has rule #{rule}, which was not defined" if rule > @rules
      raise "task #{number} has parameters #{parameters}, which were not defined" if parameters > @parameters
      raise "task #{number} has files #{files}, which were not defined" if files > @files

      raise "task #{number} defined twice" if @tasks[number]

      task = Task.new(number, kind, flags, name, requirement, 0, [], [], :defined, 0, NEVER, nil, [0, number])
      @tasks[number] = task
      link(task, prerequisites)
      @fresh << task
    end
  end

  def link(task, prerequisites)
    prerequisites.each do |number|
      prerequisite = @tasks.fetch(number)
      task.prerequisites << prerequisite
      case prerequisite.state
      when :settled then inherit(task, prerequisite)
      when :failed then task.flags |= 256
      else
        prerequisite.dependents << task
        task.waits_for += 1
      end
    end
  end

  def on_add_prerequisites(number, prerequisites, flags)
    task = @tasks.fetch(number)
    return if %i[settled failed running].include?(task.state)

    @ready.delete(task)
    task.state = :waiting unless task.state == :resolving
    task.flags = (task.flags & 2) | flags
    link(task, prerequisites)
    @generation += 1
    activate
    proceed(task) if task.state == :waiting && task.waits_for.zero?
  end

  def on_invoke(id, numbers, caller_number)
    @generation += 1
    @invocations[id] = Invocation.new(id, numbers.map { |number| @tasks.fetch(number) }, [], [], caller_number, false)
    @waiting_callers += 1 if caller_number
    activate
    check_invocations
  end

  def activate
    fresh = @fresh
    @fresh = []
    fresh.each do |task|
      task.state = :waiting
      task.order = [-@generation, task.number]
    end
    fresh.each { |task| proceed(task) if task.waits_for.zero? && task.state == :waiting }
  end

  def on_ask_after(number)
    (@asked_after ||= {})[number] = true
    @tasks.fetch(number).kind = TaskKind::ASKED
  end

  def on_action_ended(number, outcome, _message, _ran)
    task = @tasks.fetch(number)
    @running -= 1
    @executed = true
    return action_failed(task, outcome) unless outcome == ActionOutcome::OK
    return say("AskNeeded", number) if @asked_after&.key?(number)

    path = task.name
    say("TargetMissing", number) unless [TaskKind::PLAIN, TaskKind::ASKED].include?(task.kind) || path.empty? || File.exist?(path)
    settle(task, "executed")
  end

  def action_failed(task, outcome)
    retries = @requirements.dig(task.requirement, "retry") || @settings["retry"]
    retried = outcome == ActionOutcome::FAILED && task.attempt <= retries && !@stopped
    say("AttemptFailed", task.number, task.attempt, retried)
    if retried
      task.state = :ready
      @ready << task
    else
      say("Warning", "rakuda: task #{task.name} failed after 0 ms") if @settings["failure_termination"] == "continue"
      @stop_all = true if outcome == ActionOutcome::EXIT
      fail_task(task)
    end
  end

  def on_needed_answered(number, needed, timestamp)
    task = @tasks.fetch(number)
    task.stamp = if timestamp.is_a?(Hash)
                   seconds, nanoseconds = timestamp.fetch("at")
                   (seconds * 1_000_000_000) + nanoseconds
                 else
                   { Timestamp::EARLY => NEVER, Timestamp::LATE => LATE, Timestamp::NOW => NOW }.fetch(timestamp)
                 end
    return settle(task, "executed") if @asked_after&.delete(number)

    needed ? make_ready(task) : settle(task, "not_needed")
  end

  def on_resolved(number, found)
    task = @tasks.fetch(number)
    @resolving = nil
    @generation += 1
    activate
    task.flags &= ~2
    task.order = [-@generation, task.number]
    return fail_task(task) unless found

    task.state = :waiting
    proceed(task) if task.waits_for.zero?
  end

  def on_write_output(_task, descriptor, text)
    IO.for_fd(descriptor, autoclose: false).syswrite(text)
  end

  def on_want_lease(number)
    say("Leased", number)
  end

  def on_start_command(command, _task, what, options, echo)
    options ||= {}
    return say("CommandEnded", command, 2, 0, nil, nil, NO_USAGE) if @stopped

    $stderr.syswrite(echo.end_with?("\n") ? echo : "#{echo}\n") if echo
    pid = Process.spawn(environment(options), *words(what, options), spawn_options(options))
    @commands[command] = pid
    Thread.new do
      _, status = Process.wait2(pid)
      @ended << [command, status.to_i, pid, nil]
      @wake_writer.write(".")
    end
  rescue SystemCallError => e
    say("CommandEnded", command, 127 << 8, 0, nil, unstarted(e, options["redirects"] || []), NO_USAGE)
  end

  # As the engine says it of a file that cannot be opened for a command.
  def unstarted(error, redirects)
    named = ->(target) { target.is_a?(Hash) && target["file"] && error.message.b.end_with?(" #{target["file"].first}".b) }
    stream, = redirects.find { |_, target| named[target] }
    stream ? "open a file for the command's descriptor #{stream}: (os error #{error.errno})" : error.message
  end

  def environment(options)
    @environments.fetch(options["environment"] || 0, {})
  end

  def words(what, options)
    return [what] unless what.is_a?(Array)

    [[what.first, options["argv0"] || what.first], *what.drop(1)]
  end

  def spawn_options(options)
    result = { pgroup: true }
    result[:in] = "/dev/null" if @settings["stdin"] == "null"
    result[:chdir] = options["directory"] if options["directory"]
    result[:unsetenv_others] = true if options["clear_environment"]
    result[:umask] = options["umask"] if options["umask"]
    (options["redirects"] || []).each do |fd, target|
      result[fd] = case target
                   when Redirect::NULL then "/dev/null"
                   when Redirect::CLOSE then :close
                   else target["file"] || redirect_copy(result, target.fetch("fd"))
                   end
    end
    result
  end

  # The same as that descriptor of the command so far.
  def redirect_copy(result, stream)
    result.key?(stream) && !result[stream].is_a?(Integer) ? [:child, stream] : stream
  end

  def on_signal_command(command, signal)
    Process.kill(signal, -@commands[command]) if @commands[command]
  rescue Errno::ESRCH
    nil
  end

  def on_stop(how)
    @stopped = true
    @invocations.each_value { |invocation| invocation.stopped = true }
    kill_all(how == StopHow::KILL ? "KILL" : "INT")
    check_invocations
  end

  def on_describe_commands(_number, _commands); end

  def on_stuck(turn)
    @stuck = turn
  end

  def on_describe_plan(_format)
    run, all = %w[executed not_needed].map { |how| @tasks.values.count { |task| task.how == how && task.flags.anybits?(1) } }
    say("Plan", "#{run} of #{run + all} tasks would run\n", true)
  end

  def on_goodbye(_failed)
    exit!(0)
  end

  def kill_all(signal)
    @commands.each_value do |pid|
      Process.kill(signal, -pid)
    rescue Errno::ESRCH
      nil
    end
  end

  def command_ended(command, status, pid, error)
    @commands.delete(command)
    say("CommandEnded", command, status, pid, nil, error, NO_USAGE)
  end

  # --- rake's rule -------------------------------------------------------------------------------------------------

  # All prerequisites are settled.
  def proceed(task)
    task.state = :ready
    @ready << task
  end

  def decide(task)
    return abandon(task) if (task.flags & 256) != 0
    return start_resolve(task) if (task.flags & TaskFlags::DEFERRED) != 0

    case task.kind
    when TaskKind::PLAIN then make_ready(task)
    when TaskKind::FILE then file_needed?(task) ? make_ready(task) : settle(task, "not_needed")
    when TaskKind::DIRECTORY then File.exist?(task.name) ? settle(task, "not_needed") : make_ready(task)
    else
      task.state = :asking
      say("AskNeeded", task.number)
    end
  end

  def start_resolve(task)
    task.state = :resolving
    @resolving = task
    say("Resolve", task.number)
  end

  def file_needed?(task)
    return true if @settings["build_all"] || !File.exist?(task.name)

    modified = nanoseconds(File.mtime(task.name))
    task.newest == NOW || task.newest > modified
  end

  def nanoseconds(time)
    (time.to_i * 1_000_000_000) + time.nsec
  end

  def make_ready(task)
    return settle(task, "executed") if (task.flags & 1).zero? || (@settings["dry_run"] && (task.flags & 4).zero?)

    task.state = :running
    task.attempt += 1
    @running += 1
    say("RunAction", task.number, task.attempt, "localhost", nil, true)
  end

  def settle(task, how)
    task.state = :settled
    task.how = how
    say("TaskSettled", task.number, how) if @settings["trace"]
    task.stamp = stamp(task) unless task.kind == TaskKind::ASKED
    release(task)
  end

  def stamp(task)
    case task.kind
    when TaskKind::PLAIN then nanoseconds(Time.now)
    when TaskKind::FILE then File.exist?(task.name) ? nanoseconds(File.mtime(task.name)) : LATE
    else NEVER
    end
  end

  def release(task)
    task.dependents.each do |dependent|
      inherit(dependent, task) if task.state == :settled
      dependent.waits_for -= 1
      proceed(dependent) if dependent.waits_for.zero? && dependent.state == :waiting
    end
    check_invocations
  end

  def inherit(task, prerequisite)
    [prerequisite.stamp, prerequisite.newest].each do |time|
      time = nanoseconds(Time.now) if time == NOW
      task.newest = time if time && time > task.newest
    end
  end

  def fail_task(task)
    task.state = :failed
    say("TaskSettled", task.number, "failed") if @settings["trace"]
    @invocations.each_value { |invocation| invocation.failed << task.number if needs?(invocation, task) }
    mark_dependents(task)
    stop_invocations(task) unless @settings["failure_termination"] == "continue"
    abort_running(task) if @settings["failure_termination"] == "kill"
    release(task)
  end

  def stop_invocations(task)
    @failed = true
    @invocations.each_value { |invocation| invocation.stopped = true if invocation.failed.include?(task.number) }
  end

  def abort_running(_task)
    kill_all("TERM")
    @tasks.each_value { |task| say("AbortAction", task.number) if task.state == :running }
  end

  def mark_dependents(task)
    task.dependents.each { |dependent| dependent.flags |= 256 }
  end

  def abandon(task)
    task.state = :failed
    say("TaskSettled", task.number, "abandoned") if @settings["trace"]
    @invocations.each_value { |invocation| invocation.abandoned << task.number if needs?(invocation, task) }
    mark_dependents(task)
    release(task)
  end

  # Whether a task is among those that an invocation wants, or what they need.
  def needs?(invocation, task)
    return true if @invocations.size == 1 && !@failed

    seen = {}.compare_by_identity
    stack = invocation.wanted.dup
    while (one = stack.pop)
      return true if one.equal?(task)
      next if seen[one]

      seen[one] = true
      stack.concat(one.prerequisites)
    end
    false
  end

  def schedule
    until @ready.empty?
      break if @running - @waiting_callers >= @jobs || (@jobs == 1 && undecided?)

      task = next_ready
      stopped?(task) && (task.flags & 256).zero? ? task.state = :stopped : decide(task)
    end
    check_invocations
    tell_nothing_left
  end

  def tell_nothing_left
    return if @stuck.nil? || !@commands.empty? || undecided?

    say("NothingLeft", @stuck)
    @stuck = nil
  end

  def next_ready
    return @ready.shift if @jobs > 1

    @ready.delete(@ready.min_by(&:order))
  end

  # Whether an answer of the front is awaited.
  def undecided?
    @resolving || @tasks.each_value.any? { |task| task.state == :asking }
  end

  def stopped?(task)
    return true if @stopped || @stop_all

    return false unless @failed

    live = @invocations.values.reject(&:stopped)
    live.none? { |invocation| needs?(invocation, task) }
  end

  def check_invocations
    @invocations.each_value.to_a.each do |invocation|
      next unless ended?(invocation)

      @invocations.delete(invocation.id)
      @waiting_callers -= 1 if invocation.caller
      say("InvocationEnded", invocation.id, invocation.failed, invocation.abandoned)
    end
  end

  def ended?(invocation)
    return true if invocation.wanted.all? { |task| task.state == :settled }
    over = invocation.wanted.all? { |task| %i[settled failed].include?(task.state) }
    return false unless over || invocation.stopped || @stopped || @stop_all

    @tasks.each_value.none? { |task| %i[running asking resolving].include?(task.state) && needs?(invocation, task) }
  end
end

socket = UNIXSocket.for_fd(Integer(ARGV.fetch(ARGV.index("--front-fd") + 1)))
trap("INT") { nil } # not "IGNORE", which commands would inherit
FakeHub.new(socket).run
