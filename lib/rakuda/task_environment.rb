# frozen_string_literal: true

# The software that a task's commands run in (`needs env:`): a container, modules, a conda environment or a virtual
# environment of Python. It says what the hub puts in front of a command so that it runs inside, and knows nothing of
# tasks.
#
# What has to be done first is a small shell script in .rakuda/env, named after kind and content: it makes what has to
# be made once, under a lock, on the machine where the command runs. So a command in the record stays short, and one can
# run it again by hand. Setting PATH and the like instead was tried on paper: neither modules nor containers can be had
# so.

require "digest"
require "fileutils"
require "rakuda/requirement_files"
require "shellwords"

module Rakuda
  # One environment.
  class TaskEnvironment
    # Each with what its value is.
    KINDS = { "container" => "an image, such as \"image.sif\" or \"docker://debian:12\"",
              "module" => "names of modules, such as \"gcc/12\" or %w[gcc/12 openmpi]",
              "conda" => "a file such as \"environment.yml\"", "venv" => "a file such as \"requirements.txt\"" }.freeze
    # Those whose value is a file that is read.
    FILES = %w[conda venv].freeze
    EXAMPLE = '{ venv: "requirements.txt" }'

    # A file is read when a task with the environment is planned, and by the first command: what is in the way of one
    # task is no concern of another run's.
    # @param value [Hash{Symbol, String => Object}] one kind and its value
    # @param folder [String] of the run
    # @raise [ConfigurationError]
    def initialize(value, folder)
      refuse(value) unless value.is_a?(Hash) && value.size == 1

      @kind, value = value.first
      @kind = @kind.to_s
      KINDS.key?(@kind) or raise ConfigurationError, "env: unknown kind #{@kind}; there are #{KINDS.keys.join(", ")}"
      @names = [value].flatten
      @folder = folder
      expected = @names.all? { |name| name.is_a?(String) && name.match?(/\A[^\n\0]*\S[^\n\0]*\z/) } && !@names.empty?
      refuse_value(value) unless expected && (@names.size == 1 || @kind == "module")
    end

    # What makes it what it is, as text: for the record. Of a file that a task of the run makes the digest is not known.
    # Files that a file names stand with it.
    # @yieldparam name [String] of a file
    # @yieldreturn [Boolean] whether a task makes it
    # @raise [ConfigurationError] when there is no such file, and nothing makes it
    def text(&makes)
      words = "#{@kind} #{@names.join(" ")}"
      return words unless FILES.include?(@kind)
      return "#{words}, which a task makes" if makes.call(@names.first)

      text_of(files, &makes)
    rescue SystemCallError => e
      raise ConfigurationError, "#{unreadable(e)}, and no task makes it"
    end

    # The options of a command (StartCommand) that runs inside. Of the files that it reads those are named that stand
    # below the run's folder: the script, and what that reads. What stands elsewhere is expected to be on every node.
    # @param passed [Array<String>] names of variables that a container is given besides; the same each time
    # @param grace [Numeric] seconds between SIGTERM and SIGKILL; the same each time
    # @return [Hash{String => Object}]
    def options(passed, grace)
      script = script(passed, grace).b
      { "inside" => { "kind" => @kind, "names" => @names.map(&:b), "script" => script }, "files" => @read.map(&:b) }
    end

    private

    def refuse(value)
      raise ConfigurationError, "env: expected one of #{KINDS.keys.join(", ")} with its value, such as #{EXAMPLE}, not " \
                                "#{value.inspect}"
    end

    def refuse_value(value)
      raise ConfigurationError, "env: #{@kind}: expected #{KINDS[@kind]}, not #{value.inspect}"
    end

    def path
      File.expand_path(@names.first, @folder)
    end

    def content
      return [@kind, *@names, @folder].join("\n") if @kind == "module"
      return container_script if @kind == "container"

      @files = files
      [@kind, *@files.texts.values, *(@folder if @files.local?)].join("\n")
    rescue SystemCallError => e
      raise ConfigurationError, "#{unreadable(e)} (the task that makes it must be a prerequisite of those that run inside)"
    end

    # The digest is that of all files one after the other, without those that are not there yet.
    def text_of(read, &makes)
      made = read.texts.keys.select(&makes)
      read_now, *named = read.texts.keys - made
      later = read.unread.map { |name| "#{name}, which #{makes.call(name) ? "a task makes" : "cannot be read"}" } +
              made.map { |name| "#{name}, which a task makes" }
      digest = Digest::SHA256.hexdigest(read.texts.except(*made).values.join)
      ["#{@kind} #{read_now}#{" with #{named.join(" ")}" unless named.empty?}, sha256 #{digest}", *later].join("; ")
    end

    def files
      RequirementFiles.new(@names.first, @folder)
    end

    def unreadable(error)
      "env: #{@kind}: cannot read #{@names.first}: #{error.message[/\A[^@]*[^@ ]/]}"
    end

    # The file of the script; it is written when it is not there.
    def script(passed, grace)
      @script ||= begin
        @passed = passed.grep(/\A[^=\0\n]+\z/)
        @grace = grace
        @digest = Digest::SHA256.hexdigest(content)[0, 16]
        folder = File.join(@folder, ".rakuda", "env")
        name = File.join(folder, "#{@kind}-#{@digest}.sh")
        write(folder, name)
        @read = [name, *read_by_script.map { |one| File.expand_path(one, @folder) }.select { |one| below(one) }]
        name
      end
    end

    # An image may be a folder; that does not go anywhere.
    def read_by_script
      return @files.texts.keys if @files

      @kind == "container" && File.file?(path) ? @names : []
    end

    # @return [String, nil] the name from the run's folder of what is in it
    def below(path)
      path.delete_prefix("#{@folder}/") if path.start_with?("#{@folder}/")
    end

    # A node may call the folder of the run something else: it is found by the script.
    FOLDER = <<~'SH'
      folder=$(cd "${0%/*}/../.." && pwd) || exit 125
    SH

    # @return [String] for the shell: a file of the run's folder or of elsewhere
    def named_there(path)
      inside = below(path)
      inside ? "\"$folder\"/#{Shellwords.escape(inside)}" : Shellwords.escape(path)
    end

    # @return [String] for the shell in the run's folder: the file that says what the environment is made of
    def file_there
      @names.first.start_with?("/") ? named_there(path) : Shellwords.escape(@names.first)
    end

    # So that who looks for it sees all of it or nothing. What an earlier version has written is written anew: it says
    # other things when it fails.
    def write(folder, name)
      text = "#!/bin/sh\n# Made by rakuda for `needs env: #{@kind} #{@names.join(" ")}`. Usage: sh THIS 'LINE', or " \
             "sh THIS -- PROGRAM ARGUMENT ...\n#{send("#{@kind}_script")}"
      return if File.exist?(name) && File.read(name) == text

      FileUtils.mkdir_p(folder)
      ignore = File.join(@folder, ".rakuda", ".gitignore")
      File.write(ignore, "*\n") unless File.exist?(ignore)
      new = "#{name}.#{Process.pid}"
      File.write(new, text)
      File.rename(new, name)
    end

    # How each script ends: in the place of what has prepared it, the command.
    RUN = <<~'SH'
      case $1 in
        --) shift; exec "$@" ;;
        *) exec sh -c "$1" ;;
      esac
    SH

    # How each script ends that cannot set up: with a line that the hub knows, and the status that goes with it.
    def fail_function
      <<~SH
        fail() { echo "rakuda: needs env: #{quoted_in_quotes("#{@kind} #{@names.join(" ")}")}: $1, on $(uname -n)" >&2; exit 125; }
      SH
    end

    # What is said besides of packages in the run's folder: where hosts share none, a node has a folder of its own.
    UNBROUGHT = "$([ ! -e \"$folder/.rakuda-agent\" ] || echo '; packages in the folder of the run are not copied to hosts')"

    # $env is made once: under a lock, and as a whole or not at all. What its making says is shown only when it fails.
    # @param make [String] lines of the shell
    # @param suffix [String] what the name has besides, for the shell
    # @param whole [String] a condition of the shell: what else is true of one that is made
    def made_once(make, suffix: "", whole: ":")
      <<~SH
        #{fail_function.chomp}
        cache=${XDG_CACHE_HOME:-$HOME/.cache}/rakuda/env
        env=$cache/#{@kind}-#{@digest}-$(uname -m)#{suffix}
        #{FOLDER.chomp}
        made() { [ -e "$env/.rakuda-made" ] && #{whole}; }
        if ! made; then
          mkdir -p "$cache" || fail "no folder $cache"
          command -v flock >/dev/null || fail 'no flock (Debian: util-linux)'
          exec 9>"$env.lock" && flock 9 || fail "no lock $env.lock"
          if ! made; then
            rm -rf "$env"
            if (
              exec 9>&-
              cd "$folder" || exit
        #{make.gsub(/^/, "      ")}    ) >"$env.log" 2>&1 </dev/null; then
              : >"$env/.rakuda-made"
            else
              cat "$env.log" >&2
              fail "cannot be made ($env.log)#{UNBROUGHT if @files.local?}"
            fi
          fi
          exec 9>&-
        fi
      SH
    end

    # It has links to the interpreter that has made it: another interpreter has another one, and when that interpreter
    # goes, a new one is made.
    def venv_script
      make = <<~SH
        python3 -m venv "$env" && "$env/bin/python" -m pip install --quiet --disable-pip-version-check \\
          -r #{file_there}
      SH
      python = "python=$(readlink -f \"$(command -v python3)\" | tr / _)\n"
      made = made_once(make, suffix: "$python", whole: '[ -x "$env/bin/python" ]')
      "#{python}#{made}. \"$env/bin/activate\"\n#{RUN}"
    end

    def conda_script
      tool = <<~SH
        for tool in micromamba mamba conda ''; do [ -z "$tool" ] || ! command -v "$tool" >/dev/null || break; done
      SH
      make = <<~SH
        [ -n "$tool" ] || { echo 'neither micromamba nor mamba nor conda is here'; exit 1; }
        case $tool in
          micromamba) micromamba create --yes --quiet --prefix "$env" --file #{file_there} ;;
          *) "$tool" env create --quiet --prefix "$env" --file #{file_there} ;;
        esac
      SH
      run = <<~'SH'
        [ -n "$tool" ] || fail 'neither micromamba nor mamba nor conda is here'
        [ "$1" = -- ] && shift || set -- sh -c "$1"
        case $tool in
          micromamba) exec micromamba run --prefix "$env" "$@" ;;
          *) exec "$tool" run --no-capture-output --prefix "$env" "$@" ;;
        esac
      SH
      "#{tool}#{made_once(make)}#{run}"
    end

    def module_script
      <<~SH
        #{fail_function.chomp}
        for init in '' "${MODULESHOME:-/none}/init/sh" /etc/profile.d/modules.sh /etc/profile.d/lmod.sh \\
            /usr/share/modules/init/sh /usr/share/lmod/lmod/init/sh; do
          command -v module >/dev/null 2>&1 && break
          [ -r "$init" ] && . "$init"
        done
        command -v module >/dev/null 2>&1 || fail 'no command module'
        for name in #{@names.map { |name| Shellwords.escape(name) }.join(" ")}; do
          module load "$name" || fail "module load $name failed"
        done
        #{RUN}
      SH
    end

    # What containers that begin with an environment of their own are given of the command's: variables, those of the
    # task's devices and of PASS_ENV among them, and the file that one of them names.
    def given
      names = %w[RAKUDA_RUN RAKUDA_COMMAND CUDA_VISIBLE_DEVICES RAKUDA_NODES RAKUDA_HOSTFILE] | @passed
      [*names.map { |name| "--env #{Shellwords.escape(name)}" }, "$devices",
       '${RAKUDA_HOSTFILE:+--volume "$RAKUDA_HOSTFILE:$RAKUDA_HOSTFILE:ro"}'].join(" ")
    end

    # The client of a container that is no child of it, and what ends that in time: SIGKILL ends the client alone. So
    # after SIGTERM the container has half of the grace. One whose client and script were killed together is ended by
    # the next command in its place, which may write to the same target.
    CLIENT = <<~'SH'
      run() {
        ids=$folder/.rakuda/env/containers
        mkdir -p "$ids"
        for old in "$ids/$(uname -n)"-*; do
          [ -e "$old" ] || continue
          [ "${old##*-}" = $$ ] || ! kill -0 "${old##*-}" 2>/dev/null || continue
          "$tool" kill "$(cat "$old")" >/dev/null 2>&1
          rm -f "$old"
        done
        id=$ids/$(uname -n)-$$
        read -r stat </proc/$$/stat
        told= ending= client=
        trap 'pass_on INT' INT
        trap 'told=1; pass_on TERM' TERM
        trap : HUP
        # What runs behind & has no standard input by itself.
        exec 3<&0
        [ -z "$told" ] || exit 143
        "$tool" run --cidfile "$id" "$@" <&3 3<&- &
        client=$!
        while wait $client; status=$?; kill -0 $client 2>/dev/null; do
          [ -n "$told" ] && [ -z "$ending" ] || continue
          (
            trap '' INT TERM
            sleep $grace &
            timer=$!
            trap 'kill -KILL $timer; exit' HUP
            wait $timer
            "$tool" kill "$(cat "$id")"
          ) </dev/null >/dev/null 2>&1 3<&- &
          ending=$!
        done
        [ -z "$ending" ] || kill -HUP $ending 2>/dev/null
        # A client that was told several times may go before its container.
        [ -z "$told" ] || "$tool" kill "$(cat "$id")" >/dev/null 2>&1
        # The client's own status, of which there is no container.
        [ $status != 125 ] || [ -s "$id" ] || fail "$tool could not run it"
        rm -f "$id"
        exit $status
      }
      # To the client, which has it already when the two are a group of their own.
      pass_on() {
        signal=$1
        set -- ${stat##*) }
        [ "$3" = $$ ] || [ -z "$client" ] || kill -$signal $client
      }
    SH

    # Without an init the command would be process 1 of its container, which no signal ends that it does not handle.
    # Docker brings one; podman takes catatonit, which not every system has with it.
    def container_script
      file = File.exist?(path) || @names.first.match?(/\.(sif|img)\z/)
      image = @names.first
      apptainer = file ? named_there(path) : Shellwords.escape(image.include?("://") ? image : "docker://#{image}")
      others = file ? apptainer : Shellwords.escape(image.delete_prefix("docker://"))
      <<~SH
        [ "$1" = -- ] && shift || set -- sh -c "$1"
        #{fail_function.chomp}
        #{FOLDER.chomp}
        grace=#{@grace / 2.0}
        #{CLIENT.chomp}
        devices=$(env | sed -n 's/^\\(RAKUDA_DEVICES_[A-Z0-9_]*\\)=.*/--env \\1/p')
        for tool in apptainer singularity#{" podman docker" unless file} ''; do [ -z "$tool" ] || ! command -v "$tool" >/dev/null || break; done
        case $tool in
          apptainer | singularity)
            exec "$tool" exec --bind "$folder"${RAKUDA_HOSTFILE:+ --bind "$RAKUDA_HOSTFILE"} --pwd "$PWD" #{apptainer} "$@" ;;
          podman)
            init=
            for program in "$(command -v catatonit)" /usr/libexec/podman/catatonit /usr/lib/podman/catatonit; do
              [ ! -x "$program" ] || { init="--init --init-path $program"; break; }
            done
            run $init --rm --interactive --volume "$folder:$folder" --workdir "$PWD" #{given} #{others} "$@" ;;
          docker)
            run --init --rm --interactive --volume "$folder:$folder" --workdir "$PWD" #{given} \\
              --user "$(id -u):$(id -g)" #{others} "$@" ;;
        esac
        fail '#{file ? "neither apptainer nor singularity is there" : "none of apptainer, singularity, podman, docker is there"}'
      SH
    end

    # Within double quotes of the shell.
    def quoted_in_quotes(text)
      text.gsub(/["\\$`]/) { |one| "\\#{one}" }
    end
  end
end
