# frozen_string_literal: true

require "json"

# What tests of faults share whose streams may be live or over spools: two writers and two readers that stop in the
# middle until they are told to go on, and what has to come out. Included in a case that has a testbed. It tests
# nothing.
module SpooledMembers
  HALF = 10_000
  WRITERS = %w[w1 w2].freeze
  READERS = %w[a b].freeze
  # Far from all that a moment takes, and near, where it is waited for that somebody counts as gone.
  PATIENT = "HEARTBEAT=300"
  STRICT = "HEARTBEAT=16"

  # Each says where it runs, that it is in the middle, and that it is over.
  # @param mode [String] what `replay:` says
  # @param places [Hash] the hosts that each member may have
  def members(mode, places)
    lines = (WRITERS + READERS).flat_map do |name|
      ["needs allow: #{places.fetch(name).inspect}", WRITERS.include?(name) ? writer(name) : reader(name)]
    end
    ["stream :s, from: %w[w1 w2], to: %w[a b], replay: :#{mode}", *lines, "task default: %w[a b]", ""].join("\n")
  end

  def writer(name)
    script = "hostname >> by.#{name}; seq -f '#{name} %.0f' #{HALF}; echo x > half.#{name}; #{waits("writers")}; " \
             "seq -f '#{name} %.0f' #{HALF + 1} #{2 * HALF}; echo x > over.#{name}"
    "task(#{name.inspect}) { sh #{script.inspect} }"
  end

  def reader(name)
    script = "hostname >> by.#{name}; read -r first; echo x > half.#{name}; #{waits("readers")}; " \
             "{ echo \"$first\"; cat; } > #{name}; echo x > over.#{name}"
    "file(#{name.inspect}) { sh #{script.inspect} }"
  end

  def waits(which) = "until test -e go.#{which}; do sleep 0.05; done"

  # Starts a run, and yields when the members of the stage wait in the middle; others have not to wait. Live, something
  # of each writer has gone into the stream then, and something has come to each reader.
  # @param stage [Array<String>] WRITERS or READERS
  # @return [Array] what it printed, and its status
  def strike(mode, stage, places, *command)
    names("{go,half,over,by}.*").each { |path| File.delete(File.join(@folder, path)) }
    FileUtils.rm_rf([*READERS, ".rakuda"].map { |path| File.join(@folder, path) })
    go_on(stage == WRITERS ? READERS : WRITERS)
    write("Rakefile", members(mode, places))
    printed = File.join(@folder, "printed")
    pid = @testbed.start("head", *command, "-q", chdir: @folder, out: printed, err: printed)
    told = -> { File.read(printed) }
    begun = mode == "gang" ? WRITERS + READERS : stage
    wait_for("#{begun.join(", ")} to be in the middle", told) { all?("half", begun) }
    yield
    go_on(stage)
    status = nil
    wait_for("the run to end", told) { (status = Process.wait2(pid, Process::WNOHANG)&.last) }
    [told.call, status]
  end

  def all?(state, members) = members.all? { |name| File.exist?(File.join(@folder, "#{state}.#{name}")) }

  def go_on(stage) = write(stage == WRITERS ? "go.writers" : "go.readers", "")

  def wait_until_over(*members)
    wait_for("#{members.join(", ")} to be over") { all?("over", members) }
  end

  # Nobody hears a host while the block runs. testbed/fault may have to wait for other testbeds, while a node is tried
  # again only for some seconds, and Slurm gives up one that is silent.
  def unheard(host)
    others = ["head", *@testbed.hosts] - [host]
    addresses = others.map { |other| @testbed.run!(host, "getent", "hosts", other).split.first }
    routes(host, "add", addresses)
    yield
  ensure
    routes(host, "del", addresses)
  end

  # Routes that lead nowhere.
  def routes(host, what, addresses)
    @testbed.run!(host, "sh", "-c", addresses.map { |address| "ip route #{what} blackhole #{address}" }.join("; "), chdir: "/")
  end

  # Yields the host that runs `b`, and waits until what runs there now has ended: it would write into the file of the
  # next attempt.
  def ending_what_runs
    host = ran("b").last
    shells = @testbed.run(host, "pgrep", "-f", 'half\.b', chdir: "/").out.split
    refute_empty shells
    yield host
    # A shell leads a group of its own.
    wait_for("what ran on #{host} to end") { @testbed.run(host, "pgrep", "-g", shells.join(","), chdir: "/").out.empty? }
  end

  def signal(host, signal, name)
    assert_predicate @testbed.run(host, "pkill", "-#{signal}", "-x", name, chdir: "/"), :success?, "no #{name} on #{host}"
  end

  def ran(task) = read("by.#{task}").split

  # What is in a reader's file, whatever happened: over spools one writer after the other, else in any order of the two.
  def assert_all_came(mode)
    lines = WRITERS.to_h { |name| [name, (1..2 * HALF).map { |number| "#{name} #{number}\n" }] }
    assert_equal read("a"), read("b")
    got = read("a").lines
    assert_equal lines, got.group_by { |line| line.split.first }.sort.to_h
    assert_equal lines.values.flatten, got if mode != "gang"
  end

  def assert_made(mode, printed, status)
    assert_equal 0, status.exitstatus, printed
    assert_all_came(mode)
    assert_empty Dir.glob("#{@folder}/.rakuda/spools/*")
    stream = JSON.parse(ctl("report", "--json")).fetch("streams").last
    assert_equal true, stream["balanced"], printed
  end

  # All went on in the first attempt.
  def assert_nothing_lost(printed)
    assert_empty events("node_lost"), printed
    assert_equal [1] * 4, (WRITERS + READERS).map { |name| ran(name).size }, printed
  end
end
