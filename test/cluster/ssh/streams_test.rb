# frozen_string_literal: true

require "json"
require "minitest/autorun"
require_relative "../hosts_case"

# Streams on real hosts: a component on several, a writer that fails elsewhere, and hosts that cannot reach each other.
# What passes through a stream in one place is tested in crates/agent/tests/streams.rs, edges between places in hops.rs
# there and in crates/core/tests, where members go in crates/core/tests/gangs.rs; members that fail on one machine in
# test/streams_test.rb, hosts that fall silent and agents that die in stream_faults_test.rb.
class ClusterStreamsTest < ClusterHostsCase
  def hosts_of(*tasks) = tasks.to_h { |task| [task, read("by.#{task}").strip] }

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

  def ways = hops.map { |hop| hop["way"] }

  def test_members_on_several_hosts_get_all_of_it_in_one_order
    assert_many_come
    # On a busy machine a dial may take longer than its 3 s, and the way is `hub` then.
    4.times { assert_many_come unless ways.uniq == ["direct"] }
    assert_equal ["direct"], ways.uniq
  end

  def assert_many_come
    result = rakuda(MANY, "-q")
    assert_equal 0, result.status, result.err
    assert_equal %w[host1 host2], hosts_of("w1", "w2", "a", "b").values.uniq.sort
    assert_equal read("a"), read("b")
    %w[w1 w2].each do |writer|
      assert_equal (1..2000).map { |number| "#{writer} #{number}\n" }, read("a").lines.grep(/^#{writer} /)
    end
    stream = JSON.parse(ctl("report", "--json")).fetch("streams").first
    assert_equal ["s", 4000, true], stream.values_at("name", "records", "balanced")
    %w[a b].each { |reader| File.delete(File.join(@folder, reader)) }
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
    assert_equal ["hub"], ways
  ensure
    @testbed.run("host1", "ip", "route", "del", "blackhole", address) if address
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
