# frozen_string_literal: true

module Shows
  # One thing that goes wrong on a testbed while a run goes on: what is done, and what is done some seconds later. It
  # does not know what runs.
  class Fault
    # The host that it happens to.
    VICTIM = "host2"
    ALL = [] # rubocop:disable Style/MutableConstant -- filled below

    attr_reader :name, :text, :mended_after, :victims

    # @param ends [Boolean] the run is expected to end by it, and a second one to go on
    # @param mended_after [Numeric, nil] seconds until `mend`
    # @param victims [Array<String>] hosts whose processes are not looked for afterwards: they are dead
    # @param leads [Boolean] the victim is to lead a group of all hosts but the first
    def initialize(name, text, ends: false, mended_after: nil, mend: nil, victims: [], leads: false, &block)
      @name = name
      @text = text
      @ends = ends
      @mended_after = mended_after
      @mend = mend
      @victims = victims
      @leads = leads
      @block = block
      ALL << self
    end

    def ends? = @ends

    def leads? = @leads

    def strike(bed) = @block.call(bed)

    def mend(bed) = @mend&.call(bed)

    # Sends a signal to the processes of a name on a host, all in one call; there must be one.
    # @param names [Array<String>] as pgrep -x has them
    def self.signal(bed, host, signal, *names)
      found = names.map { |name| bed.timed(host, "pgrep", "-x", name, chdir: "/")[:out].split }
      raise Stop, "no process #{names.join(", ")} on #{host}" if found.any?(&:empty?)

      bed.shell(host, "kill -#{signal} #{found.flatten.join(" ")}")
    end

    def self.kill_connection(bed)
      found = bed.timed("head", "pgrep", "-f", "^ssh .* #{VICTIM} ", chdir: "/")[:out].split
      raise Stop, "no ssh to #{VICTIM}" if found.empty?

      bed.shell("head", "kill -KILL #{found.join(" ")}")
    end

    new("agent", "kill -9 of the agent") { |bed| signal(bed, VICTIM, :KILL, "rakuda-agent") }
    new("guard", "kill -9 of the agent's guard") { |bed| signal(bed, VICTIM, :KILL, "rakuda-guard") }
    new("both", "kill -9 of agent and guard") { |bed| signal(bed, VICTIM, :KILL, "rakuda-agent", "rakuda-guard") }
    new("stopped", "SIGSTOP to the agent, SIGCONT 20 s later", mended_after: 20,
                                                               mend: ->(bed) { continue(bed) }) do |bed|
      signal(bed, VICTIM, :STOP, "rakuda-agent")
    end
    new("connection", "kill -9 of the ssh to the host") { |bed| kill_connection(bed) }
    new("cut", "network cut, mended 20 s later", mended_after: 20, mend: ->(bed) { bed.fault("mend-link", VICTIM) }) do |bed|
      bed.fault("cut-link", VICTIM)
    end
    new("cut-short", "network cut, mended 3 s later", mended_after: 3, mend: ->(bed) { bed.fault("mend-link", VICTIM) }) do |bed|
      bed.fault("cut-link", VICTIM)
    end
    new("cut-off", "network cut for good", victims: [VICTIM]) { |bed| bed.fault("cut-link", VICTIM) }
    new("power", "power cut for good, with gfsd and its only replicas", victims: [VICTIM]) do |bed|
      bed.fault("kill-host", VICTIM)
    end
    new("reboot", "power cut, on again 10 s later", mended_after: 10, mend: ->(bed) { bed.fault("start-host", VICTIM) }) do |bed|
      bed.fault("kill-host", VICTIM)
    end
    new("hang", "the machine hangs for 20 s", mended_after: 20, mend: ->(bed) { bed.fault("wake-host", VICTIM) }) do |bed|
      bed.fault("stall-host", VICTIM)
    end
    new("gfsd", "gfsd ends, starts 5 s later", mended_after: 5, mend: ->(bed) { bed.fault("start-gfsd", VICTIM) }) do |bed|
      bed.fault("stop-gfsd", VICTIM)
    end
    new("leader", "kill -9 of the leader of a group", leads: true) { |bed| signal(bed, VICTIM, :KILL, "rakuda-leader") }
    new("leader-stopped", "SIGSTOP to the leader of a group, SIGCONT 20 s later", leads: true, mended_after: 20,
                                                                                  mend: ->(bed) { continue(bed) }) do |bed|
      signal(bed, VICTIM, :STOP, "rakuda-leader")
    end
    new("leader-power", "power cut for good at the leader of a group", leads: true, victims: [VICTIM]) do |bed|
      bed.fault("kill-host", VICTIM)
    end
    new("slow", "the host's link at 10 Mbit/s, to the end") { |bed| bed.fault("slow-link", VICTIM, "10mbit") }
    new("hub", "kill -9 of the hub (rakudad)", ends: true) { |bed| signal(bed, "head", :KILL, "rakudad") }
    new("front", "kill -9 of rakuda (Ruby)", ends: true) { |bed| signal(bed, "head", :KILL, "ruby") }
    new("engine", "kill -9 of hub and its guard", ends: true) { |bed| signal(bed, "head", :KILL, "rakudad", "rakuda-guard") }

    # What was stopped may be gone by now.
    def self.continue(bed) = bed.timed(VICTIM, "pkill", "-CONT", "-x", "rakuda-(agent|leader)", chdir: "/")
  end
end
