# frozen_string_literal: true

require "fileutils"
require "minitest/autorun"
require "rakuda"
require_relative "support/scratch_folder"

# Which files a requirements.txt or an environment.yml names, and whether the folder counts.
class RequirementFilesTest < Minitest::Test
  include ScratchFolder

  def write(name, text)
    FileUtils.mkdir_p(File.dirname(path(name)))
    File.write(path(name), text)
  end

  def files(name) = Rakuda::RequirementFiles.new(name, path("."))

  # Files that the line is to name, each of which is there.
  def named(line, *names)
    names.each { |name| write(name, "") }
    write("all.txt", line)
    files("all.txt").texts.keys.drop(1)
  end

  NAMED = {
    "-r a.txt" => %w[a.txt], "-ra.txt\n-c  b.txt # why" => %w[a.txt b.txt],
    "  --requirement=a.txt --constraint b.txt" => %w[a.txt b.txt],
    "-c 'a b.txt'\n-r \"c d.txt\"" => ["a b.txt", "c d.txt"], "-r \\\n  a.txt\n" => %w[a.txt],
    "dependencies:\n  - pip:\n    - -r a.txt\n    - \"-c b.txt\"\n" => %w[a.txt b.txt],
    "dependencies: [pip, { pip: [-r a.txt, '--constraint=b.txt'] }]" => %w[a.txt b.txt],
    "# -r a.txt\nnumpy # -c a.txt\n--require-hashes\n-i https://index/simple\n-r https://other/r.txt" => []
  }.freeze

  def test_files_named_by_options_are_found
    NAMED.each { |line, names| assert_equal names, named(line, *names), line }
  end

  def test_names_start_at_the_folder_of_the_file_that_has_them_and_circles_end
    write("all.txt", "-r parts/base.txt")
    write("parts/base.txt", "-c pins.txt\n-r ../all.txt\n-r base.txt")
    write("parts/pins.txt", "camel==1")
    found = files("all.txt")
    assert_equal ["camel==1", 1], [found.texts["parts/pins.txt"], found.texts.keys.grep(/pins/).size]
    assert_operator found.texts.size + found.unread.size, :<, 8
  end

  def test_the_folder_counts_where_something_is_looked_for_in_it
    ["./package", ".", "-e .", ".[test]", "--find-links wheels", "camel-1.0-py3-none-any.whl", "a @ file:///opt/a", "/opt/a",
     "  - \"-e ./a\"", "-r gone.txt"].each do |line|
      write("all.txt", "numpy\n#{line}\n")
      assert_predicate files("all.txt"), :local?, line
    end
    ["numpy==1.0", "a @ https://host/a.whl", "--extra-index-url https://host/simple",
     "  - conda-forge::samtools=1.19"].each do |line|
      write("all.txt", "#{line}\n")
      refute_predicate files("all.txt"), :local?, line
    end
  end
end
