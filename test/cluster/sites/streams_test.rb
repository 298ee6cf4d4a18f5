# frozen_string_literal: true

require "json"
require "minitest/autorun"
require_relative "../hosts_case"

# Routes of streams between two sites: head, host1 and host2 on one, host3 and host4 on the other. How many copies of a
# message pass which line.
class StreamRoutesTest < ClusterHostsCase
  def testbed_settings = { HOSTS: 4, GFARM: 0, SLURM: 0, WAN_MS: 5 }

  RAKEFILE = <<~'RUBY'
    stream :s, from: "w", to: %w[r1 r2 r3]
    task(:w) { sh "seq 10000" }
    %w[r1 r2 r3].each { |r| file(r) { |t| sh "cat > #{t.name}" } }
    task default: %w[r1 r2 r3]
  RUBY

  def setup
    super
    groups("near" => %w[host1 host2], "far" => %w[host3 host4])
  end

  # Groups, which may be within others, of a slot on each host; `leaders` of some.
  def groups(of, leaders = {})
    text = of.map do |name, hosts|
      lines = ["[[group]]", %(name = "#{name}"), "hosts = #{hosts.map { |host| "#{host} 1" }.inspect}"]
      lines << %(leader = "#{leaders[name]}") if leaders[name]
      "#{lines.join("\n")}\n"
    end
    write("hosts.toml", text.join("\n"))
  end

  OF_MESSAGES = /\d+(\.\d)? [nµm]s of a processor for each message at each end/

  # Edges between and within groups, from the report.
  def copies(route)
    FileUtils.rm_rf(["r1", "r2", "r3", ".rakuda"].map { |name| File.join(@folder, name) })
    write("Rakefile", RAKEFILE)
    @testbed.run!("head", RAKUDA, "-q", "-F", "hosts.toml", "--stream-route", route, chdir: @folder)
    assert_equal [(1..10_000).to_a], %w[r1 r2 r3].map { |name| read(name).lines.map(&:to_i) }.uniq
    stream = JSON.parse(ctl("report", "--json")).fetch("streams").first
    assert stream.fetch("balanced")
    [stream.dig("route", "route"), *%w[between_groups within_groups].map { |line| stream.dig("copies", line, "edges") }]
  end

  def test_a_line_between_sites_is_passed_once_over_representatives
    assert_equal ["direct", 2, 1], copies("direct")
    assert_equal ["relay", 1, 2], copies("relay")
    assert_equal ["conventional", 2, 1], copies("conventional")
    assert_equal ["relay", 1, 2], copies("auto")
    # What was measured until then is said, too.
    measured = /(, \d+\.\d{3} ms between groups)?(, #{OF_MESSAGES})?, lines as fast as usual/
    assert_match(/^  route relay \(chosen by cost#{measured}\)$/, ctl("report", "--text"))
    refused = @testbed.run("head", RAKUDA, "--stream-route", "fast", chdir: @folder)
    assert_equal 1, refused.status
    assert_includes refused.err, "auto, relay, direct"
  end

  # A megabyte now and then, in place of the little that is said: two copies over the line between sites come later than
  # one. It goes on until the route has changed.
  def test_a_route_changes_while_a_stream_is_open_and_nothing_is_lost
    write("w.rb", <<~'RUBY')
      $stdout.sync = true
      number = 0
      rest = 5
      while rest.positive?
        puts "#{number += 1} #{"x" * 900_000}"
        sleep 0.2
        journals = Dir.glob(".rakuda/runs/*/journal.jsonl").map { |path| File.read(path) }
        rest -= 1 if journals.any? { |journal| journal.include?("streams_rerouted") }
      end
    RUBY
    write("Rakefile", <<~'RUBY')
      stream :s, from: "w", to: %w[r1 r2 r3], meta: { "w" => { output: "1KB/s", frequency: 10 } }
      task(:w) { sh "ruby w.rb" }
      %w[r1 r2 r3].each { |r| file(r) { |t| sh "cat > #{t.name}" } }
      task default: %w[r1 r2 r3]
    RUBY
    @testbed.run!("head", RAKUDA, "-q", "-F", "hosts.toml", chdir: @folder)
    lines = File.readlines(File.join(@folder, "r1"), chomp: true)
    assert_equal (1..lines.size).map { |number| "#{number} #{"x" * 900_000}".hash }, lines.map(&:hash)
    assert_equal [read("r1")] * 2, [read("r2"), read("r3")]
    changes = events("streams_rerouted").flat_map { |event| event["streams"] }
    assert_equal([%w[s relay]], changes.map { |one| [one["name"], one.dig("route", "route")] })
    assert_operator changes.first.dig("route", "message_ns"), :>, 0
    assert_match(/^  before: route direct .*\n  route relay .*, #{OF_MESSAGES}, lines [^;]*; .*seen: /, ctl("report", "--text"))
    stream = JSON.parse(ctl("report", "--json")).fetch("streams").first
    assert stream.fetch("balanced")
    assert_equal lines.size, stream.fetch("records")
  end

  # The first stream keeps the line to host3 busy for some seconds; by what it saw the route of the second one is
  # chosen.
  def test_what_a_line_was_seen_to_carry_is_known_to_the_streams_that_follow
    @testbed.fault("slow-link", "host3", "40mbit")
    write("Rakefile", <<~'RUBY')
      stream :first, from: "fills", to: "filled", record: :raw
      stream :second, from: "w", to: "out"
      needs allow: "host1"
      task(:fills) { sh "head -c 20000000 /dev/zero" }
      needs allow: "host3"
      file("filled") { |t| sh "wc -c > #{t.name}" }
      needs allow: "host1"
      task(:w => "filled") { sh "echo 1" }
      needs allow: "host3"
      file("out" => "filled") { |t| sh "cat > #{t.name}" }
      task default: "out"
    RUBY
    @testbed.run!("head", RAKUDA, "-q", "-F", "hosts.toml", chdir: @folder)
    assert_equal %W[20000000\n 1\n], [read("filled"), read("out")]
    first, second = events("streams_opened").map { |event| event.dig("streams", 0, "route") }
    assert_nil first["wan_bytes_per_s"]
    # 5 MB/s less what TLS takes, or what a busy machine leaves of it; usual are 125.
    assert_includes 1..7_500_000, second["wan_bytes_per_s"]
    assert_match(/lines between groups carry \d+(\.\d+)? [kM]?B\/s as measured, lines within/, ctl("report", "--text"))
  ensure
    @testbed.fault("slow-link", "host3", "none")
  end

  # host1 and host2, host3, and host4 in a group within that of host3: from host1 the line of each group is passed once.
  def test_groups_within_groups_pass_a_stream_on_one_to_the_other
    groups("near" => %w[host1 host2], "far" => %w[host3], "far/deep" => %w[host4])
    assert_equal ["relay", 2, 1], copies("relay")
    hops = JSON.parse(ctl("report", "--json")).dig("streams", 0, "hops")
    assert_equal [%w[host1 host2], %w[host1 host3], %w[host3 host4]], hops.map { |hop| hop.values_at("from", "to") }.sort
    assert_equal [10_000], hops.map { |hop| hop["records"] }.uniq
    groups("near" => %w[host1], "far" => %w[host2], "far/deep" => %w[host3], "far/deep/deeper" => %w[host4])
    assert_equal ["relay", 3, 0], copies("relay")
    hops = JSON.parse(ctl("report", "--json")).dig("streams", 0, "hops")
    assert_equal [%w[host1 host2], %w[host2 host3], %w[host3 host4]], hops.map { |hop| hop.values_at("from", "to") }.sort
  end

  # The writer is on host2 and the reader on host4: the representatives, host1 and host3, have no task of it, and are
  # there before it begins.
  PASSED_ON = <<~'RUBY'
    stream :s, from: "w", to: "out"
    %w[host1 host3].each do |host|
      needs allow: host
      task(host) { sh "true" }
    end
    needs allow: "host2"
    task(:w => %w[host1 host3]) { sh "echo 1; until test -e go; do sleep 0.05; done; echo 2" }
    needs allow: "host4"
    file("out" => %w[host1 host3]) { |t| sh "read -r one; echo x >> begun.out; { echo $one; cat; } > #{t.name}" }
    task default: "out"
  RUBY

  def test_a_lost_host_that_only_passes_a_stream_on_ends_all_and_they_run_again_over_another
    words = [RAKUDA, "-F", "hosts.toml", "-q", "--stream-route", "relay", "HEARTBEAT=16"]
    printed, status = while_command_waits(*words, begun: 1, rakefile: PASSED_ON) do
      @testbed.fault("kill-host", "host3")
      wait_for("the reader to begin again") { read("begun.out").lines.size == 2 }
      write("go", "")
    end
    assert_equal [0, "1\n2\n"], [status.exitstatus, read("out")], printed
    assert_includes printed, "node host3 was lost, over which its streams went"
    # Over host1 and host3 to host4 first, then over host1 alone.
    assert_equal 2, events("streams_ended").last["streams"][0]["hops"].size
  ensure
    @testbed.fault("start-host", "host3")
  end

  # a on host2 and b on host4 ask and tell; host1 and host3 pass that on. What x and log, which are with them, do leads
  # into the cycle and out of it. No byte moves before there is a file `one`, nor after the answer before there is a
  # `two`.
  CYCLE = <<~'RUBY'
    stream :ask, from: %w[a x], to: %w[b log]
    stream :tell, from: "b", to: "a"
    %w[host1 host3].each do |host|
      needs allow: host
      task(host) { sh "true" }
    end
    member = lambda do |name, host, line|
      needs allow: host
      task(name => %w[host1 host3]) { sh line }
    end
    member.("a", "host2", "until test -e one; do sleep 0.05; done; echo 1; read -r x; echo $x > got; " \
                          "until test -e two; do sleep 0.05; done; echo 2; read -r x; echo $x >> got")
    member.("x", "host2", "until test -e two; do sleep 0.05; done")
    member.("b", "host4", "while read -r x; do echo $((x + 10)); test $x = 1 || exit 0; done")
    member.("log", "host4", "cat > log")
    task default: %w[a x b log]
  RUBY

  def test_a_cycle_over_hosts_in_which_nothing_moves_is_told_as_one_and_again_after_it_went_on
    write("rakuda.yaml", "HEARTBEAT: 60\nSTREAM_STALL: 1\n")
    write("Rakefile", CYCLE)
    err = File.join(@folder, "run.err")
    words = [RAKUDA, "-F", "hosts.toml", "-q", "--stream-route", "relay"]
    pid = @testbed.start("head", *words, chdir: @folder, out: err, err: err)
    told = -> { File.exist?(err) ? read("run.err").lines.grep(/no byte.*\n/) : [] }
    line = "rakuda: streams: no byte has moved for 1 s in the cycle of tasks a, b: ask is empty, tell is empty\n"
    wait_for("the first stall", told) { told.call.any? }
    assert_equal [line], told.call
    write("one", "")
    wait_for("the second stall", told) { told.call.size > 1 }
    write("two", "")
    _, status = Process.wait2(pid)
    assert_equal [0, "11\n12\n", %w[1 2]], [status.exitstatus, read("got"), read("log").split], read("run.err")
    # Who has no processor for a second may leave bytes unread.
    told.call.each { |one| assert_match(/ in the cycle of tasks a, b: ask .*, tell /, one) }
    assert_equal([3, 3], events("streams_ended").last["streams"].map { |stream| stream["hops"].size })
  end
end
