# frozen_string_literal: true

require "json"
require "rakuda/bench/emitters"

module Rakuda
  module Bench
    # An instance as a person writes it: one rule for each kind of task, and a table of its files and arguments. Tasks
    # are of a kind when they have one program, and names that differ in numbers alone. It starts nothing.
    module Idiomatic
      # Engine => method. All others get one loop over all tasks, or one list, anyway: their file is the flat one.
      WRITERS = { "rakuda" => :rakefile, "rake" => :rakefile, "pwrake" => :rakefile, "make" => :makefile, "ninja" => :ninja,
                  "snakemake" => :snakefile }.freeze
      # What a wildcard of Snakemake may stand for here.
      STEM = "[^/]+"

      # `word` is a name that every engine takes.
      Kind = Struct.new(:word, :program, :tasks)

      module_function

      # @return [Array(String, String)] as Emitters.emit
      def emit(engine, instance, slots)
        Emitters.emit(engine, instance, slots) { WRITERS[engine]&.then { |method| method(method).call(instance) } }
      end

      # @return [Array<Kind>] in the order of their first tasks
      def kinds(instance)
        groups = instance.ordered.group_by { |task| [task.name.gsub(/\d+/, ""), task.command.first] }
        groups.map.with_index do |((name, program), tasks), number|
          Kind.new("#{name[/[A-Za-z]\w*/]&.squeeze("_")&.delete_suffix("_") || "kind"}_#{number + 1}", program, tasks)
        end
      end

      def rakefile(instance)
        rules = kinds(instance).map do |kind|
          rows = kind.tasks.map do |task|
            words = [Emitters.needed(instance, task), task.command.drop(1)].map { |list| rubies(list) }
            "  [#{Emitters.ruby(task.target)}, #{words.join(", ")}, #{task.cores}],\n"
          end
          "[\n#{rows.join}].each do |target, files, words, cores|\n  desc \"ncore=\#{cores}\" if cores > 1\n" \
            "  file(target => files) { sh #{Emitters.ruby(kind.program)}, *words }\nend\n"
        end
        "#{rules.join}multitask default: #{rubies(Emitters.goals(instance))}\n"
      end

      def rubies(words) = "[#{words.map { |word| Emitters.ruby(word) }.join(", ")}]"

      def makefile(instance)
        rules = kinds(instance).map do |kind|
          rows = kind.tasks.map do |task|
            target = Emitters.make(task.target)
            others = task.outputs.drop(1).map { |file| "#{Emitters.make(file)}: #{target} ;\n" }.join
            # In a value of one target alone a backslash before ; would be lost.
            "WORDS_#{target} := #{make_words(task.command.drop(1))}\n" \
              "#{target}: #{Emitters.needed(instance, task).map { |file| Emitters.make(file) }.join(" ")}\n#{others}"
          end
          targets = kind.tasks.map { |task| Emitters.make(task.target) }.join(" ")
          "#{kind.word} := #{targets}\n#{rows.join}$(#{kind.word}):\n" \
            "\t@#{Emitters.shell_words([kind.program]).gsub("$", "$$")} $(WORDS_$@)\n"
        end
        Emitters.makefile_of(instance, rules)
      end

      # In a value \# is a bare #.
      def make_words(words) = Emitters.shell_words(words).gsub("$", "$$").gsub("\\#") { "\\\\\\#" }

      def ninja(instance)
        rules = kinds(instance).map do |kind|
          builds = kind.tasks.map do |task|
            "#{Emitters.ninja_build(instance, task, kind.word)}" \
              "  words = #{Emitters.shell_words(task.command.drop(1)).gsub("$", "$$")}\n"
          end
          "rule #{kind.word}\n  command = #{Emitters.shell_words([kind.program]).gsub("$", "$$")} $words\n#{builds.join}"
        end
        "#{rules.join}default #{Emitters.goals(instance).join(" ")}\n"
      end

      # A kind is one rule where names of its outputs tell it from all others; else each of its tasks is one.
      def snakefile(instance)
        number = -1
        rules = kinds(instance).flat_map do |kind|
          suffixes = suffixes(instance, kind)
          next [wildcard(instance, kind, suffixes)] if suffixes

          kind.tasks.map { |task| Emitters.snake_rule(instance, task, number += 1) }
        end
        Emitters.snakefile_of(instance, rules)
      end

      # What comes behind the wildcard in each output, and before it in all.
      # @return [Array(String, Array<String>), nil] nil when other outputs would match, too
      def suffixes(instance, kind)
        return if kind.tasks.size < 2

        prefix = common(kind.tasks.map(&:target))
        behind = common(kind.tasks.map { |task| task.target[prefix.size..].reverse }).reverse[/\..*/m].to_s
        lists = kind.tasks.map do |task|
          stem = task.target.delete_suffix(behind)
          task.outputs.map { |file| file.start_with?(stem) ? file[stem.size..] : nil }
        end
        return unless lists.uniq.size == 1 && lists.first.all?

        pattern = /\A#{Regexp.escape(prefix)}#{STEM}(?:#{Regexp.union(lists.first)})\z/
        own = kind.tasks.flat_map(&:outputs)
        others = instance.files.keys - own
        return if own.grep_v(pattern).any? || others.grep(pattern).any? || ambiguous?(kind, prefix, lists.first)

        [prefix, lists.first]
      end

      # Whether an output of the kind could be read as that of another task of it.
      def ambiguous?(kind, prefix, suffixes)
        targets = kind.tasks.to_h { |task| [task.target, task] }
        kind.tasks.any? do |task|
          task.outputs.any? do |file|
            suffixes.any? do |suffix|
              stem = file.delete_suffix(suffix)
              file.end_with?(suffix) && stem.size > prefix.size && (targets["#{stem}#{suffixes.first}"] || task) != task
            end
          end
        end
      end

      def common(words)
        first, last = words.minmax
        size = (0...first.size).find { |index| first[index] != last[index] } || first.size
        first[0, size]
      end

      def wildcard(instance, kind, (prefix, suffixes))
        drop = suffixes.first.size
        rows = kind.tasks.map do |task|
          stem = task.target[prefix.size..(-1 - drop)]
          words = Emitters.shell_words(task.command.drop(1))
          "    #{JSON.generate(stem)}: (#{JSON.generate(Emitters.needed(instance, task))}, #{JSON.generate(words)}),\n"
        end
        threads = kind.tasks.map(&:cores).max
        <<~SNAKE
          #{kind.word} = {
          #{rows.join.chomp}
          }
          rule #{kind.word}_rule:
              input: lambda wildcards: #{kind.word}[wildcards.stem][0]
              output: #{Emitters.python(suffixes.map { |suffix| "#{Emitters.braces(prefix)}{stem}#{Emitters.braces(suffix)}" })}
              wildcard_constraints: stem=r"#{STEM}"
              threads: #{threads}
              params: words=lambda wildcards: #{kind.word}[wildcards.stem][1]
              shell: #{JSON.generate("#{Emitters.braces(Emitters.shell_words([kind.program]))} {params.words}")}
        SNAKE
      end
    end
  end
end
