# frozen_string_literal: true

# The homology search of the benchmarks homology and homology-io, as `rakudactl bench` runs it: reads in chunks, each
# searched in each chunk of the database, hits merged by read. HOMOLOGY names the program of the tasks; the rest are
# numbers. With PERCENT the aligner is real (diamond), so many percent of the amino acids of a read are replaced, and one
# table holds all hits of a pair.

READS, READ_CHUNKS, SUBJECTS, DATABASE_CHUNKS, REDUCERS =
  %w[READS READ_CHUNKS SUBJECTS DATABASE_CHUNKS REDUCERS].map { |name| Integer(ENV.fetch(name)) }
HOMOLOGY = ENV.fetch("HOMOLOGY")
PERCENT = ENV.fetch("PERCENT", nil)
# Of a subject.
LETTERS = 300
READS_EACH = (READS.to_f / READ_CHUNKS).ceil
SUBJECTS_EACH = (SUBJECTS.to_f / DATABASE_CHUNKS).ceil

READ_FILES = Array.new(READ_CHUNKS) { |i| format("reads_%04d.fasta", i) }
DATABASE_FILES = Array.new(DATABASE_CHUNKS) { |i| format("database_%04d.fasta", i) }
OUTPUTS = Array.new(REDUCERS) { |i| "best.#{i}" }

multitask inputs: READ_FILES + DATABASE_FILES
multitask best: OUTPUTS
task(check: :best) do
  next sh(HOMOLOGY, "recall", READS.to_s, SUBJECTS.to_s, PERCENT, "99", *OUTPUTS) if PERCENT

  sh HOMOLOGY, "check", READS.to_s, SUBJECTS.to_s, SUBJECTS_EACH.to_s, REDUCERS.to_s, *OUTPUTS
end
task default: :check

READ_FILES.each_with_index do |name, i|
  first = i * READS_EACH
  words = [name, first.to_s, [READS_EACH, READS - first].min.to_s]
  file(name) { sh HOMOLOGY, *(PERCENT ? ["homologs", *words, SUBJECTS.to_s, PERCENT] : ["queries", *words]) }
end
DATABASE_FILES.each_with_index do |name, i|
  first = i * SUBJECTS_EACH
  file(name) { sh HOMOLOGY, "database", name, first.to_s, [SUBJECTS_EACH, SUBJECTS - first].min.to_s }
end

hits = Hash.new { |hash, reducer| hash[reducer] = [] }
if PERCENT
  DATABASE_FILES.each { |name| file(name.ext("dmnd") => name) { |t| sh HOMOLOGY, "format", name, t.name } }
  READ_FILES.each_with_index do |reads, i|
    DATABASE_FILES.each do |database|
      table = "hits_#{reads[/\d+/]}_#{database[/\d+/]}.tsv"
      # A reducer gets whole chunks of reads.
      hits[i % REDUCERS] << table
      file(table => [reads, database.ext("dmnd")]) do
        sh HOMOLOGY, "align", reads, database.ext("dmnd"), (SUBJECTS * LETTERS).to_s, table
      end
    end
  end
end
(PERCENT ? [] : READ_FILES.product(DATABASE_FILES)).each do |reads, database|
  prefix = "hits_#{reads[/\d+/]}_#{database[/\d+/]}"
  files = Array.new(REDUCERS) { |i| "#{prefix}.#{i}" }
  files.each_with_index { |name, i| hits[i] << name }
  needs outputs: files.drop(1) if files.size > 1
  file(files.first => [reads, database]) { sh HOMOLOGY, "map", reads, database, REDUCERS.to_s, prefix }
  files.drop(1).each { |name| file(name => files.first) }
end
OUTPUTS.each_with_index { |name, i| file(name => hits[i]) { sh HOMOLOGY, PERCENT ? "merge" : "reduce", name, *hits[i] } }
