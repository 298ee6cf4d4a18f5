# frozen_string_literal: true

require "digest"

# Runs whose hosts share no file system, wherever the hosts are: inputs, a workflow that reads them, what its tasks have
# noted, and which file went where. A case says how files are written (`write`), which events the last run has
# (`journal`), and in which folder tasks note something (@notes). It tests nothing.
module StagedFiles
  # Eight parts of four inputs, and a digest of all.
  # @param host [String] words of a shell that are the name of a task's host
  # @return [String] the Rakefile
  def self.parts(host)
    <<~RUBY
      parts = (0..7).map { |number| "out/\#{number}" }
      directory "out"
      task default: "result"
      parts.each_with_index do |part, number|
        file part => ["in/0", "in/\#{1 + number % 3}", "out"] do |t|
          sh "cat \#{t.sources.grep(%r{in/}).join(' ')} > \#{t.name}; echo \#{t.name} #{host} >> \#{ENV.fetch('NOTES')}/log"
        end
      end
      file("result" => parts) { |t| sh "cat \#{t.sources.join(' ')} | sha256sum > \#{t.name}" }
    RUBY
  end

  # @param contents [Hash{String => String}] of {#inputs}
  # @return [String] the `result` of {.parts}
  def digest_of_parts(contents)
    digest(*(0..7).flat_map { |number| contents.values_at("in/0", "in/#{1 + (number % 3)}") })
  end

  # Makes in/0, in/1, ... of this size in bytes; returns their contents.
  def inputs(count, bytes)
    random = Random.new(1)
    (0...count).to_h do |number|
      content = random.bytes(bytes).unpack1("H*")[0, bytes]
      write("in/#{number}", content)
      ["in/#{number}", content]
    end
  end

  # What tasks have noted: lines of `words`.
  def notes(file = "log")
    path = File.join(@notes, file)
    File.exist?(path) ? File.readlines(path, chomp: true).map(&:split) : []
  end

  # The transfers of the last run: [file, from, to], with names of nodes; the machine of `rakuda` is `home`.
  def transfers = staged.map { |event| event.values_at("task", "from", "to") }

  # The events `file_staged` of the last run, with names for numbers.
  def staged
    events = journal
    names = task_names(events)
    nodes = events.select { |event| event["event"] == "node_joined" }.to_h { |event| event.values_at("node", "name") }
    nodes[0] = "home"
    events.select { |event| event["event"] == "file_staged" }.map do |event|
      event.merge("task" => names.fetch(event["task"]), "from" => nodes.fetch(event["from"]), "to" => nodes.fetch(event["to"]))
    end
  end

  def task_names(events)
    events.select { |event| event["event"] == "task_defined" }.to_h { |event| event.values_at("task", "name") }
  end

  def digest(*contents) = "#{Digest::SHA256.hexdigest(contents.join)}  -\n"
end
