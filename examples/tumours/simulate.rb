# frozen_string_literal: true

# Makes data/genome.fa, samplesheet.csv and reads from both ends in data/, in the current directory. Each patient has a
# normal sample, read in one lane, and a tumour, read in two. Variants of the tumour alone are in data/truth.tsv; some
# more are in both. Every tenth pair of reads is there twice. The same arguments give the same files, but for what gzip
# notes in them.
#
# usage: ruby simulate.rb [READS] [PATIENTS]      default: 2000 pairs of reads in each lane, 2 patients

require "fileutils"
require "zlib"

READS, PATIENTS = [2000, 2].each_with_index.map { |default, i| ARGV[i] ? Integer(ARGV[i]) : default }
CHROMOSOMES = { "chr1" => 9000, "chr2" => 6000, "chr3" => 3000 }.freeze
READ = 100
INSERT = 300
APART = 600

random = Random.new(1)
letters = %w[A C G T]
genome = CHROMOSOMES.transform_values { |length| Array.new(length) { letters[random.rand(4)] }.join }

# Far from one another, and from the ends: every second place is of the tumour alone.
places = CHROMOSOMES.flat_map { |name, length| (APART...(length - APART)).step(APART).map { |place| [name, place] } }
change = lambda do |letters_of, name, place|
  letters_of[name][place] = letters[(letters.index(genome[name][place]) + 1) % 4]
end

lane = lambda do |name, letters_of|
  files = [1, 2].map { |side| "data/#{name}_#{side}.fastq.gz" }
  sides = files.map { |file| Zlib::GzipWriter.open(file) }
  READS.times do |number|
    chromosome = CHROMOSOMES.keys[random.rand(CHROMOSOMES.size)]
    piece = letters_of[chromosome][random.rand(CHROMOSOMES[chromosome] - INSERT), INSERT]
    ends = [piece[0, READ], piece[-READ, READ].reverse.tr("ACGT", "TGCA")]
    (number % 10 == 9 ? 2 : 1).times do |copy|
      sides.zip(ends) { |side, read| side.puts "@#{name}.#{number}.#{copy}", read, "+", "I" * READ }
    end
  end
  sides.each(&:close)
  files
end

FileUtils.mkdir_p("data")
File.write("data/genome.fa", genome.map { |name, text| ">#{name}\n#{text.scan(/.{1,60}/).join("\n")}\n" }.join)
rows = []
truth = []
PATIENTS.times do |number|
  patient = "P#{number + 1}"
  normal = genome.transform_values(&:dup)
  places.each_slice(2) { |(name, place),| change.call(normal, name, place + number) }
  tumour = normal.transform_values(&:dup)
  places.each_slice(2).filter_map(&:last).select.with_index { |_, i| i.odd? == number.odd? }.each do |name, place|
    change.call(tumour, name, place)
    truth << [patient, name, place + 1, genome[name][place], tumour[name][place]]
  end
  [["normal", normal, 1], ["tumour", tumour, 2]].each do |status, letters_of, lanes|
    lanes.times { |n| rows << [patient, status, "L#{n + 1}", *lane.call("#{patient}_#{status}_L#{n + 1}", letters_of)] }
  end
end
File.write("data/truth.tsv", truth.map { |line| "#{line.join("\t")}\n" }.join)
File.write("samplesheet.csv", "patient,status,lane,fastq_1,fastq_2\n#{rows.map { |row| "#{row.join(",")}\n" }.join}")
