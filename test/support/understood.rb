# frozen_string_literal: true

require "open3"
require "shellwords"

$LOAD_PATH.unshift(File.expand_path("../../lib", __dir__))
require "rakuda"
require "rakuda/bench/command"

# Whether a command line of the pages is one that its program takes: its options, their values, its first words. Nothing
# of it is done: `--help` behind it is answered when all before it is good.
class Understood
  ROOT = File.expand_path("../..", __dir__)
  # Brackets, dots and names in capitals stand for what the user writes: such a line is a form.
  FORM = /\[|\.\.\.|…|(?<![\w$:])[A-Z][A-Z_]*\d?(?![\w=])/

  # @param line [String] as a shell takes it, several commands and comments included
  # @return [Array<String>] what is wrong with it
  def faults(line)
    line.sub(/ +# .*/, "").split(/ (?:&&|\||>|<) /).filter_map do |command|
      words = Shellwords.split(command)
      fault = fault_of(words)
      "#{command}: #{fault}" if fault
    end
  end

  private

  def fault_of(words)
    case words.first
    when "rakuda" then fault_of_program(words)
    when "rakudactl" then words[1] == "bench" ? fault_of_bench(words.drop(2)) : fault_of_program(words)
    when "make" then ("the Makefile has no such target" unless File.read(File.join(ROOT, "Makefile")).match?(/^#{words[1]}:/))
    end
  end

  def fault_of_program(words)
    before, behind = words.slice_before("--").to_a
    before += words.include?("help") ? [] : ["--help"]
    output, status = Open3.capture2e({ "RAKEOPT" => nil }, File.join(ROOT, "bin", before.first), *before.drop(1), *behind)
    output.lines.first unless status.success?
  end

  def fault_of_bench(words)
    name, *rest = words
    return if name.nil?
    return "no such command" unless Rakuda::Bench::Command::COMMANDS.include?(name)

    options = Rakuda::Bench::Options.new(rest)
    works = Rakuda::Bench::Options::TAKEN.keys.select { |work| work.split.first == name }
    refusals = works.map { |work| refusal(options, work) }
    return refusals.first if works.any? && refusals.all?

    unknown = unknown_words(name, options)
    "unknown: #{unknown.join(", ")}" if unknown.any?
  rescue Rakuda::Bench::UsageError => e
    e.message
  end

  def refusal(options, work)
    options.check([work], takes_behind: true)
    nil
  rescue Rakuda::Bench::UsageError => e
    e.message
  end

  def unknown_words(name, options)
    known = Rakuda::Bench::Catalogue.all.map(&:name) + Rakuda::Bench::Catalogue::FAMILIES + Rakuda::Bench::Suites::NAMES
    words = %w[list help verify report diff predict].include?(name) ? [] : options.words
    engines = Rakuda::Bench::Engine::KNOWN.keys | Rakuda::Bench::MapReduce::Engines::ALL.keys
    words.grep_v(/\.json\z/) - known + (name == "emit" ? [] : (options[:engines] || []) - engines)
  end
end
