# frozen_string_literal: true

# Makes data/genome.fa with its index, and reads of samples that differ from it at known places (data/truth.txt), in the
# current directory. The same arguments give the same files.
#
# usage: ruby simulate.rb [READS] [SAMPLES]      default: 2000 reads for each of 3 samples

require "fileutils"

READS, SAMPLES = [2000, 3].each_with_index.map { |default, i| ARGV[i] ? Integer(ARGV[i]) : default }
LENGTH = 20_000
READ = 100
VARIANTS = 10

random = Random.new(1)
letters = %w[A C G T]
genome = Array.new(LENGTH) { letters[random.rand(4)] }.join
# Far from one another, and from the ends.
variants = Array.new(VARIANTS) { |i| ((i + 1) * LENGTH / (VARIANTS + 1)) + random.rand(100) }
changed = genome.dup
variants.each { |place| changed[place] = letters[(letters.index(genome[place]) + 1) % 4] }

FileUtils.mkdir_p("data/samples")
File.write("data/genome.fa", ">chrI\n#{genome.scan(/.{1,60}/).join("\n")}\n")
File.write("data/truth.txt", variants.map { |place| "#{place + 1} #{genome[place]} #{changed[place]}\n" }.join)
SAMPLES.times do |number|
  name = ("A".ord + number).chr
  File.open("data/samples/#{name}.fastq", "w") do |file|
    READS.times do |read|
      file.puts "@#{name}#{read}", changed[random.rand(LENGTH - READ), READ], "+", "I" * READ
    end
  end
end
system("bwa index data/genome.fa", %i[out err] => File::NULL, exception: true)
