# frozen_string_literal: true

require "minitest/autorun"
require_relative "../support/near_hosts"

# `needs env:` on hosts that share no folder: the script, the file that says what the environment is made of, and what
# that names are brought to them. A virtual environment is made for real, of a wheel that every host has; conda and
# apptainer are stand-ins that show what they were given.
class EnvironmentsElsewhereTest < Minitest::Test
  include NearHosts

  WHEEL = <<~'PYTHON'
    import sys, zipfile
    with zipfile.ZipFile(sys.argv[1] + "/camel-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("camel.py", "NAME = 'rakuda'\n")
        wheel.writestr("camel-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: camel\nVersion: 1.0\n")
        wheel.writestr("camel-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("camel-1.0.dist-info/RECORD", "camel.py,,\n")
  PYTHON
  MICROMAMBA = <<~'SH'
    #!/bin/sh
    case $1 in
      create) mkdir -p "$5" && cp "$7" "$5/made-of" ;;
      run) cat "$3/made-of"; shift 3; exec "$@" ;;
    esac
  SH
  APPTAINER = <<~'SH'
    #!/bin/sh
    [ "$1 $2 $4" = "exec --bind --pwd" ] || exit 99
    cat "$6" && test "$5" = "$3/sub" && shift 6 && exec "$@"
  SH

  def test_a_virtual_environment_is_made_of_files_that_were_brought
    near_hosts do |run|
      system("python3", "-c", WHEEL, run.base, exception: true)
      run.write("env/requirements.txt", "--no-index\n-r more.txt\n")
      run.write("env/more.txt", "--find-links #{run.base}\ncamel\n")
      result = run.rakuda(<<~'RUBY', "all")
        %w[host1 host2].each do |host|
          needs env: { venv: "env/requirements.txt" }, inputs: []
          desc "allow=#{host}"
          file(host) { |t| sh "python3 -c 'import camel; print(camel.NAME)' > #{t.name}" }
        end
        task all: %w[host1 host2]
      RUBY
      assert_equal 0, result.status, result.err
      assert_equal %W[rakuda\n rakuda\n], [run.read("host1"), run.read("host2")]
      %w[host1 host2].each { |host| assert_equal %w[env/more.txt env/requirements.txt], run.files(host).grep(/txt/) }
      command = run.events.find { |event| event["event"] == "command_started" }
      assert_equal ["venv", ["env/requirements.txt"]], command["env"].values_at("kind", "names")
      assert_match(%r{\A\.rakuda/env/venv-\h{16}\.sh\z}, command["env"]["script"])
    end
  end

  def test_a_file_that_a_task_makes_is_found_where_the_command_runs
    near_hosts do |run|
      File.write(File.join(run.base, "bin/micromamba"), MICROMAMBA, perm: 0o755)
      result = run.rakuda(<<~'RUBY', "out")
        desc "allow=host1"
        file("env.yml") { |t| sh "echo made of this > #{t.name}" }
        needs env: { conda: "env.yml" }
        desc "allow=host2"
        file("out" => "env.yml") { |t| sh "echo inside; echo inside > #{t.name}" }
      RUBY
      assert_equal [0, "made of this\ninside\n", "inside\n"], [result.status, result.out, run.read("out")], result.err
    end
  end

  def test_an_image_and_a_command_in_another_folder
    near_hosts do |run|
      File.write(File.join(run.base, "bin/apptainer"), APPTAINER, perm: 0o755)
      run.write("images/small.sif", "the image\n")
      run.write("sub/in", "")
      result = run.rakuda(<<~'RUBY', "-j1")
        needs env: { container: "images/small.sif" }
        task(:default) do
          Dir.chdir("sub") do
            sh "echo first"
            sh "echo", "second"
          end
        end
      RUBY
      assert_equal [0, "the image\nfirst\nthe image\nsecond\n"], [result.status, result.out], result.err
      assert_equal 1, [run.files("host1"), run.files("host2")].flatten.count("images/small.sif")
    end
  end

  # In it pip finds no package.
  PYTHON = <<~'SH'
    #!/bin/sh
    [ "$1 $2" = "-m venv" ] && mkdir -p "$3/bin" && cp "$(dirname "$0")/pip" "$3/bin/python"
  SH
  PIP = "#!/bin/sh\necho \"ERROR: no package: $*\" >&2\nexit 1\n"

  def test_packages_of_the_runs_folder_are_not_brought_and_that_is_said
    near_hosts do |run|
      { "python3" => PYTHON, "pip" => PIP }.each { |name, text| File.write(File.join(run.base, "bin", name), text, perm: 0o755) }
      run.write("requirements.txt", "--no-index\n./package\n")
      result = run.rakuda("needs env: { venv: 'requirements.txt' }\ntask(:default) { sh 'echo never' }\n")
      assert_equal [1, ""], [result.status, result.out]
      assert_match(/cannot be made \(.*\); packages in the folder of the run are not copied to hosts, on /, result.err)
    end
  end

  # It is brought once; the second one waits for it, too.
  def test_two_commands_that_read_one_file_wait_for_it
    near_hosts do |run|
      run.write("hosts", "host1 2\n")
      run.write("big", "x" * (48 << 20))
      result = run.rakuda(<<~'RUBY', "all")
        files = Array.new(2) { |n| file("out#{n}") { |t| sh "wc -c < big > #{t.name}" }.name }
        multitask all: files
      RUBY
      assert_equal 0, result.status, result.err
      counted = Array.new(2) { |n| run.read("out#{n}").to_i }
      assert_equal [48 << 20] * 2, counted
    end
  end
end
