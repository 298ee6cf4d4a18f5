# frozen_string_literal: true

require "fileutils"
require "open3"
require "shellwords"
require "tmpdir"

# One file of test/parity: a Rakefile whose "#:" lines say which files it needs and how it is run. Runs it with a
# command in a fresh folder and gives back all that can be seen.
class ParityCase
  ROOT = File.expand_path("../..", __dir__)
  RAKUDA = File.join(ROOT, "bin", "rakuda")

  PLAN = /(?:^\S+: \S.*\n)*^\d+ of \d+ tasks would run\n(?:^estimate: .*\n)*\z/.freeze
  # What the engine says at the end of a run that failed, which rake does not: from its first line to its last.
  FAILURE_BLOCK = /^== rakuda: [^\n]+ ==\n.*?^to resume: [^\n]*\n/m.freeze

  # Why a list of tasks is empty, of which rake says nothing.
  NOTHING_LISTED = /^rakuda: (?:no task|the Rakefile defines no task)[^\n]*\n/.freeze

  # What is said of a rule that applies to what nobody can make, of which rake says nothing.
  RULE = /^Rakefile:\d+: the rule applies to [^\n]*\n/.freeze

  # @return [Array<ParityCase>]
  def self.all
    Dir[File.join(ROOT, "test", "parity", "*.rake")].map { |path| new(path) }
  end

  # What rake does; run once for all engines.
  def self.rake_result(parity_case)
    (@rake_results ||= {})[parity_case.name] ||= parity_case.run(["rake"], Engines::COMMON)
  end

  attr_reader :name

  def initialize(path)
    @path = path
    @name = File.basename(path, ".rake")
    @directives = File.readlines(path, encoding: "UTF-8").grep(/^#: /).map { |line| line[3..].chomp.split(" ", 2) }
  end

  # Runs all steps.
  # @param command [Array<String>]
  # @return [Array] [stdout, stderr, status] of each run, then the files that are left
  def run(command, environment)
    Dir.mktmpdir("parity") do |outer|
      folder = File.join(outer, "work")
      Dir.mkdir(folder)
      prepare(folder)
      results = @directives.filter_map { |verb, rest| step(folder, command, environment, verb, rest) }
      normalise(results + [left_over(folder)], outer)
    end
  end

  private

  def prepare(folder)
    FileUtils.cp(@path, File.join(folder, "Rakefile"))
    @stdin = ""
    @inside = "."
    # Prerequisites are older than all that a run makes.
    at = Time.now - 1000
    @directives.each do |verb, rest|
      next unless verb == "file"

      name, content = rest.split(" ", 2)
      path = File.join(folder, name)
      FileUtils.mkdir_p(File.dirname(path))
      File.write(path, "#{content}\n")
      File.utime(at, at, path)
    end
  end

  def step(folder, command, environment, verb, rest)
    case verb
    when "remove" then File.delete(File.join(folder, rest))
    # Later than all that a run has just made: its files are stamped by a clock that ticks some hundred times a second.
    when "touch" then FileUtils.touch(File.join(folder, rest), mtime: Time.now)
    when "in" then @inside = rest
    when "stdin" then @stdin = "#{rest}\n"
    when "run"
      words = command + ["-j1"] + Shellwords.split((rest || "").gsub("\\,", "\\\\\\\\,"))
      # The limit only turns a hang into a failure.
      out, err, status = Open3.capture3(environment, "timeout", "-s", "KILL", ENV.fetch("RAKUDA_TEST_LIMIT", "60"), *words,
                                        chdir: File.join(folder, @inside), stdin_data: @stdin)
      # A dry run of ours ends with the plan, of which rake has nothing.
      out = out.sub(PLAN, "") if words.include?("-n") && command != ["rake"]
      err = err.b.sub(FAILURE_BLOCK, "") unless status.success?
      err = err.sub(NOTHING_LISTED, "").gsub(RULE, "") if command != ["rake"]
      return [out, err, status.exitstatus]
    end
    nil
  end

  def left_over(folder)
    Dir.glob("**/*", File::FNM_DOTMATCH, base: folder).reject { |path| path.match?(%r{(?:\A|/)\.}) }.sort
  end

  # Rake's name, and nothing of where gems and folders are.
  def normalise(value, folder)
    case value
    when Array then value.map { |item| normalise(item, folder) }
    when String
      text = value.dup.force_encoding("UTF-8").scrub.gsub(folder, "DIR")
      # Where nothing is left of a backtrace rake prints an empty line, but not as Debian 13 has it, which prints its
      # starter's. Before the name is replaced: the checkout itself may well be called rakuda. Ruby's own methods that
      # are written in Ruby stand in whole backtraces, by version, where rake does not call them.
      text.lines.grep_v(%r{\A(?:/usr/|<internal:|#{Regexp.quote(ROOT)})}).join.gsub("rakuda", "rake")
          .gsub(/\n\n(?=Tasks: |\(See full trace )/, "\n")
    else value
    end
  end
end
