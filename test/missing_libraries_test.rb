# frozen_string_literal: true

require "minitest/autorun"
require "open3"
require_relative "support/scratch_folder"

# What is said where Ruby, rake or msgpack is missing: one line, with what to install. Ruby finds no such library, as
# `require` does not find it.
class MissingLibrariesTest < Minitest::Test
  include ScratchFolder

  HIDING = <<~'RUBY'
    module Hiding
      def require(name)
        return super unless name == ENV["HIDDEN"]

        error = LoadError.new("cannot load such file -- #{name}")
        error.define_singleton_method(:path) { name }
        raise error
      end
    end
    Object.prepend(Hiding)
  RUBY

  def test_a_library_that_is_missing_is_named_with_what_to_install
    File.write(path("Rakefile"), "task(:default) { sh 'echo never' }\n")
    File.write(path("hiding.rb"), HIDING)
    { "msgpack" => "ruby-msgpack", "rake" => "rake" }.each do |library, package|
      said, status = Open3.capture2e({ "RUBYOPT" => "-r#{path("hiding.rb")}", "HIDDEN" => library }, RAKUDA, chdir: @folder)
      assert_equal 1, status.exitstatus, said
      hint = "install Debian's #{package}, or `gem install --user-install #{library}`"
      assert_match(/\Arakuda: \S+ has no library #{library}: #{hint}\n\z/, said)
    end
  end

  def test_without_ruby_it_is_said_that_it_has_to_be_in_the_path
    Dir.mkdir(path("programs"))
    %w[sh env dirname readlink uname].each do |name|
      place = ENV.fetch("PATH").split(":").find { |folder| File.executable?(File.join(folder, name)) }
      File.symlink(File.join(place, name), path("programs/#{name}"))
    end
    said, status = Open3.capture2e({ "PATH" => path("programs") }, RAKUDA, chdir: @folder)
    assert_equal 127, status.exitstatus, said
    assert_match(/\Arakuda: failed to start ruby: .*; Ruby 3\.0 or later has to be in PATH \(Debian: ruby\)\n\z/, said)
  end
end
