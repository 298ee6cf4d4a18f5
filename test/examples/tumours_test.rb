# frozen_string_literal: true

require_relative "../support/workflow_case"

# examples/tumours: what was put into tumours alone is found, in as many parts of the genome as its index says; and what
# is said when a task fails. That Nextflow finds the same is seen by bench/engines_test.rb.
class TumoursExampleTest < WorkflowCase
  WORKFLOW = Workflow::TUMOURS
  SIZES = [2000, 2].freeze

  def test_what_tumours_alone_have_is_found_in_as_many_parts_as_there_are
    assert_equal read("simulated/data/truth.tsv"), report_of("rakuda")
    parts = %w[chr1:1-4000 chr1:4001-8000 chr1:8001-9000 chr2:1-4000 chr2:4001-6000 chr3:1-3000]
    assert_equal parts, parts_of("P1")
    assert_operator read("rakuda/results/samples/P1_tumour.dup")[/^DUPLICATE TOTAL: (\d+)/, 1].to_i, :>=, 2 * 2 * 200
    again, status = run_with("rakuda", fresh: false)
    assert_predicate status, :success?
    assert_empty again
  end

  def test_the_size_of_parts_is_a_parameter
    _, status = run_with("rakuda", "part=10000")
    assert_predicate status, :success?
    assert_equal %w[chr1:1-9000 chr2:1-6000 chr3:1-3000], parts_of("P2")
    assert_equal read("simulated/data/truth.tsv"), read("rakuda", WORKFLOW.report)
  end

  def test_a_lane_that_fails_is_named_and_the_other_patient_is_done
    printed, status = run_with("rakuda", "--failure", "continue") { |place| WORKFLOW.spoil(place) }
    assert_equal 1, status.exitstatus
    assert_match(/^results\/lanes\/P2_tumour_L2\.bam: failed after/, printed)
    refute_path_exists File.join(@directory, "rakuda/results/lanes/P2_tumour_L2.bam")
    assert_path_exists File.join(@directory, "rakuda/results/calls/P1.vcf")
  end

  private

  def parts_of(patient)
    Dir.children(File.join(@directory, "rakuda/results/parts", patient)).map { |name| File.basename(name, ".vcf") }.sort
  end
end
