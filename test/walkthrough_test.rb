# frozen_string_literal: true

require "fileutils"
require "minitest/autorun"
require "open3"
require "tmpdir"
require_relative "support/terminal"

# Pages that a newcomer follows are followed here, to the letter: files are written, commands run on a terminal, and what
# they print is compared with the page. Marks in the pages, which readers do not see:
#
#   <!-- folder -->        an empty folder begins
#   <!-- in NAME -->       what follows is in the folder NAME below it
#   <!-- setup             the lines up to --> are run by the shell: what the page takes as given
#   <!-- file: NAME -->    the next indented block is that file
#   <!-- status: N -->     the last command of the next block ends so
#   <!-- labels -->        of what the next block prints only what lines begin with is compared, before its table
#   <!-- not run -->       the next block is not run
#
# A block with lines that begin with `$ ` is run. A line `...` stands for any lines; without it, lines are compared in any
# order, since tasks run side by side. Times, names of runs and of this machine are not compared. A command that names a
# run of the page, by its beginning or as ID, is about the run in its place.
class WalkthroughTest < Minitest::Test
  ROOT = File.expand_path("..", __dir__)
  GUIDE = %w[primer getting-started what-happened failures-and-resume coming-from-snakemake coming-from-nextflow].freeze
  PAGES = ["README.md", *GUIDE.map { |name| "docs/guide/#{name}.md" }].freeze
  MARK = /\A<!-- (?<word>folder|in|file:|status:|labels|not run)(?: (?<value>\S+))? -->\z/
  RUN = /\b\d{8}-\d{6}\.\d{3}-\d+\b/

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
        @top = @folder = folder
        begin_folder
        each_block { |mark, block, place| run(mark, block, place) }
      end
      @test.assert_operator @commands, :>, 0, "#{@page} has no command"
    end

    private

    # Indented blocks, with the mark above each. Marks that stand for themselves are heeded on the way.
    def each_block
      mark = nil
      number = 0
      while (line = @lines[number])
        if line == "<!-- setup"
          script = @lines[number + 1..].take_while { |one| one != "-->" }
          set_up(script, number + 1)
          number += script.size + 1
        elsif (found = line.match(MARK))
          case found[:word]
          when "folder" then begin_folder
          when "in" then FileUtils.mkdir_p(@folder = File.join(@top, found[:value]))
          else mark = found
          end
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

    def begin_folder
      @folder = @top
      FileUtils.rm_rf(Dir.children(@top).map { |name| File.join(@top, name) })
      @runs = {} # as the page calls them, and as they are called here
    end

    def set_up(script, place)
      output, status = Open3.capture2e(environment, "sh", "-eu", stdin_data: "#{script.join("\n")}\n", chdir: @folder)
      @test.assert status.success?, "#{@page}:#{place}: setup\n#{output}"
    end

    def run(mark, block, place)
      word, value = mark && mark[:word], mark && mark[:value]
      return if word == "not run"
      return write(value, block) if word == "file:"
      return unless block.first.start_with?("$ ")

      asked = block.slice_before { |line| line.start_with?("$ ") }.to_a
      asked.each_with_index do |(command, *lines), index|
        status = index == asked.size - 1 && word == "status:" ? value.to_i : 0
        here = "#{@page}:#{place}: #{command}"
        printed = printed_by(command.delete_prefix("$ "), status, here)
        word == "labels" ? compare_labels(lines, printed, here) : compare(lines, printed, here)
      end
    end

    def write(name, block)
      path = File.join(@folder, name)
      FileUtils.mkdir_p(File.dirname(path))
      File.write(path, "#{block.join("\n")}\n")
    end

    def environment
      { "PATH" => "#{ROOT}/bin:#{ENV.fetch("PATH")}", "XDG_CONFIG_HOME" => File.join(@top, ".config") }
    end

    def printed_by(command, status, place)
      @commands += 1
      terminal = Terminal.run("sh", "-c", with_runs(command), columns: 400, environment: environment, directory: @folder,
                                                              input: File::NULL)
      printed = terminal.lines.join("\n").rstrip
      @test.assert_equal status, terminal.status.exitstatus, "#{place}\n#{printed}"
      printed.lines(chomp: true)
    end

    # The command as it has to be here: the page's runs have other names.
    def with_runs(command)
      command = command.gsub(/\b\d{8}-\d{6}[\d.-]*/) do |name|
        meant = @runs.keys.select { |run| run.start_with?(name) }
        @test.assert_equal 1, meant.size, "#{@page}: #{command}: the page names #{meant.size} runs that begin so"
        @runs.fetch(meant.first)
      end
      command.include?("/ID/") ? command.gsub("/ID/", "/#{Dir.children(File.join(@folder, ".rakuda/runs")).max}/") : command
    end

    def compare(expected, printed, place)
      remember(expected, printed)
      place = "#{place}\nprinted:\n#{printed.join("\n")}"
      expected, printed = [expected, printed].map { |lines| lines.map { |line| plain(line) } }
      return @test.assert_equal(expected.sort, printed.sort, place) unless expected.any?(/\.\.\./)

      pattern = expected.map do |line|
        line.strip == "..." ? "(?:.*\n)*?" : "#{Regexp.escape(line).gsub("\\.\\.\\.", ".*")}\n"
      end.join
      @test.assert_match(/\A#{pattern}\z/, printed.map { |line| "#{line}\n" }.join, place)
    end

    def remember(expected, printed)
      names = [expected, printed].map { |lines| lines.join("\n").scan(RUN).uniq }
      names.first.zip(names.last) { |ours, theirs| @runs[ours] ||= theirs if theirs }
    end

    # The page shows a larger run than the one that is asked here.
    def compare_labels(expected, printed, place)
      names = [expected, printed].map { |lines| lines.take_while { |line| !line.start_with?("rule ") } }
                                 .map { |lines| lines.grep(/\S {2,}\S/).map { |line| line[/\A.+?(?= {2,})/] } }
      @test.refute_empty names.first, place
      @test.assert_empty names.first - names.last, "#{place}\nprinted:\n#{printed.join("\n")}"
    end

    # Without what differs from call to call.
    def plain(line)
      line = line.sub(%r{, [\d.]+/s(, (at least|about) .*? left)?}, "") # how fast it goes
      line = line.sub(/(?<=; made )[^;]+/) { |names| names.split(", ").sort.join(", ") }
      line.gsub(RUN, "RUN").gsub(/\d{4}-\d\d-\d\d/, "DATE").gsub(/\d\d:\d\d:\d\d(\.\d+)?/, "TIME").gsub(/\+\d+\.\d{3}/, "+S")
          .gsub(/\d[\d.]* (?:ns|µs|us|ms|s|min|k?B|MB|[KMG]iB)\b/, "N").gsub(/ on \S+( with|$)/, ' on HOST\1').gsub(/ {2,}/, "  ")
          .gsub(/\b\d+\.\d\d(?= |$)/, "RATIO").sub(/  (within scatter|slower|faster|too few)$/, "  VERDICT")
          .gsub(/\b\d+ cores?\b/, "N cores").sub(", memory N", "").rstrip # of a short command it is not always known
    end
  end
end
