# frozen_string_literal: true

require_relative "example_helper"
require "zlib"

# examples/homology: the hits do not depend on the number of parts, and a lost hit is found.
class HomologyExampleTest < ExampleTest
  SAMPLE = "/usr/share/doc/mmseqs2/example-data"
  COMMANDS = /\blast(al|db) /

  # Forty real queries against two thousand real proteins.
  def setup
    super
    sample("QUERY.fasta.gz", 40, "queries.fasta")
    sample("DB.fasta.gz", 2000, "database.fasta")
    @small = ["QUERIES=#{path('queries.fasta')}", "DATABASE=#{path('database.fasta')}"]
  end

  def test_hits_do_not_depend_on_the_number_of_parts
    sums = [1, 7, 50].map do |parts|
      make_example("homology", "-j4", *@small, "PARTS=#{parts}")
      sha256("work/hits.tsv")
    end
    assert_equal 1, sums.uniq.size
    assert_operator File.readlines(path("work/hits.tsv")).size, :>, 20
  end

  def test_summary_counts_and_the_best_hit_is_the_strongest_and_a_second_run_does_nothing
    outcome = make_example("homology", "-j4", *@small, "PARTS=5")
    hits = File.readlines(path("work/hits.tsv"), chomp: true).map { |line| line.split("\t") }
    best = File.readlines(path("work/best.tsv"), chomp: true).drop(1).map { |line| line.split("\t") }
    assert_includes outcome.output, "40 queries, #{best.size} with hits, #{hits.size} hits, the same as without splitting"
    assert_equal hits.map(&:first).uniq, best.map(&:first)
    best.each do |query, _, _, _, bits|
      assert_equal hits.select { |hit| hit[0] == query }.map { |hit| hit[11].to_f }.max, bits.to_f
    end
    assert_empty half_written_files
    assert_second_run_does_nothing("homology", "-j4", *@small, "PARTS=5", commands: COMMANDS)
  end

  def test_a_lost_hit_is_found
    make_example("homology", "-j4", *@small, "PARTS=5")
    part = Dir.glob(path("work/hits/*.tsv")).max_by { |file| File.size(file) }
    change(part, File.readlines(part).drop(1).join)
    outcome = run_example("homology", "-j4", *@small, "PARTS=5")
    assert_equal 1, outcome.status, outcome.output
    assert_match(/split and unsplit search differ: 1 hits are missing, 0 are too many/, outcome.output)
  end

  def test_a_file_that_is_no_fasta_is_a_clear_error
    File.write(path("queries.fasta"), "no sequence\n")
    outcome = run_example("homology", "-j4", *@small)
    assert_equal 1, outcome.status, outcome.output
    assert_match(/queries\.fasta: not a FASTA file/, outcome.output)
    assert_empty half_written_files
  end

  private

  def sample(file, records, target)
    text = Zlib::GzipReader.open(File.join(SAMPLE, file), &:read)
    File.write(path(target), text.split(/^(?=>)/).first(records).join)
  end
end
