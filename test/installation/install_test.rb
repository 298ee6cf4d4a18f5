# frozen_string_literal: true

require "fileutils"
require "minitest/autorun"
require "open3"
require "tmpdir"

# `make install` into a prefix of the test's own, with a blank in its name: what is there works from there, and
# `make uninstall` leaves nothing. The engine is the one that was built for the tests, so nothing is compiled here.
class InstallTest < Minitest::Test
  ROOT = File.expand_path("../..", __dir__)
  # What the environment of the tests may say of these would hide what the installed parts find by themselves.
  CLEAN = { "RAKUDA_ENGINE" => nil, "RAKUDA_FRONT" => nil, "RAKEOPT" => nil, "RUBYLIB" => nil, "RUBYOPT" => nil, "DESTDIR" => nil,
            "CARGO_TARGET_DIR" => nil }.freeze
  RAKEFILE = <<~RUBY
    file("out") { |t| sh "echo made > \#{t.name}" }
    task default: "out"
  RUBY

  def setup
    @place = Dir.mktmpdir("rakuda install")
    @prefix = File.join(@place, "a prefix", "deep")
  end

  def teardown
    FileUtils.remove_entry(@place)
  end

  def test_installed_commands_find_their_parts_and_uninstall_leaves_nothing
    make("install")
    Dir.mkdir(work = File.join(@place, "work"))
    File.write(File.join(work, "Rakefile"), RAKEFILE)
    assert_equal "echo made > out\n", command("rakuda", "--progress", "off", chdir: work).lines.first
    assert_match(/out ran in .*: missing/, command("rakudactl", "why", "out", "--run", "last", chdir: work))
    assert_equal "out would not run: it is up to date\n", command("rakudactl", "why", "out", chdir: work)
    version = /rakudad #{Regexp.quote(declared_version)} \(commit \h{12}, [\w-]+-linux-\w+\)/
    assert_match(version, command("rakuda", "--version", chdir: work))
    assert_match(/\A#{version.source.sub("rakudad", "rakudactl")}$/, command("rakudactl", "--version", chdir: work))
    listed = command("rakudactl", "bench", "list", chdir: work)
    ["mr-sort ", "ior ", "netcdf-plain "].each { |name| assert_match(/^#{name}/, listed) }
    assert_path_exists File.join(@prefix, "lib/rakuda/lib/rakuda/bench/shapes.py")
    assert_empty broken_links
    wait_at_gates(work)
    uninstalled = make("uninstall")
    assert_equal ["work"], Dir.children(@place), uninstalled
  end

  def test_moved_prefix_works_and_links_to_it_do
    make("install")
    moved = File.join(@place, "moved")
    File.rename(@prefix, moved)
    File.symlink(File.join(moved, "bin/rakuda"), link = File.join(@place, "linked"))
    Dir.mkdir(work = File.join(@place, "work"))
    File.write(File.join(work, "Rakefile"), "task(:default) { puts $LOADED_FEATURES.grep(/rakuda.application/) }")
    output = run_well(link, "--progress", "off", chdir: work)
    assert_equal [File.join(moved, "lib/rakuda/lib/rakuda/application.rb")], output.lines(chomp: true)
  end

  def test_moved_prefix_is_replaced_and_removed_where_it_is_and_another_at_the_old_place_stays
    make("install")
    former = File.join(@prefix, "lib/rakuda/lib/rakuda/former.rb")
    File.write(former, "")
    File.write(File.join(@prefix, "lib/rakuda/installed"), "#{former}\n", mode: "a")
    moved = File.join(@place, "moved", "to")
    FileUtils.mkdir_p(File.dirname(moved))
    FileUtils.mv(@prefix, moved)
    make("install")
    at_old_place = Dir.glob("**/*", base: @prefix)
    make("install", "PREFIX=#{moved}")
    assert_empty at_old_place - Dir.glob("**/*", base: @prefix), "the other installation is no part of this one"
    refute_path_exists File.join(moved, "lib/rakuda/lib/rakuda/former.rb")
    assert_equal at_old_place, Dir.glob("**/*", base: moved)
    make("uninstall", "PREFIX=#{moved}")
    assert_empty Dir.children(File.join(@place, "moved")), "the folder above it was there before"
    assert_empty at_old_place - Dir.glob("**/*", base: @prefix)
  end

  def test_moved_prefix_is_removed_without_installing_it_again
    make("install")
    moved = File.join(@place, "moved")
    File.rename(@prefix, moved)
    make("uninstall", "PREFIX=#{moved}")
    refute_path_exists moved
    assert_path_exists File.dirname(@prefix), "what is at the old place is not touched"
  end

  def test_installing_again_replaces_all_and_removes_what_is_no_longer_part_of_it
    make("install")
    list = File.join(@prefix, "lib/rakuda/installed")
    former = File.join(@prefix, "lib/rakuda/lib/rakuda/former.rb")
    foreign = File.join(@prefix, "bin/foreign")
    [former, foreign].each { |path| File.write(path, "") }
    File.write(list, "#{former}\n", mode: "a")
    make("install")
    refute_path_exists former
    assert_path_exists foreign
    make("uninstall")
    left = Dir.glob("**/*", base: @prefix)
    assert_equal %w[bin bin/foreign], left
  end

  def test_packages_are_made_below_a_folder_that_no_name_inside_knows
    stage = File.join(@place, "stage")
    make("install", "DESTDIR=#{stage}", "PREFIX=/usr")
    assert_equal %w[usr], Dir.children(stage)
    files = Dir.glob("#{stage}/usr/**/*").select { |path| File.file?(path) }
    texts = files.reject { |path| path.end_with?("/rakudad") }
    assert_empty(texts.select { |path| File.read(path).include?(stage) })
    File.write(File.join(@place, "Rakefile"), RAKEFILE)
    assert_equal "echo made > out\n", run_well(File.join(stage, "usr/bin/rakuda"), "--progress", "off", chdir: @place).lines.first
    make("uninstall", "DESTDIR=#{stage}", "PREFIX=/usr")
    refute_path_exists stage
  end

  def test_engines_for_other_machine_types_are_installed_beside_the_own_one
    engine = File.join(@place, "rakudad")
    ["", "-aarch64", "-foreign"].each { |type| File.write(engine + type, "engine#{type}", perm: 0o755) }
    run_well(File.join(ROOT, "tools/install"), "install", chdir: @place, environment: { "PREFIX" => @prefix, "ENGINE" => engine })
    libexec = File.join(@prefix, "lib/rakuda/libexec")
    assert_equal %w[rakudad rakudad-aarch64], Dir.children(libexec).grep(/rakudad/).sort
    assert_equal "engine-aarch64", File.read(File.join(libexec, "rakudad-aarch64"))
    make("uninstall")
    refute_path_exists libexec
  end

  def test_the_units_of_systemd_find_the_engine_of_their_prefix
    @prefix = File.join(@place, "100% a | b & c")
    make("install")
    engine = "#{@place}/100%% a | b & c/lib/rakuda/libexec/rakudad"
    { "user" => "%t/rakuda-info.token", "system" => "%t/rakuda-info/token" }.each do |manager, token|
      unit = File.join(@prefix, "share/systemd/#{manager}/rakuda-info.service")
      started = File.readlines(unit).grep(/^ExecStart=/)
      assert_equal ["ExecStart=\"#{engine}\" info --listen 127.0.0.1:9300 --token-file #{token} $RAKUDA_INFO\n"], started
      # It says what it does not know, and that a program is not there.
      run_well("systemd-analyze", "--#{manager}", "--man=no", "verify", unit, chdir: @place,
               environment: { "XDG_RUNTIME_DIR" => @place })
    end
  end

  def test_all_that_is_missing_is_named_at_once
    tools = File.join(@place, "tools")
    Dir.mkdir(tools)
    %w[sh dirname sed sort head cut].each { |tool| File.symlink(which(tool), File.join(tools, tool)) }
    _, errors, status = Open3.capture3({ "PATH" => tools, "HOME" => @place, "CARGO_HOME" => nil, "PREFIX" => @prefix },
                                       File.join(ROOT, "tools/install"), "check", unsetenv_others: true)
    assert_equal 1, status.exitstatus
    ["cargo of Rust 1.88 or later", "cc, a C compiler", "Ruby 3.0 or later", "rake and msgpack"].each do |part|
      assert_match(/^ +#{part}/, errors)
    end
    File.write(File.join(tools, "ruby"), "#!/bin/sh\n[ \"$2\" != 'print RUBY_VERSION' ] || printf 2.7.6\n", perm: 0o755)
    _, errors, = Open3.capture3({ "PATH" => tools, "HOME" => @place, "PREFIX" => @prefix },
                                File.join(ROOT, "tools/install"), "check", unsetenv_others: true)
    assert_match(/^ +Ruby 3.0 or later: .*ruby is 2\.7\.6$/, errors)
  end

  def test_relative_prefix_is_refused
    output, status = Open3.capture2e(CLEAN, "make", "-s", "install", "CARGO=true", "PREFIX=some/where", chdir: ROOT)
    refute_predicate status, :success?
    assert_includes output, "PREFIX=some/where: expected an absolute path"
  end

  # As a shell hands it over that does not expand it.
  def test_tilde_of_a_prefix_is_the_users_home
    environment = { "HOME" => @place, "PREFIX" => "~/a b", "ENGINE" => File.join(ROOT, "target/release/rakudad") }
    run_well(File.join(ROOT, "tools/install"), "install", chdir: @place, environment: environment)
    assert_path_exists "#{@place}/a b/bin/rakuda"
    run_well("make", "-s", "uninstall", "PREFIX=~/a b", chdir: ROOT, environment: environment)
    refute_path_exists "#{@place}/a b"
  end

  def test_a_rustc_without_a_toolchain_is_said_to_have_none
    tools = File.join(@place, "tools")
    Dir.mkdir(tools)
    %w[sh dirname sed sort head cut].each { |tool| File.symlink(which(tool), File.join(tools, tool)) }
    %w[cargo rustc].each do |tool|
      File.write(File.join(tools, tool), "#!/bin/sh\necho 'error: rustup could not choose a version' >&2\nexit 1\n", perm: 0o755)
    end
    _, errors, status = Open3.capture3({ "PATH" => tools, "HOME" => @place, "PREFIX" => @prefix },
                                       File.join(ROOT, "tools/install"), "check", unsetenv_others: true)
    assert_equal 1, status.exitstatus
    assert_match(/^ +Rust 1.88 or later: .*rustc does not say its version; with rustup: rustup default stable$/, errors)
  end

  private

  # Programs that call the gate themselves are built, and find it, as the documentation says.
  def wait_at_gates(work)
    File.write(File.join(work, "called.c"), <<~'C')
      #include <rakuda_gate.h>
      int main(void) { return rakuda_gate() ? 0 : 3; }
    C
    run_well("cc", "-I", "#{@prefix}/include", "called.c", "-o", "called", chdir: work)
    assert_equal 3, Open3.capture2e("./called", chdir: work).last.exitstatus, "no round has started it"
    File.write(File.join(work, "Rakefile"), <<~'RUBY')
      sync(:c, workers: 1, gate: :call, overhead: false) { |w| sh "./called" }
      sync(:ruby, workers: 1, gate: :call, overhead: false) do |w|
        sh "ruby", "-I", ENV.fetch("LIBRARY"), "-r", "rakuda/gate", "-e", "exit Rakuda::Gate.wait"
      end
      task default: %w[c ruby]
    RUBY
    command("rakuda", "-q", "LIBRARY=#{@prefix}/lib/rakuda/lib", chdir: work)
  end

  # Of README and of what it calls the documentation. Pages of bench, iobench and testbed tell of files beside them.
  def broken_links
    folder = File.join(@prefix, "share/doc/rakuda")
    pages = Dir.glob("{*,docs/**/*}.md", base: folder)
    assert_includes pages, "docs/reference/command-line.md"
    pages.flat_map do |page|
      links = File.read(File.join(folder, page)).scan(/\]\(([^)#\s]+)(?:#[^)]*)?\)/).flatten.grep_v(/\A[a-z]+:/)
      missing = links.reject { |link| File.exist?(File.expand_path(link, File.dirname(File.join(folder, page)))) }
      missing.map { |link| "#{page}: #{link}" }
    end
  end

  def make(target, *words)
    words = ["PREFIX=#{@prefix}"] + words
    run_well("make", "-s", target, "CARGO=true", *words, chdir: ROOT)
  end

  # An installed command, found through PATH.
  def command(name, *words, chdir:)
    run_well(name, *words, chdir: chdir, environment: { "PATH" => "#{@prefix}/bin:#{ENV.fetch("PATH")}" })
  end

  def run_well(*words, chdir:, environment: {})
    output, status = Open3.capture2e(CLEAN.merge(environment), *words, chdir: chdir)
    assert_predicate status, :success?, output
    output
  end

  def declared_version = File.read(File.join(ROOT, "Cargo.toml"))[/^version = "(.*)"/, 1]

  def which(tool) = ENV.fetch("PATH").split(":").map { |folder| File.join(folder, tool) }.find { |path| File.executable?(path) }
end
