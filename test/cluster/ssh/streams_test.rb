# frozen_string_literal: true

require "json"
require "minitest/autorun"
require_relative "../hosts_case"

# Streams on real hosts: a component on one node and on several, what becomes of it when a member or a node fails, and
# hosts that cannot reach each other. What passes through a stream in one place is tested in
# crates/agent/tests/streams.rs, the edges between places in crates/core/tests/hops.rs; members that fail on one machine in
# test/streams_test.rb, hosts that fall silent in stream_faults_test.rb.
class ClusterStreamsTest < ClusterHostsCase
  def hosts_of(*tasks) = tasks.to_h { |task| [task, read("by.#{task}").strip] }

  PIPELINE = <<~'RUBY'
    stream :s, from: "w", to: "out"
    task(:w) { sh "hostname > by.w; seq 1000" }
    file("out") { |t| sh "hostname > by.out; sort -n > #{t.name}" }
    task default: "out"
  RUBY

  def test_a_component_runs_on_one_node_where_it_fits
    result = rakuda(PIPELINE, "-q")
    assert_equal 0, result.status, result.err
    assert_equal (1..1000).to_a, read("out").lines.map(&:to_i)
    assert_equal 1, hosts_of("w", "out").values.uniq.size
    refute_equal "head", hosts_of("w")["w"]
    stream = JSON.parse(ctl("report", "--json")).fetch("streams").first
    assert_equal ["s", 1000, true], stream.values_at("name", "records", "balanced")
  end

  def test_what_runs_on_a_node_that_is_lost_runs_again_elsewhere
    write("hosts", "host1 2\nhost2 2\n")
    rakefile = <<~'RUBY'
      stream :s, from: "w", to: "out"
      task(:w) { sh "hostname > by.w; echo 1; echo x > begun.w; until test -e go; do sleep 0.05; done; echo 2" }
      file("out") { |t| sh "hostname > begun.out; cat > #{t.name}" }
      task default: "out"
    RUBY
    lost = nil
    printed, status = while_command_waits(RAKUDA, "-F", "hosts", "-q", begun: 2, rakefile: rakefile) do
      lost = read("by.w").strip
      @testbed.run!(lost, "pkill", "-KILL", "-x", "rakuda-agent", chdir: "/")
      wait_for("the component to begin elsewhere") { read("by.w").strip != lost }
      write("go", "")
    end
    assert_equal [0, "1\n2\n"], [status.exitstatus, read("out")], printed
    assert_includes printed, "node #{lost} was lost"
  end

  MEGASCRIPT = <<~'RUBY'
    require "rakuda/megascript"
    include MegaScript
    a = 2.times.map { |i| Task.new("./sim", i, cost: 1, output: "1MB/s") }
    b = 4.times.map { |i| Task.new("./ana", i, cost: 10) }
    s = Stream.new
    s.in.concat(a)
    s.out.concat(b)
    Scheduler.add(*a, *b, s)
    Scheduler.run
    puts Dir["out.*"].map { |name| File.read(name).split.map(&:to_i).sort == (1..1000).flat_map { |n| [n, n] } }.inspect
  RUBY

  def test_a_megascript_program_runs_over_hosts
    write("hosts", "host1 2\nhost2 2\nhost3 2\n")
    write("p.rb", MEGASCRIPT)
    write("sim", "#!/bin/sh\nhostname > by.sim.$1; seq 1000\n")
    write("ana", "#!/bin/sh\nhostname > by.ana.$1; cat > out.$1\n")
    FileUtils.chmod(0o755, %w[sim ana].map { |name| File.join(@folder, name) })
    result = @testbed.run("head", "ruby", "-I", File.expand_path("../../../lib", __dir__), "p.rb", chdir: @folder,
                          environment: { "RAKUDA_OPTIONS" => "-F hosts -q" })
    assert_equal 0, result.status, result.err
    assert_equal "[true, true, true, true]", result.lines.last
    assert_equal %w[host1 host2 host3], names("by.*").map { |name| read(name).strip }.uniq.sort
  end

  # Two slots for two tasks: one on each host.
  APART = "host1 1\nhost2 1\n"

  def hops = events("streams_ended").flat_map { |ended| ended["streams"].flat_map { |stream| stream["hops"] || [] } }

  MANY = <<~'RUBY'
    stream :s, from: %w[w1 w2], to: %w[a b]
    %w[w1 w2].each { |w| task(w) { sh "hostname > by.#{w}; for i in $(seq 2000); do echo #{w} $i; done" } }
    %w[a b].each { |r| file(r) { |t| sh "hostname > by.#{r}; cat > #{t.name}" } }
    task default: %w[a b]
  RUBY

  def test_members_on_several_hosts_get_all_of_it_in_one_order
    result = rakuda(MANY, "-q")
    assert_equal 0, result.status, result.err
    assert_equal %w[host1 host2], hosts_of("w1", "w2", "a", "b").values.uniq.sort
    assert_equal read("a"), read("b")
    %w[w1 w2].each do |writer|
      assert_equal (1..2000).map { |number| "#{writer} #{number}\n" }, read("a").lines.grep(/^#{writer} /)
    end
    stream = JSON.parse(ctl("report", "--json")).fetch("streams").first
    assert_equal ["s", 4000, true], stream.values_at("name", "records", "balanced")
    refute_empty hops
    assert_equal ["direct"], hops.map { |hop| hop["way"] }.uniq
  end

  # By number alone a and c would be apart.
  def test_members_that_are_said_to_send_one_another_much_are_on_one_host
    write("hosts", "host1 3\nhost2 3\n")
    result = rakuda(<<~'RUBY', "-q")
      much, little = { output: "10MB/s" }, { output: "1B/s" }
      stream :one, from: "a", to: "c", meta: { "a" => much, "c" => little }
      stream :two, from: "b", to: "d", meta: { "b" => much, "d" => little }
      stream :both, from: %w[c d], to: "out"
      %w[a b].each { |name| task(name) { sh "hostname > by.#{name}; echo #{name}" } }
      %w[c d].each { |name| task(name) { sh "hostname > by.#{name}; cat" } }
      file("out") { |t| sh "cat > #{t.name}" }
      task default: "out"
    RUBY
    assert_equal [0, %w[a b]], [result.status, read("out").split.sort], result.err
    a, b, c, d = hosts_of("a", "b", "c", "d").values
    assert_equal [[a, b], 2], [[c, d], [a, b].uniq.size]
  end

  def test_hosts_that_cannot_reach_each_other_are_joined_over_the_hubs
    write("hosts", APART)
    address = @testbed.run!("host1", "getent", "hosts", "host2").split.first
    @testbed.run!("host1", "ip", "route", "add", "blackhole", address)
    result = rakuda(<<~'RUBY', "-q")
      stream :s, from: "w", to: "out"
      task(:w) { sh "hostname > by.w; seq 500000" }
      file("out") { |t| sh "hostname > by.out; sha256sum > #{t.name}" }
      task default: "out"
    RUBY
    assert_equal 0, result.status, result.err
    assert_equal %w[host1 host2], hosts_of("w", "out").values.sort
    assert_equal `seq 500000 | sha256sum`, read("out")
    assert_equal(["hub"], hops.map { |hop| hop["way"] })
  ensure
    @testbed.run("host1", "ip", "route", "del", "blackhole", address) if address
  end

  def test_reader_elsewhere_that_leaves_early_ends_its_writer_well
    write("hosts", APART)
    result = rakuda(<<~'RUBY', "-q")
      stream :s, from: "all", to: "two"
      task(:all) { sh "hostname > by.all; yes" }
      file("two") { |t| sh "hostname > by.two; head -n 2 > #{t.name}" }
      task default: "two"
    RUBY
    assert_equal [0, "y\ny\n"], [result.status, read("two")], result.err
    assert_equal %w[host1 host2], hosts_of("all", "two").values.sort
  end

  def test_a_cycle_over_two_hosts_and_a_record_of_megabytes
    write("hosts", APART)
    result = rakuda(<<~'RUBY', "-q")
      stream :ask, from: "a", to: "b"
      stream :tell, from: "b", to: "a"
      task(:a) { sh "hostname > by.a; head -c 3000000 /dev/zero | tr '\\0' x; echo; echo 7; read -r long; echo ${#long} > got; read -r x; echo $x >> got" }
      task(:b) { sh "hostname > by.b; read -r long; echo $long; read -r x; echo $((x * x))" }
      task default: "a"
    RUBY
    assert_equal [0, "3000000\n49\n"], [result.status, read("got")], result.err
    assert_equal %w[host1 host2], hosts_of("a", "b").values.sort
  end

  def test_a_writer_that_fails_elsewhere_is_no_end_and_all_are_tried_again
    write("hosts", APART)
    rakefile = <<~'RUBY'
      stream :s, from: "w", to: "out"
      task(:w) { sh "seq 5; test -e tried || { touch tried; exit 3; }" }
      file("out") { |t| sh "cat > #{t.name}; echo end >> ends" }
      task default: "out"
    RUBY
    result = rakuda(rakefile, "-q", "RETRY=1")
    assert_equal [0, "1\n2\n3\n4\n5\n", "end\n"], [result.status, read("out"), read("ends")], result.err
  end
end
