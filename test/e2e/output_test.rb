# frozen_string_literal: true

# What users see of many commands at once: whole lines, stdout and stderr apart, grouped or prefixed on request.
# Runs the real command.

require "minitest/autorun"
require "open3"
require "tmpdir"
require_relative "../support/engines"

# `--output` and `--output-prefix`.
class OutputTest < Minitest::Test
  RAKUDA = File.expand_path("../../bin/rakuda", __dir__)

  # Every writer writes its letter piece by piece, so that without care lines of two would mix.
  RAKEFILE = <<~'RUBY'
    LETTERS = ("a".."f").to_a
    LETTERS.each do |letter|
      task(letter) do
        sh "for i in 1 2 3 4 5 6 7 8 9; do printf #{letter * 50}; printf '#{letter}\\n'; printf '#{letter.upcase * 51}\\n' >&2; done; " \
           "printf '#{letter} ends'", verbose: false
      end
    end
    task default: LETTERS
  RUBY

  def setup
    @directory = Dir.mktmpdir("rakuda-output")
  end

  def teardown
    FileUtils.rm_rf(@directory)
  end

  def test_lines_are_whole_and_streams_apart
    run_rakuda(RAKEFILE, "-j", "4")
    expected = ("a".."f").flat_map { |letter| ([letter * 51] * 9) + ["#{letter} ends"] }
    assert_equal expected.sort, @out.lines(chomp: true).sort
    assert_equal ("A".."F").flat_map { |letter| [letter * 51] * 9 }.sort, @err.lines(chomp: true).sort
  end

  def test_output_of_a_task_is_one_piece
    run_rakuda(RAKEFILE, "-j", "4", "--output", "task")
    pieces = @out.lines(chomp: true).map { |line| line[0] }.slice_when { |a, b| a != b }.map(&:first)
    assert_equal ("a".."f").to_a, pieces.sort
  end

  def test_echo_of_a_command_stands_with_its_output
    run_rakuda(<<~'RUBY', "-j", "4", "--output", "task", err: %i[child out])
      tasks = (1..6).map do |n|
        task("t#{n}") { puts "before #{n}"; sh "echo one #{n}; sleep 0.0#{n}"; sh "echo two #{n}"; puts "after #{n}" }
      end
      task default: tasks
    RUBY
    6.times do |index|
      n = index + 1
      piece = "before #{n}\necho one #{n}; sleep 0.0#{n}\none #{n}\necho two #{n}\ntwo #{n}\nafter #{n}\n"
      assert_includes @out, piece
    end
  end

  def test_prefix_names_the_task_on_each_line
    run_rakuda("task(:t) { sh \"echo a; echo b >&2; printf c\", verbose: false }\ntask default: :t\n",
               "-j", "2", "--output-prefix")
    assert_equal ["[t] a\n[t] c\n", "[t] b\n"], [@out, @err]
  end

  def test_one_job_passes_bytes_through_as_rake_does
    run_rakuda("task(:t) { sh \"printf abc\", verbose: false; print \"def\" }\ntask default: :t\n", "-j", "1")
    assert_equal "abcdef", @out
  end

  def test_without_collecting_commands_write_themselves
    rakefile = "task(:t) { sh \"readlink /proc/self/fd/1 >&2\", verbose: false }\ntask default: :t\n"
    run_rakuda(rakefile, "-j", "2", "--output", "none")
    given = @err
    run_rakuda(rakefile, "-j", "2", "--output", "none", "--output-prefix")
    assert_match(/\Apipe:/, given)
    reader, writer = IO.pipe
    pid = Process.spawn(RAKUDA, "-j", "2", "--output", "none", chdir: @directory, out: writer, err: writer)
    writer.close
    ours = File.readlink("/proc/self/fd/#{reader.fileno}")
    assert_includes reader.read, ours, "the command did not have our own pipe"
    Process.wait(pid)
  end

  def test_output_that_cannot_be_written_fails_the_run
    File.write(File.join(@directory, "Rakefile"), "task(:default) { sh \"echo hi\" }\n")
    _, error, status = Open3.capture3("#{RAKUDA} -j 2 > /dev/full", chdir: @directory)
    assert_equal 1, status.exitstatus
    assert_includes error, "No space left on device"
  end

  def test_reader_that_goes_away_ends_the_run
    File.write(File.join(@directory, "Rakefile"), "task(:default) { sh \"yes\", verbose: false }\n")
    out, = Open3.capture3("#{RAKUDA} -j 2 | head -n 1", chdir: @directory)
    assert_equal "y\n", out
  end

  def test_what_a_daemon_writes_is_never_taken_for_another_commands_output
    run_rakuda(<<~'RUBY', "-j", "2", "--output", "line", "--output-prefix")
      task(:one) { sh "mkfifo gate; setsid sh -c 'read x <gate; echo ghost' & echo one", verbose: false }
      task(two: :one) { sh "printf 'a '; echo go >gate; sleep 0.3; echo b", verbose: false }
      task default: :two
    RUBY
    assert_includes @out, "[two] a b\n"
    assert_includes ["", "[one] ghost\n"], @out.sub("[one] one\n", "").sub("[two] a b\n", "")
  end

  def test_much_output_of_many_commands_arrives_whole
    run_rakuda("8.times { |n| task(\"t\#{n}\") { sh \"seq \#{n}00000 \#{n}99999\", verbose: false } }\n" \
               "task default: (0..7).map { |n| \"t\#{n}\" }\n", "-j", "4")
    numbers = @out.lines.map { |line| Integer(line.chomp, 10) }
    assert_equal (0..799_999).to_a, numbers.sort
  end

  private

  def run_rakuda(rakefile, *arguments, **options)
    File.write(File.join(@directory, "Rakefile"), rakefile)
    if options.empty?
      @out, @err, @status = Open3.capture3(Engines::WITHOUT_PROGRESS, RAKUDA, *arguments, chdir: @directory)
    else
      @out, @status = Open3.capture2e(Engines::WITHOUT_PROGRESS, RAKUDA, *arguments, chdir: @directory)
    end
    assert_predicate @status, :success?, "#{@out}#{@err}"
  end
end
