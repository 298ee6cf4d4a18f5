# frozen_string_literal: true

require_relative "../support/workflow_case"

# examples/reads: samples of several lanes and of one end or both, with the last tenth of each read cut off. That
# Nextflow makes the same is seen by bench/engines_test.rb.
class ReadsExampleTest < WorkflowCase
  WORKFLOW = Workflow::READS
  SIZES = [50, 2].freeze

  def test_lanes_are_put_together_and_what_is_bad_is_cut_off
    rows = report_of("rakuda").lines.map { |line| line.split("\t") }
    bases = { "A_1" => 2 * 50 * 100, "A_1.trimmed" => 2 * 50 * 90, "A_2" => 2 * 50 * 100, "A_2.trimmed" => 2 * 50 * 90,
              "B_1" => 50 * 100, "B_1.trimmed" => 50 * 90 }
    assert_equal(bases, rows.to_h { |name, count,| [name, count.to_i] })
    qualities = rows.to_h { |name, _, quality| [name, quality.to_f] }
    assert_equal [40.0], qualities.values_at("A_1.trimmed", "A_2.trimmed", "B_1.trimmed").uniq
    assert_in_delta 0.9 * 40 + 0.1 * 2, qualities["B_1"]
    assert_match(/\Aseqtk: \d/, read("rakuda/results/pipeline_info/versions.yml"))
    again, status = run_with("rakuda", fresh: false)
    assert_predicate status, :success?
    assert_empty again
  end

  def test_parameters_leave_the_trimming_out_and_give_it_other_options
    _, status = run_with("rakuda", "skip_trim=1")
    assert_predicate status, :success?
    assert_equal %w[A_1 A_2 B_1], read("rakuda", WORKFLOW.report).scan(/^\S+/)
    _, status = run_with("rakuda", "trim_args=-e 60")
    assert_predicate status, :success?
    assert_equal (50 * 40).to_s, read("rakuda", WORKFLOW.report)[/^B_1\.trimmed\t(\d+)/, 1]
  end

  def test_half_a_file_fails_and_is_tried_with_more_memory
    printed, status = run_with("rakuda", "--failure", "continue") { |place| WORKFLOW.spoil(place) }
    assert_equal 1, status.exitstatus
    assert_match(/^results\/fq\/B_1\.trimmed\.fastq\.gz: failed after .*\(attempt 2 of 2\)/, printed)
    assert_includes printed, "gzip: results/fq/B_1.fastq.gz: unexpected end of file"
    refute_path_exists File.join(@directory, "rakuda/results/fq/B_1.trimmed.fastq.gz")
    assert_path_exists File.join(@directory, "rakuda/results/fqchk/A_2.trimmed.txt")
  end
end
