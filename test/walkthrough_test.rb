# frozen_string_literal: true

require "fileutils"
require "minitest/autorun"
require "tmpdir"
require_relative "support/terminal"

# Pages that a newcomer follows are followed here, to the letter: files are written, commands run on a terminal, and what
# they print is compared with the page. Marks in the pages, which readers do not see:
#
#   <!-- folder -->        an empty folder begins
#   <!-- file: NAME -->    the next indented block is that file
#   <!-- status: N -->     the last command of the next block ends so
#   <!-- not run -->       the next block is not run
#
# A block with lines that begin with `$ ` is run. A line `...` stands for any lines; without it, lines are compared in any
# order, since tasks run side by side. Times, names of runs and of this machine are not compared.
class WalkthroughTest < Minitest::Test
  ROOT = File.expand_path("..", __dir__)
  PAGES = %w[README.md docs/guide/primer.md docs/guide/coming-from-snakemake.md docs/guide/coming-from-nextflow.md].freeze
  MARK = /\A<!-- (?:(folder)|file: (\S+)|status: (\d+)|(not run))? ?-->\z/

  PAGES.each do |page|
    define_method("test_#{page.gsub(/\W/, "_")}_can_be_followed") { Walk.new(self, page).follow }
  end

  # One page.
  class Walk
    def initialize(test, page)
      @test = test
      @page = page
      @lines = File.readlines(File.join(ROOT, page), chomp: true)
      @commands = 0
    end

    def follow
      Dir.mktmpdir("rakuda-walkthrough") do |folder|
        @folder = folder
        each_block { |mark, block, place| run(mark, block, place) }
      end
      @test.assert_operator @commands, :>, 0, "#{@page} has no command"
    end

    private

    # Indented blocks, with the mark above each.
    def each_block
      mark = nil
      number = 0
      while (line = @lines[number])
        if (found = line.match(MARK))
          clean if found[1]
          mark = found
        elsif line.start_with?("    ")
          block = @lines[number..].take_while { |one| one.start_with?("    ") || one.empty? }
          place = number + 1
          number += block.size - 1
          yield mark, block.map { |one| one.delete_prefix("    ") }.join("\n").rstrip.lines(chomp: true), place
          mark = nil
        end
        number += 1
      end
    end

    def clean
      FileUtils.rm_rf(Dir.children(@folder).map { |name| File.join(@folder, name) })
    end

    def run(mark, block, place)
      return if mark && mark[4]
      return write(mark[2], block) if mark && mark[2]
      return unless block.first.start_with?("$ ")

      expected = nil
      asked = block.slice_before { |line| line.start_with?("$ ") }.to_a
      asked.each_with_index do |(command, *lines), index|
        expected = index == asked.size - 1 && mark && mark[3] ? mark[3].to_i : 0
        check(command.delete_prefix("$ "), lines, expected, "#{@page}:#{place}: #{command}")
      end
    end

    def write(name, block)
      path = File.join(@folder, name)
      FileUtils.mkdir_p(File.dirname(path))
      File.write(path, "#{block.join("\n")}\n")
    end

    def check(command, lines, status, place)
      @commands += 1
      environment = { "PATH" => "#{ROOT}/bin:#{ENV.fetch("PATH")}", "XDG_CONFIG_HOME" => File.join(@folder, ".config") }
      terminal = Terminal.run("sh", "-c", command, columns: 400, environment: environment, directory: @folder, input: File::NULL)
      printed = terminal.lines.join("\n").rstrip.lines(chomp: true)
      @test.assert_equal status, terminal.status.exitstatus, "#{place}\n#{printed.join("\n")}"
      compare(lines.map { |line| plain(line) }, printed.map { |line| plain(line) }, "#{place}\nprinted:\n#{printed.join("\n")}")
    end

    def compare(expected, printed, place)
      return @test.assert_equal(expected.sort, printed.sort, place) unless expected.any?(/\.\.\./)

      pattern = expected.map { |line| line == "..." ? "(?:.*\n)*?" : "#{Regexp.escape(line).gsub("\\.\\.\\.", ".*")}\n" }.join
      @test.assert_match(/\A#{pattern}\z/, printed.map { |line| "#{line}\n" }.join, place)
    end

    # Without what differs from call to call.
    def plain(line)
      line = line.sub(/(?<=; made )[^;]+/) { |names| names.split(", ").sort.join(", ") }
      line.gsub(/\d{8}-\d{6}\.\d{3}-\d+/, "RUN").gsub(/\d\d:\d\d:\d\d(\.\d+)?/, "TIME").gsub(/\+\d+\.\d{3}/, "+S")
          .gsub(/\d[\d.]* (?:ns|µs|us|ms|s|min|k?B|MB)\b/, "N").gsub(/ on \S+( with|$)/, ' on HOST\1').gsub(/ {2,}/, "  ")
          .gsub(/\b\d+ cores?\b/, "N cores").sub(", memory N", "").rstrip # of a short command it is not always known
    end
  end
end
