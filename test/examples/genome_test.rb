# frozen_string_literal: true

require "minitest/autorun"
require "open3"
require "tmpdir"
require_relative "../../bench/lib/genome"

# examples/genome: what is found is what was put in, also by the other engines that are there; and what is said when a
# task fails.
class GenomeExampleTest < Minitest::Test
  def setup
    assert_empty Genome.missing_tools, "tools/setup examples/genome/packages.apt installs them"
    @directory = Dir.mktmpdir("rakuda-genome")
    Genome.simulate(@directory, 1000, 2)
  end

  def teardown
    FileUtils.remove_entry(@directory)
  end

  def test_all_engines_that_are_there_find_what_was_put_in
    absent = Genome::DESCRIPTION.keys - Genome.commands.keys
    puts "not compared with #{absent.join(" and ")}: make bench-engines installs them" unless absent.empty?
    reports = Genome.commands.keys.map do |name|
      printed, status = run_with(name)
      assert_predicate status, :success?, "#{name}: #{printed}"
      File.read(File.join(@directory, name, "report.txt"))
    end
    assert_equal 1, reports.uniq.size
    mapped, found = reports.first.split("variants\n")
    assert_equal 2, mapped.scan(/^stats\/[AB]\.txt:1000 \+ 0 mapped/).size
    assert_equal File.read(File.join(@directory, "data/truth.txt")), found
    again, status = run_with("rakuda", fresh: false)
    assert_predicate status, :success?
    assert_empty again
  end

  def test_a_failure_names_the_command_and_what_it_printed
    printed, status = run_with("rakuda") { |place| FileUtils.rm(File.join(place, "data/genome.fa.bwt")) }
    assert_equal 1, status.exitstatus
    assert_match(/^mapped_reads\/[AB]\.bam: failed after/, printed)
    assert_includes printed, "fail to locate the index files"
    assert_match(/^  not run because of it: .*calls\/all\.vcf/, printed)
  end

  private

  def run_with(name, fresh: true)
    place = File.join(@directory, name)
    Genome.lay_out(place, name, @directory) if fresh
    yield place if block_given?
    Open3.capture2e(Genome.environment(place), *Genome.commands[name], chdir: place, stdin_data: "")
  end
end
