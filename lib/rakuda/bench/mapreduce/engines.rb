# frozen_string_literal: true

require "open3"
require "rakuda/bench/errors"
require "rakuda/bench/programs"

module Rakuda
  module Bench
    module MapReduce
      # Engines that run a job: rakuda with files between maps and reduces, or with a stream; Apache Spark; Hadoop's
      # local runner. The two in Java share the job's code (iobench/mapreduce), and their jars come with pyspark.
      module Engines
        # Those that run on other hosts than this machine, too; and on what the others run.
        FAR = %w[rakuda rakuda-streams].freeze
        NEAR = { "spark" => "spark is Apache Spark with the master local[SLOTS], in one process of this machine",
                 "hadoop" => "hadoop is Hadoop's local runner, in one process of this machine" }.freeze
        # What each stands for, in the order in which they are compared.
        ALL = {
          "rakuda" => "a file from each map to each reduce", "rakuda-streams" => "one stream from all maps to all reduces",
          "spark" => "Apache Spark on this machine, its defaults", "hadoop" => "Hadoop MapReduce, local runner, its defaults"
        }.freeze
        JAVA = %w[spark hadoop].freeze
        JAR = File.join(Programs::ROOT, "target/engines/mapreduce.jar")

        module_function

        # @return [String]
        # @raise [UsageError]
        def named(name)
          ALL.key?(name) or raise UsageError, "no engine #{name} runs MapReduce here; there are #{ALL.keys.join(", ")}"
          name
        end

        # @return [String, nil] why it cannot be run
        def missing(name)
          return unless JAVA.include?(name)
          return "no java (Debian: openjdk-17-jdk-headless)" unless Programs.find("java")

          "no #{name}: `make bench-engines` installs it" unless spark_home && File.file?(JAR)
        end

        # @return [Array<String>] programs of others that it runs on
        def programs(name) = JAVA.include?(name) ? %w[java] : []

        # @return [Hash{String => String}] what the engine is started with besides
        def environment(name)
          name == "spark" ? { "SPARK_HOME" => spark_home } : {}
        end

        # @param job [Job]
        # @param hosts [Hosts, nil] where it runs tasks, if not on this machine
        # @return [Array<String>] what starts it in a folder that `write` has prepared
        def command(name, job, slots, hosts = nil)
          return [Programs.rakuda, "-q", *hosts.words] if hosts

          case name
          when "spark"
            [File.join(spark_home, "bin/spark-submit"), "--master", "local[#{slots}]", "--conf", "spark.ui.enabled=false",
             "--conf", "spark.local.dir=spark", "--class", "OnSpark", JAR, *job.words(slots)]
          when "hadoop" then [Programs.need("java"), "-cp", "#{JAR}:#{spark_home}/jars/*", "OnHadoop", *job.words(slots)]
          else [Programs.rakuda, "-q", "-j", slots.to_s]
          end
        end

        # Writes what an engine reads besides the job's words.
        # @param writers [Integer] into the stream, where there is one
        def write(name, job, writers, folder)
          return if JAVA.include?(name)

          Dir.mkdir(File.join(folder, Job::OUT))
          File.write(File.join(folder, "Rakefile"), name == "rakuda" ? files(job) : stream(job, writers))
        end

        # What rakuda starts.
        # @return [Array(Array<Array<String>>, Array<Array<String>>)] a command for each map, and for each reduce
        def commands(name, job)
          numbers = Array.new(job.reducers) { |i| i }
          return [job.maps(->(_) { "-" }), numbers.map { |i| job.collect(i) }] if name == "rakuda-streams"

          parts = parts(job)
          [job.maps(->(i) { "map_#{i}" }), numbers.map { |i| job.reduce(i, parts.map { |of_map| of_map[i] }) }]
        end

        def version(name)
          pattern = { "spark" => /spark-core_[\d.]+-(.+)\.jar/, "hadoop" => /hadoop-client-runtime-(.+)\.jar/ }[name]
          return Dir.children(File.join(spark_home, "jars")).filter_map { |jar| jar[pattern, 1] }.first.to_s if pattern

          output, = Open3.capture2e(Programs.rakuda, "--version")
          output[/\d+(\.\d+)+\S*/] || "unknown"
        end

        def spark_home = Dir[File.join(Programs::ROOT, "target/engines/lib/python3*/site-packages/pyspark")].first

        # A task for each map and reduce, and a file between each two.
        def files(job)
          parts = parts(job)
          map_commands, reduce_commands = commands("rakuda", job)
          maps = map_commands.map.with_index do |command, i|
            outputs = parts[i]
            others = outputs.drop(1).map { |file| "file(#{file.inspect} => #{outputs.first.inspect})\n" }.join
            needs = outputs.size > 1 ? "needs outputs: #{outputs.drop(1).inspect}\n" : ""
            "#{needs}file(#{outputs.first.inspect} => #{job.map_inputs[i].inspect}) { sh(*#{command.inspect}) }\n#{others}"
          end
          reduces = reduce_commands.map.with_index do |command, i|
            "file(#{job.part(i).inspect} => #{parts.map { |of_map| of_map[i] }.inspect}) { sh(*#{command.inspect}) }\n"
          end
          "#{maps.join}#{reduces.join}multitask default: #{outputs(job).inspect}\n"
        end

        # Each writer has its share of the maps; each reduce takes what is its own.
        def stream(job, writers)
          map_commands, reduce_commands = commands("rakuda-streams", job)
          shares = map_commands.each_slice((map_commands.size.to_f / writers).ceil).to_a
          names = Array.new(shares.size) { |i| "map#{i}" }
          maps = shares.zip(names).map do |share, name|
            "task(#{name.inspect}) { #{share.inspect}.each { |words| sh(*words) } }\n"
          end
          reduces = outputs(job).zip(reduce_commands).map do |file, command|
            "file(#{file.inspect}) { sh(*#{command.inspect}) }\n"
          end
          "stream :rows, from: #{names.inspect}, to: #{outputs(job).inspect}\n#{maps.join}#{reduces.join}" \
            "multitask default: #{outputs(job).inspect}\n"
        end

        # @return [Array<Array<String>>] the files between maps and reduces, by map
        def parts(job) = Array.new(job.map_inputs.size) { |i| job.between("map_#{i}") }

        def outputs(job) = Array.new(job.reducers) { |i| job.part(i) }
      end
    end
  end
end
