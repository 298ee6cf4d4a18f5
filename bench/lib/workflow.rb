# frozen_string_literal: true

require "fileutils"

# A workflow of examples/ that several engines run, each with its own description of it, and how engines are called. It
# does not know what the workflows compute.
class Workflow
  ROOT = File.expand_path("../..", __dir__)
  ENGINES = File.join(ENV.fetch("CARGO_TARGET_DIR", File.join(ROOT, "target")), "engines")
  # What Nextflow's own starter opens of Java's modules, as far as a run on one machine needs it.
  OPENS = %w[lang io nio net util util.concurrent util.concurrent.locks util.concurrent.atomic util.regex nio.file.spi]
          .map { |name| "java.base/java.#{name}" }.push("java.base/sun.nio.ch", "java.base/sun.nio.fs")
          .map { |name| "--add-opens=#{name}=ALL-UNNAMED" }.freeze

  # @return [Hash{String => Array<String>}] the command of each engine that is there
  def self.commands
    found = { "rakuda" => [File.join(ROOT, "bin/rakuda"), "-q", "-j", "2"] }
    snakemake = File.join(ENGINES, "bin/snakemake")
    found["snakemake"] = [snakemake, "--cores", "2", "--quiet", "progress", "rules", "host"] if File.executable?(snakemake)
    jars = File.join(ENGINES, "nextflow")
    if File.directory?(jars)
      found["nextflow"] = ["java", *OPENS, "-cp", "#{jars}/*", "nextflow.cli.Launcher", "-q", "run", "main.nf", "-resume"]
    end
    found
  end

  # Nothing is looked for on the network.
  def self.environment(folder)
    { "NXF_OFFLINE" => "true", "NXF_HOME" => File.join(folder, ".nextflow-home"), "HOME" => folder }
  end

  # `engines` are those that have a description, `tools` programs that tasks start; `report` is the file that all of
  # them make equally, `defect` says what `spoil` does.
  attr_reader :name, :engines, :tools, :report, :defect

  # @param descriptions [Hash{String => Array<String>}] for each engine files and folders of the example
  # @param spoil [Proc] makes the data in a folder such that a task fails
  def initialize(name, descriptions, report:, tools: [], defect: nil, spoil: nil)
    @name = name
    @descriptions = descriptions
    @engines = descriptions.keys
    @tools = tools
    @report = report
    @defect = defect
    @spoil = spoil
  end

  # @return [Array<String>] programs that are not in PATH
  def missing_tools
    @tools.reject { |tool| ENV.fetch("PATH").split(":").any? { |folder| File.executable?(File.join(folder, tool)) } }
  end

  # Makes the data once in `folder`.
  def simulate(folder, *numbers)
    FileUtils.mkdir_p(folder)
    system("ruby", File.join(example, "simulate.rb"), *numbers.map(&:to_s), chdir: folder, exception: true)
  end

  # A folder for one engine: its description, and a copy of all that lies in `data`.
  def lay_out(folder, engine, data)
    FileUtils.mkdir_p(folder)
    @descriptions.fetch(engine).each { |name| FileUtils.cp_r(File.join(example, name), folder) }
    FileUtils.cp_r(File.join(data, "."), folder, preserve: true)
  end

  def spoil(folder) = @spoil.call(folder)

  # @return [Integer] lines of its description that are neither blank nor a comment alone
  def lines(engine)
    files = @descriptions.fetch(engine).flat_map { |name| Dir.glob(["#{example}/#{name}", "#{example}/#{name}/**/*"]) }
    files.select { |file| File.file?(file) }.sum do |file|
      File.readlines(file).count { |line| !line.match?(%r{\A\s*(#.*|//.*)?\s*\z}) }
    end
  end

  private

  def example = File.join(ROOT, "examples", @name)

  GENOME = new("genome", { "rakuda" => %w[Rakefile], "snakemake" => %w[Snakefile], "nextflow" => %w[main.nf] },
               report: "report.txt", tools: %w[bwa samtools bcftools], defect: "the index of the genome is missing",
               spoil: ->(folder) { File.delete(File.join(folder, "data/genome.fa.bwt")) })
  READS = new("reads", { "rakuda" => %w[Rakefile bin], "nextflow" => %w[main.nf nextflow.config modules bin] },
              report: "results/summary.tsv", tools: %w[seqtk], defect: "the second half of a sample's reads is missing",
              spoil: lambda { |folder|
                reads = File.join(folder, "data/B.fastq.gz")
                File.truncate(reads, File.size(reads) / 2)
              })
  TUMOURS = new("tumours", { "rakuda" => %w[Rakefile bin], "nextflow" => %w[main.nf nextflow.config modules bin] },
                report: "results/somatic.tsv", tools: %w[bwa samtools bcftools],
                defect: "the second half of a lane's reads is missing",
                spoil: lambda { |folder|
                  reads = File.join(folder, "data/P2_tumour_L2_2.fastq.gz")
                  File.truncate(reads, File.size(reads) / 2)
                })
end
