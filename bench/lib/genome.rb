# frozen_string_literal: true

require "fileutils"

# The workflow of examples/genome in three engines, each with its own description of it.
module Genome
  ROOT = File.expand_path("../..", __dir__)
  EXAMPLE = File.join(ROOT, "examples/genome")
  ENGINES = File.join(ENV.fetch("CARGO_TARGET_DIR", File.join(ROOT, "target")), "engines")
  TOOLS = %w[bwa samtools bcftools].freeze
  # What Nextflow's own starter opens of Java's modules, as far as a run on one machine needs it.
  OPENS = %w[lang io nio net util util.concurrent util.concurrent.locks util.concurrent.atomic util.regex nio.file.spi]
          .map { |name| "java.base/java.#{name}" }.push("java.base/sun.nio.ch", "java.base/sun.nio.fs")
          .map { |name| "--add-opens=#{name}=ALL-UNNAMED" }.freeze
  DESCRIPTION = { "rakuda" => "Rakefile", "snakemake" => "Snakefile", "nextflow" => "main.nf" }.freeze

  module_function

  # @return [Array<String>] programs of the workflow that are not in PATH
  def missing_tools
    TOOLS.reject { |tool| ENV.fetch("PATH").split(":").any? { |folder| File.executable?(File.join(folder, tool)) } }
  end

  # @return [Hash{String => Array<String>}] the command of each engine that is there
  def commands
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
  def environment(folder)
    { "NXF_OFFLINE" => "true", "NXF_HOME" => File.join(folder, ".nextflow-home"), "HOME" => folder }
  end

  # Makes the data once in `folder`.
  def simulate(folder, *numbers)
    FileUtils.mkdir_p(folder)
    system("ruby", File.join(EXAMPLE, "simulate.rb"), *numbers.map(&:to_s), chdir: folder, exception: true)
  end

  # A folder for one engine: its description, and the data.
  def lay_out(folder, engine, data)
    FileUtils.mkdir_p(folder)
    FileUtils.cp(File.join(EXAMPLE, DESCRIPTION.fetch(engine)), folder)
    FileUtils.cp_r(File.join(data, "data"), folder, preserve: true)
  end

  # @return [Integer] lines of its description that are neither blank nor a comment alone
  def lines(engine)
    File.readlines(File.join(EXAMPLE, DESCRIPTION.fetch(engine))).count { |line| !line.match?(%r{\A\s*(#.*|//.*)?\s*\z}) }
  end
end
