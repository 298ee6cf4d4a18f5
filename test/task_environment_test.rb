# frozen_string_literal: true

require "fileutils"
require "json"
require "minitest/autorun"
require "open3"
require "socket"
require "rakuda"
require_relative "support/scratch_folder"

# `needs env:`. A virtual environment of Python is made for real, from a wheel of this test and without a network, and a
# module of Debian's environment-modules is loaded. Tools that cannot be had here (apptainer, podman, conda) are
# stand-ins that note how they were called and do what the tool would do with the command; Docker is one, too.
class TaskEnvironmentTest < Minitest::Test
  include ScratchFolder

  WHEEL = <<~'PYTHON'
    import sys, zipfile
    with zipfile.ZipFile("camel-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("camel.py", "NAME = 'rakuda'\n")
        wheel.writestr("camel-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: camel\nVersion: 1.0\n")
        wheel.writestr("camel-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("camel-1.0.dist-info/RECORD", "camel.py,,\n")
  PYTHON

  def setup
    super
    FileUtils.mkdir_p([path("project"), path("cache"), path("tools")])
  end

  def project(name) = File.join(path("project"), name)

  def rakuda(rakefile, *arguments)
    File.write(project("Rakefile"), rakefile)
    # Of the tools only those of this test are in PATH, and what a shell needs.
    %w[sh dirname readlink uname mkdir flock rm cat id echo python3 ruby env sed tr chmod sleep setsid].each do |name|
      folder = ["/usr/bin", *ENV.fetch("PATH").split(":")].find { |one| File.executable?(File.join(one, name)) }
      File.symlink(File.join(folder, name), path("tools/#{name}")) unless File.exist?(path("tools/#{name}"))
    end
    Open3.capture3({ "PATH" => path("tools"), "XDG_CACHE_HOME" => path("cache") }, RAKUDA, *arguments, chdir: path("project"))
  end

  # A stand-in: it notes its words and the folder, then does what is given.
  def tool(name, script)
    File.write(path("tools/#{name}"), "#!/bin/sh\nfor word; do echo \"$word\"; done >>#{path("calls")}\n#{script}\n", perm: 0o755)
  end

  def calls = File.exist?(path("calls")) ? File.readlines(path("calls"), chomp: true) : []

  def journal
    File.readlines(Dir.glob(project(".rakuda/runs/*/journal.jsonl")).max).map { |line| JSON.parse(line) }
  end

  def test_a_virtual_environment_is_made_once_and_the_commands_run_inside
    Dir.chdir(path("project")) { system("python3", "-c", WHEEL) || flunk("no wheel") }
    File.write(project("requirements.txt"), "--no-index\n./camel-1.0-py3-none-any.whl\n")
    rakefile = <<~'RUBY'
      4.times do |n|
        needs env: { venv: "requirements.txt" }
        file("out#{n}") { |t| sh %(python3 -c 'import camel, sys; print(camel.NAME, sys.prefix)' > #{t.name}) }
      end
      needs env: { venv: "requirements.txt" }
      task(words: %w[out0 out1 out2 out3]) { sh "python3", "-c", "import camel; print('as words', camel.NAME)" }
      task(outside: :words) { sh "python3 -c 'import camel' 2>/dev/null || echo not outside" }
    RUBY
    out, errors, status = rakuda(rakefile, "-j2", "outside")
    assert status.success?, errors
    assert_equal "as words rakuda\nnot outside\n", out
    made = Dir.glob(path("cache/rakuda/env/venv-*")).select { |name| File.directory?(name) }
    assert_equal 1, made.size
    4.times { |n| assert_equal "rakuda #{made[0]}\n", File.read(project("out#{n}")) }
    assert_match(/^python3 -c 'import camel, sys/, errors, "the command is shown as the Rakefile has it")
    tasks = journal.select { |event| event["event"] == "task_defined" && event["params"] }
    assert_equal [["needs env"]] * 5, (tasks.map { |task| task["params"].map(&:first) })
    assert_match(/\Avenv requirements.txt, sha256 \h{64}\z/, tasks[0]["params"][0][1])
    stamp = File.mtime(File.join(made[0], ".rakuda-made"))
    File.delete(project("out1"))
    assert rakuda(rakefile, "out1")[2].success?
    assert_equal stamp, File.mtime(File.join(made[0], ".rakuda-made")), "it is not made again"
    # As after an upgrade of the system.
    FileUtils.ln_sf("/gone/python3", File.join(made[0], "bin/python3"))
    File.delete(project("out1"))
    assert rakuda(rakefile, "out1")[2].success?, "it is made again when its interpreter is gone"
    assert_equal "rakuda #{made[0]}\n", File.read(project("out1"))
  end

  # What a stand-in of python3 makes holds only what the script looks for.
  def test_each_interpreter_has_a_virtual_environment_of_its_own
    File.write(project("requirements.txt"), "")
    rakefile = "needs env: { venv: 'requirements.txt' }\ntask(:default) { sh 'echo inside' }\n"
    FileUtils.ln_sf(path("python3.11"), path("tools/python3"))
    %w[3.11 3.12 3.11].each do |version|
      File.write(path("python#{version}"), <<~SH, perm: 0o755)
        #!/bin/sh
        echo made with #{version} >>#{path("calls")}
        mkdir -p "$3/bin" && : >"$3/bin/activate" && printf '#!/bin/sh\n' >"$3/bin/python" && chmod 755 "$3/bin/python"
      SH
      FileUtils.ln_sf(path("python#{version}"), path("tools/python3"))
      out, errors, = rakuda(rakefile)
      assert_equal "inside\n", out, errors
    end
    assert_equal ["made with 3.11", "made with 3.12"], calls
  end

  def test_what_cannot_be_made_fails_with_what_the_tool_said_and_is_tried_again
    File.write(project("env.yml"), "dependencies: [none]\n")
    tool("mamba", "echo no such package; exit 1")
    rakefile = "needs env: { conda: 'env.yml' }\ntask(:default) { sh 'echo never' }\n"
    2.times do
      out, errors, status = rakuda(rakefile)
      assert_equal 1, status.exitstatus
      assert_empty out
      assert_match(/no such package.*rakuda: needs env: conda env.yml: cannot be made/m, errors)
      block = errors.lines(chomp: true).drop_while { |line| !line.start_with?("default: failed") }
      assert_equal "  command: echo never", block[1]
      made = /needs env: conda env.yml: cannot be made \(#{Regexp.escape(path("cache"))}\S+\.log\), on \S+/
      assert_match(/\A  could not be started: #{made}\z/, block[2])
      assert_match(/\A  in the environment: conda env.yml, sha256 /, block[3])
      assert_includes block, "    no such package"
      refute_includes errors, "command not found"
    end
    assert_equal "needs env: conda env.yml", journal.find { |event| event["event"] == "command_ended" }["error"][/\A[^:]+: [^:]+/]
    assert_equal 2, calls.count("create")
    assert_empty Dir.glob(path("cache/rakuda/env/conda-*/.rakuda-made"))
  end

  # The script that is executed in front of it is nobody's business but who wants to run it again.
  def test_a_command_is_told_as_the_rakefile_has_it_with_its_environment
    tool("micromamba", 'case $1 in create) mkdir -p "$5" ;; run) shift 3; exec "$@" ;; esac')
    File.write(project("env.yml"), "dependencies: []\n")
    _, errors, = rakuda(<<~RUBY, "--ci", "github")
      needs env: { conda: "env.yml" }
      task(:default) { sh "echo one > one"; sh "sh", "-c", "exit 3", "two words" }
    RUBY
    assert_match(/^  command: sh -c 'exit 3' 'two words'$/, errors)
    assert_match(/^::error .*: exit status 3: sh -c 'exit 3' 'two words'$/, errors)
    line, words = journal.select { |event| event["event"] == "command_started" }
    assert_equal ["echo one > one", nil, %w[sh -c] + ["exit 3", "two words"]], [line["line"], line["words"], words["words"]]
    assert_equal [%w[kind names script]] * 2, ([line, words].map { |event| event["env"].keys })
    assert_equal ["conda", ["env.yml"]], line["env"].values.first(2)
    assert_match(%r{\A\.rakuda/env/conda-\h{16}\.sh\z}, line["env"]["script"])
    told = ->(*question) { Open3.capture3("#{RAKUDA}ctl", *question, chdir: path("project")).first }
    assert_match(/\$ sh -c 'exit 3' 'two words'  # env: conda env.yml$/, told.call("story", "default"))
    story = JSON.parse(told.call("story", "default", "--json"))["events"].find { |event| event["what"] == "command_started" }
    assert_equal ["echo one > one", line["env"]], story.values_at("line", "env")
    failed = JSON.parse(told.call("report", "--json"))["failures"][0]
    assert_equal ["sh -c 'exit 3' 'two words'", "conda env.yml"], failed.values_at("command", "env")
    failure = %r{<failure message="Command failed with status \(3\): sh -c 'exit 3' 'two words'">command: sh }
    assert_match(failure, told.call("export", "junit"))
    # It can be run again with the script that the journal names.
    tools = { "PATH" => path("tools"), "XDG_CACHE_HOME" => path("cache") }
    again, = Open3.capture2(tools, "sh", line["env"]["script"], "--", "echo", "a b", chdir: path("project"))
    assert_equal "a b\n", again
  end

  def test_a_changed_file_is_another_environment_and_a_reason_with_rerun_on
    tool("micromamba", <<~'SH')
      case $1 in
        create) mkdir -p "$5" ;;
        run) shift 3; exec "$@" ;;
      esac
    SH
    rakefile = "needs env: { conda: 'env.yml' }\nfile('made') { |t| sh \"echo x > \#{t.name}\" }\n"
    File.write(project("env.yml"), "dependencies: [samtools=1.19]\n")
    assert rakuda(rakefile, "made")[2].success?
    env = calls[4]
    assert_match(%r{\A#{path("cache")}/rakuda/env/conda-\h{16}-\w+\z}, env)
    assert_equal ["create", "--yes", "--quiet", "--prefix", env, "--file", "env.yml",
                  "run", "--prefix", env, "sh", "-c", "echo x > made"], calls
    crate, errors, = Open3.capture3("#{RAKUDA}ctl", "export", "ro-crate", "-o", path("crate"), chdir: path("project"))
    assert_empty errors, crate
    assert_match(/in the environment: conda env.yml, sha256 \h{64}/, File.read(path("crate/ro-crate-metadata.json")))
    File.write(project("env.yml"), "dependencies: [samtools=1.20]\n")
    out, = rakuda(rakefile, "-n", "-q", "--rerun-on", "command", "made")
    assert_match(/\Amade: its parameter needs env has changed/, out)
    assert rakuda(rakefile, "--rerun-on", "command", "made")[2].success?
    assert_equal 2, calls.grep(/conda-/).uniq.size
  end

  def test_files_that_a_file_names_are_part_of_what_it_says
    tool("micromamba", 'case $1 in create) mkdir -p "$5" ;; run) shift 3; exec "$@" ;; esac')
    File.write(project("env.yml"), "dependencies: [pip, { pip: [-r pip.txt] }]\n")
    File.write(project("pip.txt"), "-c pins.txt\ncamel\n")
    rakefile = "needs env: { conda: 'env.yml' }\nfile('made') { |t| sh \"echo x > \#{t.name}\" }\n"
    made = ["camel==1.0", "camel==1.1", "camel==1.0"].map do |pin|
      File.write(project("pins.txt"), pin)
      _, errors, status = rakuda(rakefile, "--rerun-on", "command", "made")
      assert_predicate status, :success?, errors
      journal.find { |event| event["event"] == "task_defined" && event["params"] }.fetch("params")[0][1]
    end
    assert_match(/\Aconda env.yml with pip.txt pins.txt, sha256 \h{64}\z/, made[0])
    assert_equal [2, made[0]], [made.uniq.size, made[2]]
    assert_equal 2, calls.count("create"), "one for each of the pins, and none is made again"
    assert_equal 3, calls.count("run")
  end

  def test_conda_is_taken_where_there_is_no_other
    tool("conda", 'case $1 in env) mkdir -p "$5" ;; run) shift 4; exec "$@" ;; esac')
    File.write(project("env.yml"), "dependencies: []\n")
    out, errors, = rakuda("needs env: { conda: 'env.yml' }\ntask(:default) { sh 'echo', 'two words' }\n")
    assert_equal "two words\n", out, errors
    assert_equal %w[env create --quiet --prefix], calls.first(4)
    assert_equal ["--file", "env.yml", "run", "--no-capture-output", "--prefix", calls[4], "echo", "two words"], calls.drop(5)
  end

  def test_modules_are_loaded_before_the_command
    # `module` is a function of the shell, which MODULESHOME's init defines.
    FileUtils.mkdir_p(path("modules/init"))
    File.write(path("modules/init/sh"), <<~SH)
      module() { echo "$@" >>#{path("calls")}; [ "$2" != none/1 ] && eval LOADED=$LOADED:$2 && export LOADED; }
    SH
    ENV["MODULESHOME"] = path("modules")
    rakefile = "needs env: { module: ARGV_MODULES }\ntask(:default) { sh 'echo \"loaded $LOADED\"' }\n"
    out, errors, = rakuda(rakefile.sub("ARGV_MODULES", "%w[gcc/12 openmpi/4]"))
    assert_equal "loaded :gcc/12:openmpi/4\n", out, errors
    assert_equal ["load gcc/12", "load openmpi/4"], calls
    _, errors, status = rakuda(rakefile.sub("ARGV_MODULES", "'none/1'"))
    assert_equal 1, status.exitstatus
    assert_match(%r{^  could not be started: needs env: module none/1: module load none/1 failed, on \S+$}, errors)
  ensure
    ENV.delete("MODULESHOME")
  end

  def test_a_module_of_real_environment_modules_is_loaded_and_named_where_the_task_fails
    FileUtils.mkdir_p(path("modulefiles/camel"))
    File.write(path("modulefiles/camel/2"), "#%Module\nsetenv CAMEL dromedary\nprepend-path PATH /opt/camel/bin\n")
    environment = { "MODULEPATH" => path("modulefiles"), "XDG_CACHE_HOME" => path("cache"), "MODULESHOME" => nil }
    File.write(project("Rakefile"), <<~'RUBY')
      needs env: { module: "camel/2" }
      file("humps") { |t| sh 'echo "$CAMEL ${PATH%%:*}" > humps' }
      needs env: { module: "camel/2" }
      task(default: "humps") { sh "rakudactl explain default; test $CAMEL = bactrian" }
    RUBY
    environment["PATH"] = "#{File.dirname(RAKUDA)}:#{ENV.fetch("PATH")}"
    out, errors, status = Open3.capture3(environment, RAKUDA, chdir: path("project"))
    assert_equal 1, status.exitstatus, errors
    assert_equal "dromedary /opt/camel/bin\n", File.read(project("humps"))
    assert_match(%r{^default: running.*^  in the environment: module camel/2$}m, out)
    assert_match(%r{^default: failed after.*^  in the environment: module camel/2$}m, errors)
    document, = Open3.capture3("#{RAKUDA}ctl", "export", "wfformat", chdir: path("project"))
    assert_match(%r{; in the environment module camel/2: ID\d+ ID\d+\z}, JSON.parse(document)["description"])
  end

  def test_containers_run_the_command_in_its_folder_with_the_tool_that_is_there
    rakefile = "needs env: { container: 'IMAGE' }\ntask(:default) { sh 'echo inside; exit 0' }\n"
    folder = path("project")
    tool("docker", 'while [ "$1" != debian:12 ]; do shift; done; shift; exec "$@"')
    out, errors, = rakuda(rakefile.sub("IMAGE", "debian:12"))
    assert_equal "inside\n", out, errors
    user = "#{Process.uid}:#{Process.gid}"
    inside = ["debian:12", "sh", "-c", "echo inside; exit 0"]
    mount = ["--init", "--rm", "--interactive", "--volume", "#{folder}:#{folder}", "--workdir", folder,
             "--env", "RAKUDA_RUN", "--env", "RAKUDA_COMMAND", "--env", "CUDA_VISIBLE_DEVICES", "--env", "RAKUDA_NODES",
             "--env", "RAKUDA_HOSTFILE"]
    assert_equal ["run", "--cidfile", cid = calls[2], *mount, "--user", user, *inside], calls
    assert_match(%r{\A#{folder}/\.rakuda/env/containers/.+-\d+\z}, cid)
    # An image in a file is for apptainer, and for nothing else.
    File.write(project("image.sif"), "")
    _, errors, status = rakuda(rakefile.sub("IMAGE", "image.sif"))
    assert_equal 1, status.exitstatus
    assert_match(/container image.sif: neither apptainer nor singularity is there, on \S/, errors)
    tool("apptainer", "shift 6; exec \"$@\"")
    FileUtils.rm(path("calls"))
    out, errors, = rakuda(rakefile.sub("IMAGE", "image.sif"))
    assert_equal "inside\n", out, errors
    assert_equal ["exec", "--bind", folder, "--pwd", folder, project("image.sif"), *inside.drop(1)], calls
    FileUtils.rm(path("calls"))
    assert rakuda(rakefile.sub("IMAGE", "debian:12"))[2].success?
    assert_includes calls, "docker://debian:12"
  end

  def test_a_container_is_given_the_devices_of_the_task_and_what_pass_env_names
    tool("docker", 'while [ "$1" != debian:12 ]; do shift; done; shift; exec "$@"')
    File.write(project("rakuda.yaml"), "PASS_ENV: [LICENCE, NOT SET]\n")
    rakefile = <<~'RUBY'
      needs env: { container: "debian:12" }, resource: { "gpu" => 1, "big-disk" => 1 }
      task(:default) { sh "echo $RAKUDA_DEVICES_GPU$RAKUDA_DEVICES_BIG_DISK" }
    RUBY
    out, errors, = rakuda(rakefile, "--resource", "gpu=1", "--resource", "big-disk=1")
    assert_equal "00\n", out, errors
    given = calls.each_cons(2).select { |word, _| word == "--env" }.map(&:last)
    assert_equal ["LICENCE", "NOT SET", "RAKUDA_DEVICES_BIG_DISK", "RAKUDA_DEVICES_GPU"],
                 (given - %w[RAKUDA_RUN RAKUDA_COMMAND CUDA_VISIBLE_DEVICES RAKUDA_NODES RAKUDA_HOSTFILE]).sort
  end

  # What podman mounts as process 1 is not on every system.
  def test_a_container_of_podman_has_an_init_where_there_is_one
    tool("podman", 'while [ "$1" != debian:12 ]; do shift; done; shift; exec "$@"')
    FileUtils.touch(path("tools/catatonit"))
    File.chmod(0o755, path("tools/catatonit"))
    out, errors, = rakuda("needs env: { container: 'debian:12' }\ntask(:default) { sh 'echo inside; exit 0' }\n")
    assert_equal "inside\n", out, errors
    assert_equal ["--init", "--init-path", path("tools/catatonit"), "--rm", "--interactive"], calls[3, 5]
  end

  # A Docker whose client ends with its container, and whose container ends by `kill` alone.
  DEAF = <<~'SH'
    case $1 in
    kill) kill -KILL "$(cat "../containers/$2")"; exit ;;
    esac
    mkdir -p ../containers
    trap '' INT TERM
    env -i PATH="$PATH" setsid sh -c 'echo $$ > ../containers/4711; exec sleep 300' </dev/null >/dev/null 2>&1 &
    until [ -s ../containers/4711 ]; do sleep 0.01; done
    echo 4711 > "$3"
    echo "$$" > began
    while kill -0 "$(cat ../containers/4711)" 2>/dev/null; do wait; done
    exit 137
  SH

  # The script alone: no SIGKILL of a run comes before it has done its work.
  def test_a_container_is_ended_that_does_not_heed_sigterm
    tool("docker", 'while [ "$1" != debian:12 ]; do shift; done; shift; exec "$@"')
    rakuda("needs env: { container: 'debian:12' }\ntask(:default) { sh 'echo inside; exit 0' }\n", "--grace", "0.2")
    script = Dir.glob(project(".rakuda/env/container-*.sh")).first
    tool("docker", DEAF)
    pid = Process.spawn({ "PATH" => path("tools") }, "sh", script, "sleep 1", chdir: path("project"), pgroup: true)
    sleep 0.01 until File.size?(project("began"))
    refute_empty Dir.children(project(".rakuda/env/containers"))
    Process.kill(:INT, -pid)
    Process.kill(:TERM, -pid)
    assert_equal 137, Process.wait2(pid).last.exitstatus
    assert_equal %w[kill 4711], calls.last(2)
    assert_raises(Errno::ESRCH) { Process.kill(0, File.read(path("containers/4711")).to_i) }
    assert_empty Dir.children(project(".rakuda/env/containers"))
  end

  # What a run has left that was killed outright may write to the same target.
  def test_a_container_is_ended_whose_client_was_killed_before_another_one_begins
    tool("docker", '[ "$1" = run ] || exit; while [ "$1" != debian:12 ]; do shift; done; shift; exec "$@"')
    FileUtils.mkdir_p(containers = project(".rakuda/env/containers"))
    # No process has such a number.
    File.write(File.join(containers, "#{Socket.gethostname}-999999999"), "left")
    File.write(File.join(containers, "elsewhere-999999999"), "of another host")
    File.write(File.join(containers, "#{Socket.gethostname}-#{Process.pid}"), "at work")
    out, errors, = rakuda("needs env: { container: 'debian:12' }\ntask(:default) { sh 'echo inside; exit 0' }\n")
    assert_equal "inside\n", out, errors
    assert_equal %w[kill left run], calls.take(3)
    assert_equal ["#{Socket.gethostname}-#{Process.pid}", "elsewhere-999999999"].sort, Dir.children(containers).sort
  end

  # It is told its nodes in a file, which has to be there inside.
  def test_a_container_of_a_task_on_several_nodes_has_the_file_that_names_them
    tool("podman", 'while [ "$1" != debian:12 ]; do shift; done; shift; exec "$@"')
    rakefile = <<~'RUBY'
      needs env: { container: "debian:12" }, nodes: 1
      task(:default) { sh "cat $RAKUDA_HOSTFILE; echo $RAKUDA_HOSTFILE" }
    RUBY
    out, errors, = rakuda(rakefile)
    slots, file = out.lines(chomp: true)
    assert_match(/ slots=1\z/, slots.to_s, errors)
    assert_equal ["--volume", "#{file}:#{file}:ro"], calls[calls.index("RAKUDA_HOSTFILE") + 1, 2]
  end

  # Once the Rakefile has changed what only Ruby's own children have, commands are no longer the engine's.
  def test_a_command_that_cannot_run_inside_does_not_run
    tool("docker", "exit 9")
    rakefile = <<~RUBY
      task :before do
        STDOUT.reopen("log", "w")
        sh "echo outside"
      end
      needs env: { container: "debian:12" }
      task(inside: :before) { sh "echo > ran" }
    RUBY
    _, errors, status = rakuda(rakefile, "inside")
    assert_equal 1, status.exitstatus
    assert_match(/needs env: this command cannot be run inside/, errors)
    assert_equal "outside\n", File.read(project("log"))
    refute_path_exists project("ran")
    assert_empty calls
  end

  def test_a_file_is_read_when_a_task_that_needs_it_is_planned
    tool("conda", "[ \"$1\" = run ] || mkdir -p \"$5\"; [ \"$1\" != run ] || { shift 4; exec \"$@\"; }")
    rakefile = <<~RUBY
      needs env: { conda: "gone.yml" }
      task(:a) { sh "echo a" }
      task(:b) { sh "echo b" }
      file("made.yml") { |t| File.write(t.name, "name: made") }
      needs env: { conda: "made.yml" }
      task(inside: "made.yml") { sh "echo inside" }
      needs env: { conda: "made.yml" }
      task(:early) { sh "echo early" }
    RUBY
    out, errors, status = rakuda(rakefile, "b")
    assert_equal ["b\n", true], [out, status.success?], errors
    assert_equal 0, rakuda(rakefile, "-T")[2].exitstatus
    _, errors, status = rakuda(rakefile, "a")
    assert_equal 1, status.exitstatus
    assert_match(/Rakefile:1: needs: env: conda: cannot read gone.yml: No such file or directory, and no task makes it/, errors)
    _, errors, status = rakuda(rakefile, "early")
    assert_equal 1, status.exitstatus
    assert_match(/env: conda: cannot read made.yml: .*must be a prerequisite of those that run inside/, errors)
    out, errors, status = rakuda(rakefile, "inside")
    assert_equal ["inside\n", true], [out, status.success?], errors
    task = journal.find { |event| event["event"] == "task_defined" && event["params"] }
    assert_equal [["needs env", "conda made.yml, which a task makes"]], task["params"]
  end

  MISTAKES = {
    "env: 'x'" => /env: expected one of container, module, conda, venv with its value, such as \{ venv: ".*" \}, not "x"/,
    "env: { vnev: 'x' }" => /env: unknown kind vnev; there are container, module, conda, venv/,
    "env: { venv: 'gone.txt' }" => /env: venv: cannot read gone.txt: No such file or directory, and no task makes it/,
    "env: { venv: %w[a b] }" => /env: venv: expected a file such as "requirements.txt", not \["a", "b"\]/,
    "env: { module: [] }" => %r{env: module: expected names of modules, such as "gcc/12"},
    "venv: 'x'" => /unknown keyword venv; did you mean env\?/
  }.freeze

  def test_mistakes_are_told_with_their_place
    MISTAKES.each do |text, message|
      _, errors, status = rakuda("needs #{text}\ntask(:default) { sh 'true' }\n")
      assert_equal 1, status.exitstatus, text
      assert_match(/\ARakefile:1: needs: /, errors.sub("rakuda: ", ""))
      assert_match(message, errors)
    end
  end
end
