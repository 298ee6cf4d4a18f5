# frozen_string_literal: true

require "digest"
require "minitest"
require "support/near_hosts"

# What tests of runs on hosts that share no folder have in common, where all hosts are on this machine: inputs, what tasks
# have noted, which file went where, and what lies where. It tests nothing.
class NearStagingCase < Minitest::Test
  include NearHosts

  def setup
    @base = Dir.mktmpdir("near")
    @run = Run.new(@base)
    @notes = File.join(@base, "notes")
    FileUtils.mkdir_p([@notes, @run.path("in")])
    write("hosts", "host1 2\nhost2 2\n")
  end

  def teardown
    FileUtils.rm_rf(@base)
  end

  def write(name, content) = @run.write(name, content)

  def read(name) = @run.read(name)

  def remove(*names) = FileUtils.rm_rf(names.map { |name| @run.path(name) })

  # Files of the run's folder here that match, in the order of their names.
  def at_home(*patterns) = Dir.glob(patterns, base: @run.path(""))

  def files_on(host) = @run.files(host)

  # Removes files that match from the folders of the run on all hosts.
  def remove_on_hosts(pattern)
    FileUtils.rm_r(Dir.glob(File.join(@base, "host*/rakuda-*/files/*", pattern)))
  end

  # Makes in/0, in/1, ... of so many bytes; their contents.
  def inputs(count, bytes)
    random = Random.new(1)
    (0...count).to_h do |number|
      content = random.bytes(bytes).unpack1("H*")[0, bytes]
      write("in/#{number}", content)
      ["in/#{number}", content]
    end
  end

  def rakuda(rakefile, *words) = @run.rakuda(rakefile, *words)

  # What tasks have noted: lines of `words`.
  def notes
    path = File.join(@notes, "log")
    File.exist?(path) ? File.readlines(path, chomp: true).map(&:split) : []
  end

  # The transfers of the last run: [file, from, to], with names of nodes; this machine is `home`.
  def transfers = staged.map { |event| event.values_at("task", "from", "to") }

  # The events `file_staged` of the last run, with names for numbers.
  def staged
    events = @run.events
    names = events.select { |event| event["event"] == "task_defined" }.to_h { |event| event.values_at("task", "name") }
    nodes = events.select { |event| event["event"] == "node_joined" }.to_h { |event| event.values_at("node", "name") }
    nodes[0] = "home"
    events.select { |event| event["event"] == "file_staged" }.map do |event|
      event.merge("task" => names.fetch(event["task"]), "from" => nodes.fetch(event["from"]), "to" => nodes.fetch(event["to"]))
    end
  end

  def digest(*contents) = "#{Digest::SHA256.hexdigest(contents.join)}  -\n"
end
