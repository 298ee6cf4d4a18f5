# frozen_string_literal: true

# The completions of `rakuda` for bash, zsh and fish, from the table of its options. Names of tasks come from
# libexec/rakuda-tasks when they are wanted. Those of `rakudactl` are no business of this file: they ask
# the program (share/*/rakudactl*).

require "option_table"

# Texts of the three scripts.
class Completions
  # Rake's options are among them, and their texts change with its version.
  NOTE = "# Made by tools/share of the options that rakuda has, with rake #{Rake::VERSION}; do not edit.".freeze
  # How a script finds the program that names tasks, from what stands first on the command line.
  TASKS = <<~'SH'.freeze
    __rakuda_tasks() {
        local program
        program=$(readlink -f -- "$(type -p -- "$1" 2>/dev/null)") || return 0
        program=${program%/bin/*}/libexec/rakuda-tasks
        if [ -x "$program" ]; then "$program" "$@" 2>/dev/null; fi
    }
  SH

  def initialize(table)
    @table = table
  end

  # @return [String]
  def bash
    <<~BASH
      #{NOTE}
      #{TASKS}
      # Words that may stand after the last comma of a list, and do not stand before it.
      __rakuda_list() {
          local word before=${cur%"${cur##*,}"}
          for word; do
              if [[ ,$before != *,$word,* && $before$word == "$cur"* ]]; then COMPREPLY+=("$before$word"); fi
          done
      }
      _rakuda() {
          local cur prev words cword name
          _get_comp_words_by_ref -n =: cur prev words cword
          COMPREPLY=()
          if [[ $cur == --*=* ]]; then
              prev=${cur%%=*}
              cur=${cur#*=}
          fi
          case $prev in
      #{bash_values.join("\n")}
          esac
          if [[ $cur == -* ]]; then
              COMPREPLY=($(compgen -W "#{flags.join(" ")}" -- "$cur"))
              return
          fi
          # Not with compgen -W, which would expand a name.
          while IFS= read -r name; do
              if [[ $name == "$cur"* ]]; then COMPREPLY+=("$(printf %q "$name")"); fi
          done < <(__rakuda_tasks "${words[@]:0:cword}")
          if [[ ${#COMPREPLY[@]} -eq 0 ]]; then _filedir; fi
          __ltrim_colon_completions "$cur"
      } &&
          complete -F _rakuda rakuda
    BASH
  end

  # @return [String]
  def zsh
    <<~ZSH
      #compdef rakuda
      #{NOTE}
      _rakuda_tasks() {
          local -a names
          local program=${${commands[$words[1]]:-$words[1]}:A:h:h}/libexec/rakuda-tasks
          [[ -x $program ]] || return 1
          names=(${(f)"$($program ${(Q)words[1,CURRENT-1]} 2>/dev/null)"})
          compadd -a names
      }
      _arguments -s -S \\
      #{@table.all.flat_map { |option| zsh_specs(option) }.map { |spec| "    #{spec} \\" }.join("\n")}
          '*:task:{ _rakuda_tasks || _files }'
    ZSH
  end

  # @return [String]
  def fish
    <<~FISH
      #{NOTE}
      function __rakuda_tasks
          set -l words (commandline -opc)
          set -l program (path resolve (command -s $words[1]))
          set program (string replace -r '/bin/[^/]*$' '' -- $program)/libexec/rakuda-tasks
          test -x "$program"; and $program $words 2>/dev/null
      end
      # Words that may stand after the last comma of a list, and do not stand before it.
      function __rakuda_list
          set -l before (commandline -ct | string replace -r '^--[^=]*=' '' | string replace -r '[^,]*$' '')
          for word in $argv
              contains -- $word (string split , -- $before); or echo $before$word
          end
      end
      complete -c rakuda -f -a '(__rakuda_tasks)'
      #{@table.all.map { |option| fish_line(option) }.join("\n")}
    FISH
  end

  private

  def flags = @table.all.flat_map(&:flags)

  # Options whose value comes next. Where it may be left out the next word may be a task, unless the value is one that
  # we know.
  def valued = @table.all.select { |option| takes_next?(option) }

  def takes_next?(option) = option.value && (!option.optional || option.kind)

  def bash_values
    by_answer = valued.reject { |option| option.kind.nil? }.group_by { |option| bash_answer(option) }
    lines = by_answer.map { |answer, options| "        #{options.flat_map(&:flags).join(" | ")}) #{answer}; return ;;" }
    free = valued.select { |option| option.kind.nil? }.flat_map(&:flags)
    lines + ["        #{free.join(" | ")}) return ;;"]
  end

  def bash_answer(option)
    case option.kind
    when :file then "_filedir"
    when :folder then "_filedir -d"
    else
      words = option.kind.join(" ")
      option.list ? "__rakuda_list #{words}" : "COMPREPLY=($(compgen -W \"#{words}\" -- \"$cur\"))"
    end
  end

  def zsh_specs(option)
    text = option.text.gsub(/[\[\]:]/) { |letter| "\\#{letter}" }.gsub("'", "'\\\\''")
    same = option.flags.size > 1 ? "(#{option.flags.join(" ")})" : ""
    option.flags.map do |flag|
      "'#{same}#{flag}#{zsh_joint(option, flag)}[#{text}]#{zsh_value(option)}'"
    end
  end

  # How the value comes after the flag: `-f VALUE` and `-fVALUE`, `--rakefile VALUE` and `--rakefile=VALUE`.
  def zsh_joint(option, flag)
    return "" unless option.value
    return flag.start_with?("--") ? "=-" : "-" unless takes_next?(option)

    flag.start_with?("--") ? "=" : "+"
  end

  def zsh_value(option)
    return "" unless option.value

    "#{takes_next?(option) ? ":" : "::"}#{option.value.tr(":", " ")}:#{zsh_answer(option)}"
  end

  def zsh_answer(option)
    case option.kind
    when nil then " "
    when :file then "_files"
    when :folder then "_files -/"
    else
      words = option.kind.join(" ")
      option.list ? "_sequence compadd - #{words}" : "(#{words})"
    end
  end

  def fish_line(option)
    words = option.shorts.map { |flag| "-s #{flag[1..]}" } + option.longs.map { |flag| "-l #{flag[2..]}" }
    words << fish_value(option) if takes_next?(option)
    text = option.text.gsub("\\", "\\\\\\\\").gsub("'", "\\\\'")
    "complete -c rakuda #{words.join(" ")} -d '#{text}'"
  end

  def fish_value(option)
    case option.kind
    when nil then "-x"
    when :file then "-r -F"
    when :folder then "-x -a '(__fish_complete_directories)'"
    else
      words = option.kind.join(" ")
      option.list ? "-x -a '(__rakuda_list #{words})'" : "-x -a '#{words}'"
    end
  end
end
