# frozen_string_literal: true

require "fileutils"
require "minitest/autorun"
require "open3"
require "tmpdir"

# The gem, built and installed into a GEM_HOME of the test's own, with the engine in PATH.
class GemTest < Minitest::Test
  ROOT = File.expand_path("../..", __dir__)

  def setup
    @place = Dir.mktmpdir("rakuda-gem")
    @home = File.join(@place, "home")
    engines = File.join(@place, "engines")
    Dir.mkdir(engines)
    File.symlink(File.join(ROOT, "target/release/rakudad"), File.join(engines, "rakudad"))
    @environment = { "GEM_HOME" => @home, "GEM_PATH" => nil, "RAKUDA_ENGINE" => nil, "RAKUDA_FRONT" => nil, "RAKEOPT" => nil,
                     "RUBYLIB" => nil, "RUBYOPT" => nil, "PATH" => "#{@home}/bin:#{engines}:#{ENV.fetch("PATH")}" }
  end

  def teardown
    FileUtils.remove_entry(@place)
  end

  def test_installed_gem_runs_a_rakefile_and_answers
    file = File.join(@place, "rakuda.gem")
    run_well("gem", "build", "--output", file, File.join(ROOT, "rakuda.gemspec"), chdir: ROOT)
    run_well("gem", "install", "--local", "--no-document", "--ignore-dependencies", file)
    Dir.mkdir(@work = File.join(@place, "work"))
    File.write(File.join(@work, "Rakefile"), <<~RUBY)
      file("out") { |t| sh "echo made > \#{t.name}" }
      task default: "out"
      task(:where) { puts $LOADED_FEATURES.grep(/rakuda.application/) }
    RUBY
    assert_equal "echo made > out\n", run_well("rakuda", "--progress", "off").lines.first
    assert_match(/out ran in .*: missing/, run_well("rakudactl", "why", "out", "--run", "last"))
    assert_equal "out would not run: it is up to date\n", run_well("rakudactl", "why", "out")
    assert_match(%r{\A#{Regexp.quote(@home)}/gems/rakuda-[\d.]+/lib/}, run_well("rakuda", "-q", "where"))
    listed = run_well("rakudactl", "bench", "list")
    ["mr-sort ", "ior ", "netcdf-plain "].each { |name| assert_match(/^#{name}/, listed) }
    assert_path_exists Dir.glob("#{@home}/gems/rakuda-*/gate/rakuda_gate.h").first.to_s
    File.write(File.join(@work, "Rakefile"), "task(:default) { raise 'bad' }")
    output, status = Open3.capture2e(@environment, "rakuda", "--progress", "off", chdir: @work)
    assert_equal 1, status.exitstatus
    refute_match(%r{/gems/|exe/rakuda|bin/rakuda}, output, "the backtrace has only lines of the Rakefile")
  end

  # As somebody builds it who has put the engine into libexec/, in a copy of what the gem holds.
  def test_gem_that_holds_the_engine_needs_no_other
    source = File.join(@place, "source")
    [*files_of_the_gem, "rakuda.gemspec"].each do |name|
      FileUtils.mkdir_p(File.dirname(File.join(source, name)))
      FileUtils.cp(File.join(ROOT, name), File.join(source, name))
    end
    FileUtils.cp(File.join(ROOT, "target/release/rakudad"), File.join(source, "libexec"))
    @environment["PATH"] = "#{@home}/bin:#{ENV.fetch("PATH")}"
    run_well("gem", "build", "rakuda.gemspec", chdir: source)
    built = Dir.glob("*.gem", base: source)
    assert_equal ["rakuda-#{version_of_the_gem}-#{Gem::Platform.local}.gem"], built, "it is for this type of machine"
    run_well("gem", "install", "--local", "--no-document", "--ignore-dependencies", File.join(source, built[0]))
    Dir.mkdir(@work = File.join(@place, "work"))
    File.write(File.join(@work, "Rakefile"), "file('out') { |t| sh \"echo made > \#{t.name}\" }\ntask default: 'out'\n")
    run_well("rakuda", "-q")
    assert_equal "made\n", File.read(File.join(@work, "out"))
    assert_match(/out ran in .*: missing/, run_well("rakudactl", "why", "out", "--run", "last"))
    own = %r{, #{Regexp.quote(@home)}/gems/rakuda-[^/]+/libexec/rakudad$}
    assert_match(own, run_well("rakuda", "--version"))
  end

  def test_links_of_its_readme_lead_to_pages_in_the_gem
    files = files_of_the_gem
    pages = files.grep(%r{\A(?:README\.md|docs/(?:guide|reference)/.*\.md)\z})
    assert_operator pages.size, :>, 20
    dead = pages.flat_map do |page|
      links = File.read(File.join(ROOT, page)).scan(/\]\(([^)#\s]+)(?:#[^)]*)?\)/).flatten.grep_v(/\A[a-z]+:/)
      targets = links.map { |link| File.expand_path(link, "/#{File.dirname(page)}").delete_prefix("/") }
      targets.reject! { |target| files.any? { |file| file == target || file.start_with?("#{target}/") } }
      targets.map { |target| "#{page}: #{target}" }
    end
    assert_empty dead
  end

  def test_version_of_the_gem_is_that_of_the_engine
    assert_includes File.read(File.join(ROOT, "Cargo.toml")), "\nversion = \"#{version_of_the_gem}\"\n"
  end

  private

  def files_of_the_gem
    run_well("ruby", "-e", "puts Gem::Specification.load('rakuda.gemspec').files", chdir: ROOT).lines(chomp: true)
  end

  def version_of_the_gem
    run_well("ruby", "-e", "print Gem::Specification.load('rakuda.gemspec').version", chdir: ROOT)
  end

  def run_well(*words, chdir: @work || @place)
    output, status = Open3.capture2e(@environment, *words, chdir: chdir)
    assert_predicate status, :success?, output
    output
  end
end
