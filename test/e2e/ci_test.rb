# frozen_string_literal: true

require "minitest/autorun"
require_relative "../support/rakefile_run"

# `--ci`: what GitHub and GitLab read in the log of a job.
class CiTest < Minitest::Test
  include RakefileRun

  RAKEFILE = <<~'RUBY'
    task default: %w[good bad.txt silent ruby]
    task(:good) { sh "echo out; echo err >&2", verbose: false }
    file("bad.txt") do
      sh "echo 50%; exit 3"
    end
    task(:silent) { }
    task(:ruby) { print "tail"; raise ArgumentError, "boom: a, b" }
  RUBY
  SECTION = /^\e\[0Ksection_start:(\d+):(rakuda_\d+)(.*)\r\e\[0K(.*)$([^\e]*)
             \e\[0Ksection_end:(\d+):\2\r\e\[0K$/x.freeze
  TOOK = /\d+(?:\.\d+)? m?s/.freeze

  def setup
    @engine_environment = Engines::REAL
  end

  def test_github_gets_groups_and_annotations_with_absolute_names
    %w[-j4 -j1].each do |jobs|
      rakuda(RAKEFILE, "--ci", "github", jobs, "--keep-going") do |run|
        groups = run.out.scan(/^::group::(.*)\n((?:(?!::).*\n)+)::endgroup::$/).map { |group| group.map { |text| bare(text) } }
        assert_equal [["bad.txt: failed after T", "echo 50%; exit 3\n50%\n"], ["good (T)", "out\nerr\n"],
                      ["ruby: failed after T", "tail\n"]], groups.sort, run.out
        assert_equal 6, run.out.scan(/^::/).size, run.out
        place = /file=(.*Rakefile),line=(\d+),title=(.*)::(.*)/
        told = run.err.scan(/^::error #{place}$/)
        told.map! { |file, *rest| [File.absolute_path?(file), *rest.map { |text| bare(text) }] }
        assert_equal [[true, "4", "bad.txt", "failed after T: exit status 3: echo 50%25; exit 3"],
                      [true, "7", "ruby", "failed after T: ArgumentError: boom: a, b (Rakefile:7)"]], told.sort, run.err
      end
    end
  end

  def test_gitlab_gets_sections_of_their_own_names_that_are_open_after_a_failure
    rakuda(RAKEFILE, "--ci", "gitlab", "-j4", "--keep-going", environment: { "NO_COLOR" => "1" }) do |run|
      sections = run.out.scan(SECTION)
      told = sections.map { |_, _, option, title, text, _| [bare(title), option, text] }
      assert_equal [["bad.txt: failed after T", "", "\necho 50%; exit 3\n50%\n"],
                    ["good (T)", "[collapsed=true]", "\nout\nerr\n"],
                    ["ruby: failed after T", "", "\ntail\n"]], told.sort, run.out
      assert_equal 3, sections.map { |section| section[1] }.uniq.size
      assert(sections.all? { |began, *_, ended| Integer(began).between?(Time.now.to_i - 600, Integer(ended)) }, run.out)
      assert_match(/^Rakefile:4: error: bad\.txt: failed after #{TOOK}: exit status 3: echo 50%; exit 3$/, run.err)
    end
  end

  def test_each_attempt_is_a_group_and_only_the_last_failure_is_told
    rakefile = "task(:default) { sh 'echo once >> tries; test $(wc -l < tries) = 2', verbose: true }"
    rakuda(rakefile, "--ci", "github", "-j2", "--retry", "1") do |run|
      titles = run.out.scan(/^::group::(.*)$/).flatten
      assert_equal(["default: failed after T", "default (T)"], titles.map { |text| bare(text) })
      refute_includes run.err, "::error"
      assert_equal 0, run.status, run.err
    end
  end

  # GitHub takes blanks off a line before it looks for a command.
  def test_commands_of_a_program_to_github_are_given_once
    rakuda("task(:default) { sh 'echo ::warning::odd; echo  ok; exit 3' }\n", "--ci", "github", "-j2") do |run|
      assert_equal 1, run.out.scan(/^\s*::warning::odd$/).size, run.out
      assert_match(/^    \| ::warning::odd\n    ok$/, run.err)
      refute_match(/^\s*::warning/, run.err)
    end
  end

  def test_a_command_is_quoted_where_a_failure_is_told
    rakuda("task(:default) { sh 'sh', '-c', 'exit 3', 'it is' }\n", "--ci", "github", "-j2") do |run|
      assert_match(/^  command: sh -c 'exit 3' 'it is'$/, run.err)
      assert_match(/^::error .*: exit status 3: sh -c 'exit 3' 'it is'$/, run.err)
    end
  end

  def test_lines_as_they_come_are_in_no_group
    rakuda(RAKEFILE, "--ci", "github", "-j4", "--output", "line", "bad.txt") do |run|
      refute_includes run.out, "::group::"
      assert_match(/^::error file=.*,line=4,title=bad\.txt::/, run.err)
    end
  end

  private

  # Times differ.
  def bare(text)
    text.gsub(TOOK, "T")
  end
end
