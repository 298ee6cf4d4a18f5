# frozen_string_literal: true

require "fileutils"
require "minitest/autorun"
require "open3"
require "tmpdir"
require_relative "../../bench/lib/genome"

# The workflow of the pages for those who come from Snakemake and Nextflow: the other engine makes of its description what
# the page says that Rakuda makes. That Rakuda does so is seen by walkthrough_test.rb.
class WordsExampleTest < Minitest::Test
  ROOT = File.expand_path("../..", __dir__)
  SUMMARY = { "snakemake" => "summary.txt", "nextflow" => "results/summary.txt" }.freeze

  def setup
    @directory = Dir.mktmpdir("rakuda-words")
  end

  def teardown
    FileUtils.remove_entry(@directory)
  end

  SUMMARY.each do |engine, summary|
    define_method("test_#{engine}_makes_the_same_summary") do
      command = Genome.commands[engine]
      next puts("#{engine} is not there: make bench-engines installs it") unless command

      page = File.read(File.join(ROOT, "docs/guide/coming-from-#{engine}.md"))
      page.scan(/^<!-- file: (texts\S+) -->\n\n {4}(.*)$/) { |name, text| write(name, "#{text}\n") }
      FileUtils.cp(File.join(ROOT, "examples/words", Genome::DESCRIPTION.fetch(engine)), @directory)
      printed, status = Open3.capture2e(Genome.environment(@directory), *command, chdir: @directory, stdin_data: "")
      assert_predicate status, :success?, printed
      shown = page[/^ {4}\$ cat #{Regexp.quote(summary)}\n {4}(.*)$/, 1]
      assert_equal "#{shown}\n", File.read(File.join(@directory, summary)).delete(" ")
    end
  end

  private

  def write(name, text)
    path = File.join(@directory, name)
    FileUtils.mkdir_p(File.dirname(path))
    File.write(path, text)
  end
end
