# frozen_string_literal: true

require_relative "../support/workflow_case"

# examples/genome: what is found is what was put in; and what is said when a task fails. That other engines find the
# same is seen by bench/engines_test.rb.
class GenomeExampleTest < WorkflowCase
  WORKFLOW = Workflow::GENOME
  SIZES = [1000, 2].freeze

  def test_what_was_put_in_is_found_and_not_looked_for_again
    mapped, found = report_of("rakuda").split("variants\n")
    assert_equal 2, mapped.scan(/^stats\/[AB]\.txt:1000 \+ 0 mapped/).size
    assert_equal read("simulated/data/truth.txt"), found
    again, status = run_with("rakuda", fresh: false)
    assert_predicate status, :success?
    assert_empty again
  end

  def test_a_failure_names_the_command_and_what_it_printed
    printed, status = run_with("rakuda") { |place| WORKFLOW.spoil(place) }
    assert_equal 1, status.exitstatus
    assert_match(/^mapped_reads\/[AB]\.bam: failed after/, printed)
    assert_includes printed, "fail to locate the index files"
    assert_match(/^  not run because of it: .*calls\/all\.vcf/, printed)
  end
end
