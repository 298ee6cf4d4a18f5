# frozen_string_literal: true

require "support/failed_run"
require "support/waiting"

# What tests of runs in Gfarm share: a testbed of three hosts with a file server each, a folder in Gfarm, and a chain of
# tasks that waits in its middle. It tests nothing.
class ClusterGfarmCase < Minitest::Test
  include FailedRun
  include Waiting

  RAKUDA = File.expand_path("../../bin/rakuda", __dir__)
  RAKUDACTL = File.expand_path("../../bin/rakudactl", __dir__)

  # `mid` is made, then `gate` waits until there is a file `go` in the folder that is not in Gfarm, then `end` is made
  # of `mid`.
  CHAIN = <<~'RUBY'
    shared = ENV.fetch("SHARED")
    file("mid") { sh "seq 1 20000 > mid; echo mid made on $(hostname)" }
    task gate: "mid" do
      sh "echo gate begun on $(hostname); touch #{shared}/begun; until test -e #{shared}/go; do sleep 0.05; done"
    end
    file("end" => %w[mid gate]) { sh "sort -n -r mid > end && echo end made on $(hostname)" }
    task default: "end"
  RUBY

  def setup
    @testbed = Testbed.up(HOSTS: 3, SLURM: 0, LOST_AFTER: 5)
    @folder = "/srv/gfarm/#{name}"
    @shared = File.join(@testbed.folder, name)
    FileUtils.rm_rf(@shared)
    FileUtils.mkdir_p(@shared)
    File.write("#{@shared}/hosts", "host1 1\nhost2 1\nhost3 1\n")
    @testbed.run!("head", "mkdir", @folder, chdir: "/")
  end

  def write(path, content, host: "head")
    @testbed.run!(host, "sh", "-c", "cat > #{path}", stdin: content, chdir: @folder)
  end

  def read(path)
    @testbed.run!("head", "cat", path, chdir: @folder)
  end

  # Starts a run, and yields a procedure that gives what it has printed so far; returns all that it printed, and its
  # status.
  def running(rakefile, *words, folder: @folder)
    @testbed.run!("head", "sh", "-c", "cat > Rakefile", stdin: rakefile, chdir: folder)
    printed = @printed = +""
    IO.pipe do |reader, writer|
      pid = @testbed.start("head", RAKUDA, "-q", "-F", "#{@shared}/hosts", *words, "SHARED=#{@shared}",
                           chdir: folder, environment: { "SHARED" => @shared, "RAKEOPT" => "--output line" }, out: writer,
                           err: writer)
      writer.close
      listening = Thread.new { loop { printed << reader.readpartial(4096) } rescue EOFError }
      yield -> { printed.dup }
      _, status = Process.wait2(pid)
      listening.join
      return printed, status
    end
  end

  def wait_for_the_gate(printed)
    wait_for("the gate", printed) { File.exist?("#{@shared}/begun") }
  end

  # Waits until these hosts take part: which of them have made or run something says nothing of the others.
  def wait_until_up(printed, *hosts)
    wait_for("#{hosts.join(", ")} to be up", printed) do
      rows = @testbed.run("head", RAKUDACTL, "nodes", chdir: @folder).out
      hosts.all? { |host| rows.match?(/^  #{host} +up /) }
    end
  end

  # Waits until the gate is there; the host that has made `mid`. What it printed may come later than the gate.
  def maker(printed)
    wait_for_the_gate(printed)
    wait_for("the host that made mid", printed) { printed.call.match?(/mid made on \S+\n/) }
    printed.call[/mid made on (\S+)/, 1]
  end

  def go = FileUtils.touch("#{@shared}/go")

  def assert_whole
    made = read("end")
    whole = (1..20_000).to_a.reverse.map { |number| "#{number}\n" }.join
    assert made == whole, "the result is another one: #{made.bytesize} bytes; #{@printed}"
  end
end
