# frozen_string_literal: true

# Makes samplesheet.csv and reads of samples in data/, in the current directory: each read has 100 letters, the last 10
# of which are good for nothing. Sample A was read in two lanes and from both ends, the others in one lane and from one
# end. The same arguments give the same files, but for what gzip notes in them.
#
# usage: ruby simulate.rb [READS] [SAMPLES]      default: 2000 reads in each file, 3 samples

require "fileutils"
require "zlib"

READS, SAMPLES = [2000, 3].each_with_index.map { |default, i| ARGV[i] ? Integer(ARGV[i]) : default }
GOOD = 90
BAD = 10
QUALITY = ("I" * GOOD) + ("#" * BAD)

random = Random.new(1)
fastq = lambda do |name|
  Zlib::GzipWriter.open("data/#{name}.fastq.gz") do |file|
    READS.times { |read| file.puts "@#{name}.#{read}", Array.new(GOOD + BAD) { "ACGT"[random.rand(4)] }.join, "+", QUALITY }
  end
  "data/#{name}.fastq.gz"
end

FileUtils.mkdir_p("data")
rows = %w[L1 L2].map { |lane| ["A", fastq.call("A_#{lane}_1"), fastq.call("A_#{lane}_2")] }
rows += Array.new(SAMPLES - 1) { |number| ("B".ord + number).chr }.map { |sample| [sample, fastq.call(sample), nil] }
File.write("samplesheet.csv", "sample,fastq_1,fastq_2\n#{rows.map { |row| "#{row.join(",")}\n" }.join}")
