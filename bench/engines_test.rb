# frozen_string_literal: true

require_relative "../test/support/workflow_case"

# The examples that stand in the repository for other engines, too, are run by these, and come out as Rakuda has them.
# Called by `make test-engines`, which installs the engines: they are no part of `make test`.
class EnginesTest < Minitest::Test
  # What each engine makes of an example.
  module Compared
    def test_all_engines_make_the_same_report
      reports = self.class::WORKFLOW.engines.to_h { |engine| [engine, report_of(engine)] }
      assert_equal 1, reports.values.uniq.size, reports
      refute_empty reports.values.first
    end

    def test_all_engines_fail_where_a_task_does
      self.class::WORKFLOW.engines.each do |engine|
        printed, status = run_with(engine) { |place| self.class::WORKFLOW.spoil(place) }
        refute_predicate status, :success?, "#{engine}: #{printed}"
      end
    end
  end

  class Genome < WorkflowCase
    include Compared
    WORKFLOW = Workflow::GENOME
    SIZES = [1000, 2].freeze
  end

  class Reads < WorkflowCase
    include Compared
    WORKFLOW = Workflow::READS
    SIZES = [50, 2].freeze
  end

  class Tumours < WorkflowCase
    include Compared
    WORKFLOW = Workflow::TUMOURS
    SIZES = [1500, 2].freeze
  end

  # The workflow of the pages for those who come from Snakemake and Nextflow, with the summary that the page shows.
  # Rakuda's half of them is followed by test/walkthrough_test.rb.
  SUMMARY = { "snakemake" => ["Snakefile", "summary.txt"], "nextflow" => ["main.nf", "results/summary.txt"] }.freeze

  SUMMARY.each do |engine, (description, summary)|
    define_method("test_#{engine}_makes_the_summary_of_its_page") do
      command = Workflow.commands[engine] || flunk("#{engine} is not there: make bench-engines installs it")
      page = File.read(File.join(Workflow::ROOT, "docs/guide/coming-from-#{engine}.md"))
      Dir.mktmpdir("rakuda-words") do |folder|
        page.scan(/^<!-- file: (texts\S+) -->\n\n {4}(.*)$/) { |name, text| write(File.join(folder, name), "#{text}\n") }
        FileUtils.cp(File.join(Workflow::ROOT, "examples/words", description), folder)
        printed, status = Open3.capture2e(Workflow.environment(folder), *command, chdir: folder, stdin_data: "")
        assert_predicate status, :success?, printed
        shown = page[/^ {4}\$ cat #{Regexp.quote(summary)}\n {4}(.*)$/, 1]
        assert_equal "#{shown}\n", File.read(File.join(folder, summary)).delete(" ")
      end
    end
  end

  private

  def write(path, text)
    FileUtils.mkdir_p(File.dirname(path))
    File.write(path, text)
  end
end
