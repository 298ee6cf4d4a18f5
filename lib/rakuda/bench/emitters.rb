# frozen_string_literal: true

require "json"
require "rakuda/bench/errors"
require "shellwords"

module Rakuda
  module Bench
    # An instance as the file that an engine reads, flat: one rule a task, the same command in each. It starts nothing.
    module Emitters
      # Engine => [name of its file, method].
      ALL = { "rakuda" => ["Rakefile", :rakefile], "rake" => ["Rakefile", :rakefile], "pwrake" => ["Rakefile", :rakefile],
              "make" => ["Makefile", :makefile], "ninja" => ["build.ninja", :ninja], "xargs" => ["workflow.sh", :xargs],
              "snakemake" => ["Snakefile", :snakefile], "parsl" => ["workflow_parsl.py", :parsl],
              "dask" => ["workflow_dask.py", :dask], "hyperqueue" => ["workflow_hyperqueue.py", :hyperqueue],
              "pegasus" => ["workflow.yml", :pegasus], "swift-t" => ["workflow.swift", :swift] }.freeze
      # Written, but never run here.
      NOT_CHECKED = { "pegasus" => "its planner was not run on it", "swift-t" => "Swift/T was not run on it",
                      "pwrake" => "pwrake was not run on it" }.freeze

      module_function

      # @param engine [String]
      # @param instance [Instance]
      # @param slots [Integer]
      # @yield for another text than the flat one; nil for that
      # @return [Array(String, String)] name of the file, and what is in it
      # @raise [UsageError]
      def emit(engine, instance, slots)
        file, method = ALL.fetch(engine) { raise UsageError, "no engine #{engine}; there are #{ALL.keys.join(", ")}" }
        text = (yield if block_given?) || method(method).call(instance, slots)
        comment = { "workflow.swift" => "//" }.fetch(file, "#")
        head = "#{comment} #{instance.name}, #{instance.tasks.size} tasks, for #{engine}; made by `rakudactl bench emit`.\n"
        head << "#{comment} Not checked: #{NOT_CHECKED[engine]}.\n" if NOT_CHECKED[engine]
        [file, text.start_with?("#!") ? text.sub("\n", "\n#{head}") : head + text]
      end

      # @return [Array<String>] what must be made
      def goals(instance)
        parents = instance.tasks.flat_map(&:parents).uniq
        instance.tasks.reject { |task| parents.include?(task.id) }.map(&:target)
      end

      # @return [Array<String>] the files that a rule of the task names before it
      def needed(instance, task)
        outside = task.inputs & instance.inputs
        (outside + task.parents.map { |parent| instance.by_id.fetch(parent).target }).uniq
      end

      def shell(task) = shell_words(task.command)

      def shell_words(words) = Shellwords.join(words)

      def rakefile(instance, _slots)
        tasks = instance.ordered.map do |task|
          words = needed(instance, task).map { |file| ruby(file) }.join(", ")
          cores = task.cores > 1 ? "desc \"ncore=#{task.cores}\"\n" : ""
          "#{cores}file(#{ruby(task.target)} => [#{words}]) { sh #{task.command.map { |word| ruby(word) }.join(", ")} }\n"
        end
        "#{tasks.join}multitask default: [#{goals(instance).map { |file| ruby(file) }.join(", ")}]\n"
      end

      def ruby(text) = "'#{text.gsub(/['\\]/) { |letter| "\\#{letter}" }}'"

      def makefile(instance, _slots)
        rules = instance.ordered.map do |task|
          others = task.outputs.drop(1).map { |file| "#{make(file)}: #{make(task.target)} ;\n" }.join
          "#{make(task.target)}: #{needed(instance, task).map { |file| make(file) }.join(" ")}\n" \
            "\t@#{shell(task).gsub("$", "$$")}\n#{others}"
        end
        makefile_of(instance, rules)
      end

      def makefile_of(instance, rules)
        goals = goals(instance).map { |file| make(file) }.join(" ")
        "EQUALS := =\n.DELETE_ON_ERROR:\n.SUFFIXES:\n.PHONY: default\ndefault: #{goals}\n#{rules.join}"
      end

      # A bare = makes the line an assignment.
      def make(file) = file.gsub("=", "$(EQUALS)")

      def ninja(instance, _slots)
        rules = instance.ordered.map do |task|
          "#{ninja_build(instance, task, "run")}  command = #{shell(task).gsub("$", "$$")}\n"
        end
        "rule run\n  command = $command\n#{rules.join}default #{goals(instance).join(" ")}\n"
      end

      def ninja_build(instance, task, rule)
        outputs = [task.target, *(["|", *task.outputs.drop(1)] if task.outputs.size > 1)].join(" ")
        "build #{outputs}: #{rule} #{needed(instance, task).join(" ")}\n"
      end

      # Level after level, since xargs knows no prerequisites.
      def xargs(instance, slots)
        levels = instance.levels.map do |tasks|
          lines = tasks.map { |task| "#{shell(task)}\n" }.join
          "xargs -P #{slots} -d '\\n' -n 1 sh -c <<'END'\n#{lines}END\n"
        end
        "#!/bin/sh\nset -e\n#{levels.join}"
      end

      def snakefile(instance, _slots)
        rules = instance.ordered.map.with_index { |task, number| snake_rule(instance, task, number) }
        snakefile_of(instance, rules)
      end

      def snakefile_of(instance, rules)
        "rule all:\n    input: #{python(goals(instance))}\n    default_target: True\n#{rules.join}"
      end

      # Of text that is no wildcard.
      def braces(text) = text.gsub("{", "{{").gsub("}", "}}")

      def snake_rule(instance, task, number)
        command = braces(shell(task))
        threads = task.cores > 1 ? "    threads: #{task.cores}\n" : ""
        "rule task_#{number}:\n    input: #{python(needed(instance, task))}\n    output: #{python(task.outputs)}\n#{threads}" \
          "    shell: #{JSON.generate(command)}\n"
      end

      def python(words) = words.map { |word| JSON.generate(word) }.join(", ")

      # Commands and parents by number, in an order in which parents come first.
      def numbered(instance)
        numbers = instance.ordered.each_with_index.to_h { |task, number| [task.id, number] }
        instance.ordered.map { |task| [task.command, task.parents.map { |parent| numbers.fetch(parent) }] }
      end

      def tasks_in_python(instance)
        "TASKS = [\n#{numbered(instance).map { |command, parents| "    (#{JSON.generate(command)}, #{parents}),\n" }.join}]\n"
      end

      def parsl(instance, slots)
        <<~PYTHON
          #!/usr/bin/env python3
          import subprocess

          import parsl
          from parsl.config import Config
          from parsl.executors.threads import ThreadPoolExecutor

          #{tasks_in_python(instance)}

          @parsl.python_app
          def run(command, inputs=()):
              subprocess.run(command, check=True)


          parsl.load(Config(executors=[ThreadPoolExecutor(max_threads=#{slots})], run_dir="parsl"))
          futures = []
          for command, parents in TASKS:
              futures.append(run(command, inputs=[futures[parent] for parent in parents]))
          for future in futures:
              future.result()
        PYTHON
      end

      def dask(instance, slots)
        <<~PYTHON
          #!/usr/bin/env python3
          import subprocess

          from dask.distributed import Client, LocalCluster

          #{tasks_in_python(instance)}

          def run(command, *parents):
              subprocess.run(command, check=True)


          if __name__ == "__main__":
              cluster = LocalCluster(n_workers=#{slots}, threads_per_worker=1, dashboard_address=None)
              with cluster, Client(cluster) as client:
                  futures = []
                  for command, parents in TASKS:
                      futures.append(client.submit(run, command, *(futures[parent] for parent in parents), pure=False))
                  client.gather(futures)
        PYTHON
      end

      # A server and a worker of all slots in one process, as its Python API has them for one machine.
      def hyperqueue(instance, slots)
        <<~PYTHON
          #!/usr/bin/env python3
          import os

          from hyperqueue import Job, LocalCluster
          from hyperqueue.cluster import WorkerConfig
          from hyperqueue.ffi.protocol import ResourceRequest

          #{tasks_in_python(instance)}
          CORES = #{instance.ordered.map(&:cores)}

          with LocalCluster(worker_config=WorkerConfig(cores=#{slots})) as cluster:
              client, job, tasks = cluster.client(), Job(), []
              for (command, parents), cores in zip(TASKS, CORES):
                  tasks.append(job.program(command, env=dict(os.environ), cwd=os.getcwd(), stdout=None, stderr=None,
                                           deps=[tasks[parent] for parent in parents],
                                           resources=ResourceRequest(cpus=min(cores, #{slots}))))
              client.wait_for_jobs([client.submit(job)])
        PYTHON
      end

      # Workflow and transformations in Pegasus' YAML; files stand where they are. What no task reads is a result.
      def pegasus(instance, _slots)
        programs = instance.tasks.map { |task| task.command.first }.uniq
        results = instance.outputs - instance.tasks.flat_map(&:inputs)
        jobs = instance.ordered.map { |task| pegasus_job(task, results) }
        children = instance.tasks.flat_map { |task| task.parents.map { |parent| [parent, task.id] } }.group_by(&:first)
        dependencies = children.map { |id, pairs| { "id" => id, "children" => pairs.map(&:last) } }
        JSON.pretty_generate(
          "pegasus" => "5.0.4", "name" => instance.name,
          "transformationCatalog" => { "transformations" => programs.map { |path| transformation(path) } },
          "jobs" => jobs, "jobDependencies" => dependencies
        ) << "\n"
      end

      def transformation(path)
        { "name" => File.basename(path), "sites" => [{ "name" => "local", "pfn" => path, "type" => "installed" }] }
      end

      def pegasus_job(task, results)
        uses = task.inputs.map { |file| { "lfn" => file, "type" => "input" } } +
               task.outputs.map do |file|
                 { "lfn" => file, "type" => "output", "stageOut" => results.include?(file), "registerReplica" => false }
               end
        { "type" => "job", "name" => File.basename(task.command.first), "id" => task.id, "arguments" => task.command.drop(1),
          "uses" => uses }
      end

      # A value without content stands for what a task has made.
      def swift(instance, _slots)
        numbers = instance.ordered.each_with_index.to_h { |task, number| [task.id, number] }
        calls = instance.ordered.map do |task|
          call = "t#{numbers.fetch(task.id)} = run([#{python(task.command)}]);"
          parents = task.parents.map { |parent| "t#{numbers.fetch(parent)}" }
          parents.empty? ? "#{call}\n" : "wait(#{parents.join(", ")}) { #{call} }\n"
        end
        declared = numbers.values.map { |number| "void t#{number};\n" }
        "import files;\n\napp (void done) run(string words[]) { \"env\" words }\n\n#{declared.join}#{calls.join}"
      end
    end
  end
end
