# frozen_string_literal: true

require "json"
require "minitest/autorun"
require_relative "../support/engines"
require_relative "../support/waiting"

# Runs in Gfarm: where files are found, tasks that stay with their data, what is in memory, and what happens without
# libgfarm.
class GfarmTest < Minitest::Test
  include Waiting

  ROOT = File.expand_path("../..", __dir__)
  HOSTS = 3
  MIB = 1 << 20

  # Each `src_N` is read by a chain of two tasks. Nothing begins before all hosts are there: one that came first would
  # take what belongs to others.
  CHAINS = <<~'RUBY'
    # frozen_string_literal: true
    SOURCES = Dir["src_*"].sort
    task(:gather) { sh "until test -e GO; do sleep 0.05; done" }
    SOURCES.each do |source|
      file source.sub("src", "mid") => [source, :gather] do |t|
        sh "cp #{t.source} #{t.name} && hostname >> #{t.name}"
      end
      file source.sub("src", "end") => source.sub("src", "mid") do |t|
        sh "wc -c < #{t.source} > #{t.name}"
      end
    end
    task default: SOURCES.map { |source| source.sub("src", "end") }
  RUBY

  def setup
    @testbed = Testbed.up(HOSTS: HOSTS, SLURM: 0)
    @folder = "/srv/gfarm/#{name}"
    @testbed.run!("head", "mkdir", @folder, chdir: "/")
    # Nothing is written through the shared mount of the machine: what head writes goes to some host, too.
    @go = File.join(@testbed.folder, "go.#{name}")
    @testbed.run!("head", "sh", "-c", "cat > Rakefile", stdin: CHAINS.sub("GO", @go), chdir: @folder)
  end

  def test_tasks_go_to_the_nodes_that_the_catalogue_names_and_chains_stay_there
    spread_sources(9)
    summary = run_and_report("--policy", "fifo", "--disable-steal")
    assert_operator summary.fetch("local_share"), :>=, 0.9
    calls = summary.fetch("run_file_system_ops_per_task")
    assert_operator calls, :>, 0
    assert_operator calls, :<=, summary.fetch("metadata_ops_per_task")
    holders = (0...9).to_h { |number| ["mid_#{number}", "host#{number % HOSTS + 1}"] }
    made = holders.keys.to_h { |file| [file, @testbed.run!("head", "tail", "-c6", file, chdir: @folder).chomp] }
    stayed = holders.count { |file, host| made[file] == host }
    assert_operator stayed, :>=, 8, made.inspect
  end

  def test_without_affinity_tasks_go_anywhere
    spread_sources(9)
    summary = run_and_report("--disable-affinity", "--policy", "fifo")
    assert_equal 9 * 2 + 1, summary.fetch("done")
    assert_operator summary.fetch("local_share"), :<, 0.9
  end

  def test_without_libgfarm_the_run_says_so_and_goes_on_with_what_it_knows
    spread_sources(3)
    @testbed.run!("head", "sh", "-c", "mkdir -p /tmp/hidden && : > /tmp/hidden/libgfarm.so.1")
    result = with_all_hosts { rakuda(environment: { "LD_LIBRARY_PATH" => "/tmp/hidden" }) }
    assert_equal 0, result.status, result.err
    told = result.err.lines.grep(/cannot ask Gfarm/)
    assert_equal 1, told.size, result.err
    assert_includes told.first, "libgfarm1"
  end

  # The host's kernel still remembers the file that head has removed.
  def test_what_was_removed_elsewhere_can_be_written_again_at_once
    @testbed.run!("head", "sh", "-c", "cat > Rakefile", stdin: <<~'RUBY', chdir: @folder)
      task :default do
        3.times do |number|
          sh "echo", number.to_s, out: "log"
          puts File.read("log")
          rm "log", verbose: false
        end
      end
    RUBY
    result = rakuda("-q")
    assert_equal [0, "0\n1\n2\n"], [result.status, result.out], result.err
  end

  def test_input_in_memory_is_measured
    spread_sources(3)
    (1..HOSTS).each { |number| @testbed.fault("drop-cache", "host#{number}") }
    cold = run_and_report.fetch("cache_hit")
    # All of it has been read or written by now, where it is.
    (0...3).each { |n| @testbed.run!("host#{n + 1}", "cat", "src_#{n}", "mid_#{n}", chdir: @folder) }
    warm = run_and_report.fetch("cache_hit")
    assert_operator warm, :>, 0.9
    assert_operator cold, :<, warm
  end

  private

  # `src_N` of 2 MiB lies on host N % HOSTS + 1: who writes through a mount of Gfarm writes to its own disk.
  def spread_sources(count)
    count.times do |number|
      host = "host#{number % HOSTS + 1}"
      @testbed.run!(host, "sh", "-c", "head -c #{2 * MIB} /dev/urandom > src_#{number}", chdir: @folder)
      assert_equal [host], places("src_#{number}"), "the testbed is to write where the writer is"
    end
  end

  def places(file)
    @testbed.run!("head", "gfwhere", "#{@folder}/#{file}", chdir: "/").split
  end

  def rakuda(*arguments, environment: {})
    hosts = "/tmp/one_core"
    lines = (1..HOSTS).map { |number| "host#{number} 1\n" }.join
    @testbed.run!("head", "sh", "-c", "cat > #{hosts}", stdin: lines)
    environment = Engines::WITHOUT_PROGRESS.merge(environment)
    @testbed.run("head", "#{ROOT}/bin/rakuda", "-F", hosts, *arguments, chdir: @folder, environment: environment)
  end

  # Lets the chains of a run begin when all hosts take part.
  # @return [Testbed::Result] of the run
  def with_all_hosts(&run)
    FileUtils.rm_f(@go)
    running = Thread.new(&run)
    wait_for("all hosts to be up, or the run to end") do
      rows = @testbed.run("head", "#{ROOT}/target/release/rakudad", "ctl", "nodes", chdir: @folder).out
      rows.scan(/^  host\d +up /).size == HOSTS || !running.alive?
    end
    FileUtils.touch(@go)
    running.value
  ensure
    FileUtils.touch(@go) # also when they did not come: nothing is to wait here any more
  end

  def run_and_report(*arguments)
    result = with_all_hosts { rakuda(*arguments) }
    assert_equal 0, result.status, result.err
    JSON.parse(@testbed.run!("head", "#{ROOT}/target/release/rakudad", "ctl", "report", "--json", chdir: @folder))
  end
end
