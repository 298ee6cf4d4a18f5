# frozen_string_literal: true

# The options of `rakudactl sync` that change rounds: each has its effect in them, and --json says so. What the keywords
# of the statement do in all cases is tested in sync_test.rb. No test asks how large a lag is.

require "csv"
require "json"
require "minitest/autorun"
require "open3"
require "shellwords"
require_relative "../support/cachestat"
require_relative "../support/disturbed_runs"
require_relative "../support/late_worker"

class EndToEndSyncCommandTest < Minitest::Test
  include Cachestat
  include DisturbedRuns

  SEED = 1
  RAKUDACTL = File.expand_path("../../bin/rakudactl", __dir__)
  LIB = File.expand_path("../../lib", __dir__)
  SAYS = "#!/bin/sh\necho \"$RAKUDA_ROUND $1 $2\" >> said\n"

  def test_rounds_to_warm_up_run_and_do_not_count
    configured("./command", workers: 2, arguments: "%w %p", more: "PARAMETER_ARRAY = %w[4k 8k]\n")
    write("command", SAYS, 0o755)
    answer = sync("--no-overhead", "--warm-up", "2", "--rounds", "1")
    shape = %w[4k 8k].flat_map { |size| %w[warm_up warm_up counted].map { |kind| [size, kind] } }
    assert_equal shape, columns(answer, "parameter", "kind")
    expected = shape.each_with_index.flat_map { |(size, _), round| %w[0 1].map { |worker| "#{round} #{worker} #{size}\n" } }
    assert_equal expected, File.readlines(path("said")).sort, "programs run in them as in others"
    counted = answer["rounds"].values_at(2, 5)
    lag = answer["lag"].first
    assert_equal 2, lag["count"]
    # Each of these is rounded to a whole number of ns.
    assert_in_delta counted.sum { |round| round["lag_s"] } / 2, lag["mean_s"], 2e-9
    assert_equal [2, 5], column(answer["lag_by_round"], "round")
  end

  def test_a_round_with_a_late_worker_is_repeated_as_often_as_is_said
    [[], %w[--repeat-late 2]].each do |words|
      configured(RbConfig.ruby, workers: 1, arguments: "-I #{LIB} stop")
      write("stop", LateWorker::PROGRAM)
      answer = sync("--no-overhead", "--gate", "call", *words)
      repeats = words.empty? ? [0] : [0, 1, 2]
      assert_equal repeats.map { |repeat| [0, repeat, 1, "call"] }, columns(answer, "round", "repeat", "late", "gate")
      assert_equal [repeats.size] * 2, [answer["rounds_late"], answer["lag"].first["count"]], "each is an entry, and counts"
    end
  end

  def test_a_common_stop_ends_programs_that_have_no_end_of_their_own
    configured("sleep", workers: 2, arguments: "600")
    answer = sync("--no-overhead", "--stop-after", "1.5", "--rounds", "2")
    assert_equal [[0, 0, nil], [1, 0, nil]], columns(answer, "round", "failed", "fault")
    # Nothing but the stop ends them; times are counted from the first start, which may be later than the instant.
    answer["rounds"].each { |round| assert_operator round["begun_after_s"] + round["run_s"], :>=, 1.499 }
  end

  # In round 0 all that there is gets into memory.
  READS = "#!/bin/sh\ntest $RAKUDA_ROUND != 0 || cat data.0 data.1 4k.in > /dev/null\n"
  BYTES = { "data.0" => 100_000, "data.1" => 50_001, "4k.in" => 5000, "8k.in" => 3000 }.freeze

  def test_files_are_out_of_the_page_cache_or_in_it_before_each_round
    configured("./command", workers: 2, arguments: "%w", more: "PARAMETER_ARRAY = %w[4k 8k]\n")
    write("command", READS, 0o755)
    BYTES.each { |name, bytes| write(name, "x" * bytes) }
    bytes = %w[4k 8k].map { |size| BYTES["data.0"] + BYTES["data.1"] + 2 * BYTES["#{size}.in"] }
    %w[cold warm].each do |state|
      expected = state == "cold" ? [0, 0] : bytes
      expected = [nil, nil] unless cachestat?
      # A page that the kernel holds for a while, as under pressure, stays in memory.
      answer = resident = nil
      5.times do
        answer = sync("--cache", state, "--files", "data.%w,%p.in")
        resident = column(answer["rounds"], "cache_resident_bytes")
        break if resident == expected
      end
      assert_equal expected, resident
      assert_equal bytes.map { |sum| [state, sum] }, columns(answer, "cache", "cache_bytes")
      # Programs that do nothing have no files.
      assert_equal [[nil, nil]], columns(answer, "cache", "cache_bytes", of: "null_rounds")
    end
  end

  def test_a_table_has_what_gate_offset_overhead_and_figures_come_to
    configured("./command", workers: 2, arguments: "-d work/%w", more: "PARAMETER_ARRAY = %w[4k 8k]\n")
    write("command", "#!/bin/sh\necho \"$@\"\n", 0o755)
    words = %w[--csv --gate exec --ready-within 50 --offset 0,0.001 --overhead 2]
    out, err, status = call(*words, "--collect", "size=work/1 (\\d)")
    assert status.success?, err
    table = CSV.parse(out, headers: true)
    assert_equal %w[counted counted null null], table["kind"]
    assert_equal %w[0 1], table["round"].last(2)
    assert_match(/^4k,0,counted,0,2,[\d.e-]+,[\d.e-]+,0.0,\d+,0,script,/, out)
    # The other worker has printed something else.
    sizes = table.first(2).map { |row| row.values_at("size", "size_mean", "size_total", "size_undefined") }
    assert_equal [[";4", "4.0", nil, "1"], [";8", "8.0", nil, "1"]], sizes
    out, err, status = call("--json", "--oversubscribe", slots: 1)
    assert status.success?, err
    assert_equal 2, JSON.parse(out)["rounds_oversubscribed"]
  end

  def test_options_that_mean_nothing_are_refused_before_anything_runs
    configured("./command", workers: 2, arguments: "%w")
    write("command", SAYS, 0o755)
    { %w[--cache cold] => "--files <FILE,...>", %w[--files data] => "--cache <HOW>", %w[--cache hot --files data] => "cold, warm",
      %w[--warm-up=-1] => "--warm-up", %w[--repeat-late x] => "--repeat-late" }.each do |words, complaint|
      out, err, status = call(*words)
      assert_equal [2, ""], [status.exitstatus, out], err
      assert_includes err, complaint
    end
    { %w[--stop-after 1 --gate none] => "rakuda: --stop-after: needs a gate, not gate: none",
      %w[--stop-after -1] => "rakuda: --stop-after: expected seconds, such as 0.5, not -1.0",
      %w[--cache warm --files data --gate call] => "rakuda: --cache: needs a gate that Rakuda holds" }.each do |words, complaint|
      _, err, status = call(*words)
      assert_equal 1, status.exitstatus, err
      assert_includes err, complaint
    end
    write("plots", "")
    _, err, status = call("--svg", "plots")
    expected = "rakudactl: ./plots: make a folder that can be written into: File exists (os error 17)\n"
    assert_equal [1, expected], [status.exitstatus, err]
    refute_path_exists path("said")
  end

  # What a shell would make of these names is something else.
  def test_a_program_is_executed_and_no_shell_reads_its_name_or_its_parameters
    configured("./a b;c $x", workers: 1, arguments: "", more: "PARAMETER_ARRAY = [\"it's\", 'a  b', [], %w[-b 4k]]\n")
    write("a b;c $x", "#!/bin/sh\nprintf '%s|' $# \"$@\" >> said\n", 0o755)
    assert_equal(["it's", "a  b", "", "-b 4k"], column(sync("--no-overhead")["rounds"], "parameter"))
    assert_equal "1|it's|1|a  b|0|2|-b|4k|", File.read(path("said"))
    configured("./a b;c $x", workers: 1, arguments: "")
    write("a b;c $x", "#!/bin/sh\nprintf '%s|' $# >> said\nexit 3\n", 0o755)
    _, err, status = call("--no-overhead")
    assert_equal [1, "0|"], [status.exitstatus, File.read(path("said"))], err
    assert_includes err, "Command failed with status (3): [./a b;c $x"
  end

  def test_a_configuration_that_ends_the_run_is_an_error_with_its_line
    { "exit" => "exit", "abort 'no disk'" => "exit or abort (no disk)" }.each do |line, what|
      configured("true", workers: 1, arguments: "", more: "#{line}\n")
      _, err, status = call
      assert_equal 1, status.exitstatus, err
      assert_includes err, "rakuda: conf.rb:4: expected names with values, not a call of #{what}: take it away, or raise an error"
    end
  end

  def test_more_workers_than_nodes_have_slots_is_one_line_that_names_what_is_to_be_changed
    configured("true", workers: 3, arguments: "")
    write("hosts", "localhost 2\n")
    { [] => [3, "conf.rb:1: WORKER_COUNT"], %w[--workers 4] => [4, "--workers"] }.each do |words, (workers, place)|
      _, err, status = Open3.capture3(Engines::REAL, RAKUDACTL, "sync", *words, "conf.rb", "--", "-F", "hosts", chdir: @folder)
      assert_equal 1, status.exitstatus, err
      expected = "#{place}: #{workers} workers begin together and need #{workers} slots, and the nodes of this run have 2: " \
                 "name more nodes or slots (-F), take fewer workers, or let them share slots (--oversubscribe)\n"
      assert_equal expected, err.lines.first
      refute_match(/aborted|GangRefused|full trace/, err)
    end
  end

  def test_an_offset_that_is_no_number_is_told_with_its_line
    folder = new_folder("offset", "\nsync(:a, workers: 1, overhead: false, offset: ->(w) { nil }) { |w| sh 'true' }\n")
    _, err, status = Open3.capture3(Engines::REAL, RAKUDA, "a", chdir: folder)
    assert_equal 1, status.exitstatus
    assert_equal "Rakefile:2: sync: offset: expected seconds, such as 0.5, not nil\n", err.lines.first
  end

  # The environment has the configuration; what a run that failed prints starts it again without that.
  def test_what_a_failed_run_says_to_run_it_again_has_the_environment_with_it
    folder = new_folder("again", "")
    environment = { "WORKER_COUNT" => "1", "TASK_FILE" => "false", "ARGUMENTS" => "'a b' %w" }
    clean = Engines::REAL.merge(environment.transform_values { nil })
    out, err, = Open3.capture3(clean.merge(environment), RAKUDACTL, "sync", "-j", "1", "--no-overhead", chdir: folder)
    assert_match(/^ +0 .* 1$/, out, "the round with its failed worker")
    refute_includes out, "median", "no round counts"
    words = Shellwords.split(err[/^to run it again: (.*)$/, 1])
    expected = ["env", *environment.map { |name, value| "#{name}=#{value}" }, "rakudactl", "sync", "-j", "1", "--no-overhead"]
    assert_equal expected, words, err
    variables = words[1, 3].to_h { |word| word.split("=", 2) }
    _, err, = Open3.capture3(clean.merge(variables), RAKUDACTL, *words.drop(5), chdir: folder)
    assert_includes err, "Command failed with status (1): [false a b 0"
  end

  private

  # The configuration in a folder of its own.
  def configured(program, workers:, arguments:, more: "")
    @runs = (@runs || 0) + 1
    @folder = new_folder("run#{@runs}", "")
    write("conf.rb", "WORKER_COUNT = #{workers}\nTASK_FILE = #{program.inspect}\nARGUMENTS = #{arguments.inspect}\n#{more}")
  end

  def path(name) = File.join(@folder, name)

  def write(name, text, mode = 0o644) = File.write(path(name), text, perm: mode)

  def call(*words, slots: 2)
    Open3.capture3(Engines::REAL, RAKUDACTL, "sync", "-j", slots.to_s, *words, "conf.rb", chdir: @folder)
  end

  # @return [Hash] what `--json` says of a run that went well
  def sync(*words)
    out, err, status = call("--json", *words)
    assert status.success?, err
    JSON.parse(out)
  end

  def column(rounds, field) = rounds.map { |round| round.fetch(field) }

  # @return [Array<Array>] fields of each round
  def columns(answer, *fields, of: "rounds") = answer.fetch(of).map { |round| round.fetch_values(*fields) }
end
