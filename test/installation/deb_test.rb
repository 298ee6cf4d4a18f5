# frozen_string_literal: true

require "fileutils"
require "minitest/autorun"
require "open3"
require "tmpdir"

# `make deb`: the package that tools/deb makes of the engine that was built for the tests. It is looked into and
# unpacked, not installed. lintian, Debian's own critic, has nothing to say of it.
class DebTest < Minitest::Test
  ROOT = File.expand_path("../..", __dir__)
  # The engine is large; how well it is packed is not what is tested.
  FAST = { "DPKG_DEB_COMPRESSOR_TYPE" => "gzip", "DPKG_DEB_COMPRESSOR_LEVEL" => "1",
           "ENGINE" => File.join(ROOT, "target/release/rakudad"), "DEBFULLNAME" => "Some One", "DEBEMAIL" => "one@debian.org",
           "RAKUDA_ENGINE" => nil, "RAKUDA_FRONT" => nil, "RAKEOPT" => nil, "RUBYLIB" => nil, "RUBYOPT" => nil }.freeze
  NEEDED = %w[libc6 libgcc-s1 rake ruby ruby-msgpack].freeze
  # What Debian wants elsewhere, or in another form, than tools/install puts it.
  OWN_PLACES = %w[zsh/vendor-completions/_rakuda man/man1/rakuda.1.gz man/man7/rakuda-properties.7.gz doc/rakuda/copyright
                  doc/rakuda/changelog.gz doc/rakuda/changelog.Debian.gz]
               .map { |name| "usr/share/#{name}" }.push("usr/include/rakuda_gate.h").freeze

  def setup
    @place = Dir.mktmpdir("rakuda deb")
  end

  def teardown
    FileUtils.remove_entry(@place)
  end

  def test_package_says_what_it_needs_and_its_commands_run_from_where_they_are
    run_well(File.join(ROOT, "tools/deb"), @place)
    package, *others = Dir.children(@place)
    assert_empty others
    assert_match(/\Arakuda_#{Regexp.quote(declared_version)}-1_\w+\.deb\z/, package)
    package = File.join(@place, package)
    assert_empty run_well("lintian", "--fail-on", "error,warning", "--allow-root", package)
    fields = run_well("dpkg-deb", "--info", package, "control").scan(/^(\w[\w-]*): (.*)$/).to_h
    assert_equal ["rakuda", "#{declared_version}-1", "Some One <one@debian.org>"],
                 fields.values_at("Package", "Version", "Maintainer")
    assert_equal NEEDED, fields["Depends"].split(", ").map { |need| need[/\S+/] }.sort
    look_into(run_well("dpkg-deb", "--contents", package))
    run_well("dpkg-deb", "--extract", package, unpacked = File.join(@place, "unpacked"))
    look_at_texts(File.join(unpacked, "usr/share/doc/rakuda"))
    follow_links(File.join(unpacked, "usr/share/doc/rakuda"))
    File.write(File.join(@place, "Rakefile"), "file('made') { |t| sh \"echo it > \#{t.name}\" }\ntask default: 'made'")
    run_well(File.join(unpacked, "usr/bin/rakuda"), "-q")
    assert_equal "it\n", File.read(File.join(@place, "made"))
    assert_match(/made ran in/, run_well(File.join(unpacked, "usr/bin/rakudactl"), "why", "made", "--run", "last"))
  end

  private

  def look_into(contents)
    lines = contents.lines(chomp: true)
    assert_empty(lines.reject { |line| line.match?(%r{\A\S+ root/root }) })
    assert_empty(lines.reject { |line| line.match?(/\A(?:[dl]|-rw-r--r--|-rwxr-xr-x)/) })
    names = lines.map { |line| line[%r{ \./(.*?)(?: -> .*)?\z}, 1] }
    assert_empty OWN_PLACES - names
    assert_empty(names.grep(%r{site-functions|/installed\z|/LICENSE\z|\.[157]\z}))
  end

  def follow_links(folder)
    links = File.read(File.join(folder, "README.md")).scan(/\]\(([^)#\s]+)(?:#[^)]*)?\)/).flatten.grep_v(/\A[a-z]+:/)
    assert_includes links, "changelog.gz"
    assert_empty(links.reject { |link| File.exist?(File.join(folder, link)) })
  end

  # Each crate in the engine is named with its license.
  def look_at_texts(folder)
    copyright = File.read(File.join(folder, "copyright"))
    assert_match(/^License: Apache-2\.0$/, copyright)
    assert_match(/^ tokio [\d.]+: MIT$/, copyright)
    refute_match(%r{: $|rakuda-|\(/|criterion}, copyright)
  end

  def declared_version
    File.read(File.join(ROOT, "lib/rakuda.rb"))[/^  VERSION = "(.*)"/, 1]
  end

  def run_well(*words)
    output, status = Open3.capture2e(FAST, "timeout", "-s", "KILL", "900", *words, chdir: @place)
    assert_predicate status, :success?, "#{words.join(" ")}\n#{output}"
    output
  end
end
