# frozen_string_literal: true

# The options of `rakuda` as data, from the table that the command itself reads them by: rake's, and those of
# lib/rakuda/command_line.rb. It knows no shell and no manual.

require "rakuda"

# All options.
class OptionTable
  # One option: its flags (`-f`, `--rakefile`), the name of its value or none, whether the value may be left out, what
  # it does, what the value is (CommandLine::VALUES), and whether it may be several of that (CommandLine::LISTS).
  Option = Struct.new(:flags, :value, :optional, :text, :kind, :list) do
    def long = flags.find { |flag| flag.start_with?("--") }

    def longs = flags.grep(/\A--/)

    def shorts = flags.grep(/\A-[^-]/)
  end

  HELP = ["--help", "-h", "-H", "Display this help message."].freeze

  # @return [Array<Option>] rake's
  def rake
    @rake ||= options(application.standard_rake_options + [HELP]).sort_by { |option| option.long.downcase }
  end

  # @return [Array<Option>] Rakuda's own
  def own
    @own ||= options(application.send(:rakuda_options))
  end

  # @return [Array<Option>]
  def all = own + rake

  private

  def application
    @application ||= Rakuda::Application.new.tap { |application| application.send(:set_default_options) }
  end

  def options(rows)
    rows.map do |row|
      words, texts = row.grep(String).partition { |word| word.match?(/\A-{1,2}[A-Za-z]/) }
      flags = words.map { |word| word[/\A--?[\w-]+/] }
      value = words.filter_map { |word| word[/\A--?[\w-]++[ =]?(.+)\z/, 1] }.first
      kind = flags.filter_map { |flag| Rakuda::CommandLine::VALUES[flag] }.first
      Option.new(flags, value&.delete("[]"), value&.start_with?("["), texts.join(" ").gsub(/\s+/, " "), kind,
                 (flags & Rakuda::CommandLine::LISTS).any?)
    end
  end
end
