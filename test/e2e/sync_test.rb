# frozen_string_literal: true

# Synchronised rounds with the real engine: who waits for whom, what is recorded, and every way in which a round cannot
# begin. No test asks how large a lag is: that is the machine's business (bench/sync).

require "etc"
require "json"
require "minitest/autorun"
require "open3"
require "rexml/document"
require_relative "../support/disturbed_runs"
require_relative "../support/late_worker"

class EndToEndSyncTest < Minitest::Test
  include DisturbedRuns

  SEED = 1
  RAKUDACTL = File.expand_path("../../bin/rakudactl", __dir__)
  GATE = File.expand_path("../../gate", __dir__)

  def test_rounds_follow_one_another_and_workers_begin_after_the_instant
    rounds = run_well(<<~'RUBY', "write")
      sync(:write, workers: 2, over: %w[4k 8k], rounds: 2, warm_up: 1) do |w|
        sh "echo $RAKUDA_WORKER $RAKUDA_ROUND $RAKUDA_PARAMETER $RAKUDA_LOCAL_RANK $RAKUDA_NODE ${RAKUDA_GATE-none} ${LD_PRELOAD-none} >> said"
      end
    RUBY
    assert_equal %w[null warm_up counted counted warm_up counted counted], column(rounds, "kind")
    assert_equal [nil, "4k", "4k", "4k", "8k", "8k", "8k"], column(rounds, "parameter")
    assert_equal [0, 0, 1, 2, 3, 4, 5], column(rounds, "number")
    rounds.each { |round| assert_whole round }
    ends = rounds.each_cons(2).map { |one, other| other["t0_ns"] - one["t0_ns"] - one["span_ns"] }
    assert ends.all?(&:positive?), ends.inspect
    said = File.readlines(File.join(@folder, "said"), chomp: true).sort
    expected = 6.times.flat_map { |k| 2.times.map { |w| "#{w} #{k} #{k < 3 ? "4k" : "8k"} #{w} 0 none none" } }
    assert_equal expected.sort, said
    assert_equal [%w[preload], %w[shell]], [column(rounds.first(1), "gate"), column(rounds.drop(1), "gate").uniq]
    assert_equal 1, rounds.map { |round| round["processors"] }.uniq.size, "workers stay on their processors"
  end

  def test_each_kind_of_program_waits_at_its_gate
    rounds = run_well(<<~'RUBY', "all", files: programs)
      O = { workers: 2, overhead: false }.freeze
      sync(:dynamic, **O) { |w| sh "./dynamic >> dynamic.said" }
      sync(:direct, **O) { |w| sh "./dynamic" }
      sync(:static, **O) { |w| sh "./static" }
      sync(:setuid, **O) { |w| sh "./setuid" }
      sync(:script, **O) { |w| sh "./script" }
      sync(:bare, **O) { |w| sh "./bare" }
      sync(:called, gate: :call, **O) { |w| sh "./called" }
      sync(:ruby, gate: :call, **O) { |w| sh RbConfig.ruby, "-I", ENV.fetch("LIBRARY"), "ruby.rb" }
      sync(:forks, **O) { |w| sh "(echo child >> forks.said) & wait" }
      sync(:plain, gate: :none, **O) { |w| sh "true" }
      sync(:alone, **O) { |w| sh "./alone" }
      mkdir "below"
      cp "static", "below/moved"
      sync(:below, **O) { |w| sh "./moved", chdir: "below" }
      task all: %w[dynamic direct static setuid script bare called ruby forks plain alone below]
    RUBY
    gates = rounds.to_h { |round| [round["sync"], round["gate"]] }
    expected = { "dynamic" => "shell", "direct" => "preload", "static" => "exec", "setuid" => "exec", "script" => "script",
                 "bare" => "script", "called" => "call", "ruby" => "call", "forks" => "shell", "plain" => "none",
                 "alone" => "exec", "below" => "exec" }
    assert_equal expected, gates
    assert_equal "child\nchild\n", File.read(File.join(@folder, "forks.said"))
    assert_equal "gone gone\n" * 2, File.read(File.join(@folder, "dynamic.said"))
    assert_includes File.read(log(@folder)), "called 1"
    (rounds - rounds.select { |round| round["gate"] == "none" }).each { |round| assert_whole round }
  end

  # Into a process with more rights than its user no library is loaded by name.
  def test_programs_that_have_rights_of_their_own_wait_in_the_helper
    flunk "this test gives a program capabilities and needs root" unless Process.uid.zero?
    shows = compile("shows", SHOWS)
    @folder = new_folder("rights", <<~'RUBY')
      %w[plain group capable script].each { |name| sync(name, workers: 2, overhead: false) { |w| sh "./#{name}" } }
      task all: %w[plain group capable script]
    RUBY
    { "plain" => 0o755, "group" => 0o2755, "capable" => 0o755 }.each { |name, mode| write_file(name, shows, mode) }
    # What executes a script is its interpreter, with the rights of that; a script is recorded as one in any case.
    write_file("script", "#!#{File.join(@folder, "capable")}\n")
    out, status = Open3.capture2e("setcap", "cap_net_raw=ep", File.join(@folder, "capable"))
    assert status.success?, out
    _, status = Process.wait2(start(@folder, "all"))
    assert_equal 0, status.exitstatus, File.read(log(@folder))
    gates = rounds.to_h { |round| [round["sync"], round["gate"]] }
    assert_equal({ "plain" => "preload", "group" => "exec", "capable" => "exec", "script" => "script" }, gates)
    assert_equal "gone gone\n" * 8, File.read(log(@folder)).lines.grep(/gone/).join
    rounds.each { |round| assert_whole round }
  end

  def test_different_programs_of_one_round_wait_at_gates_of_their_own
    built = programs.slice("dynamic", "static")
    rounds = run_well(<<~'RUBY', "mixed", files: built)
      sync(:mixed, workers: 2, rounds: 2, overhead: false) { |w| sh(w.id.zero? ? "./dynamic" : "./static") }
    RUBY
    assert_equal %w[exec+preload] * 2, column(rounds, "gate")
    rounds.each { |round| assert_whole round }
    @folder = new_folder("list", "")
    built.each { |name, (text, mode)| File.write(File.join(@folder, name), text, perm: mode) }
    File.write(File.join(@folder, "conf.rb"), "WORKER_COUNT = 2\nTASK_FILE = %w[./dynamic ./static]\n")
    out, err, status = ctl(@folder, "--json", "--no-overhead", "conf.rb")
    assert status.success?, err
    assert_equal %w[exec+preload], column(JSON.parse(out)["rounds"], "gate")
    assert_equal "gone gone\n" * 2, err.lines.grep(/gone/).join
  end

  def test_a_round_ends_with_its_commands_and_not_with_what_these_leave_behind
    rounds = run_well(<<~'RUBY', "leaves", files: { "leaves" => [compile("leaves", LEAVES), 0o755] })
      sync(:leaves, workers: 2, rounds: 2, overhead: false) { |w| sh "./leaves", w.round.to_s, w.id.to_s }
    RUBY
    assert_equal [%w[preload] * 2, [0, 0]], [column(rounds, "gate"), column(rounds, "failed")]
    assert_equal 2, rounds[0]["outlived"]
    rounds.each { |round| assert_whole round }
    told = "sync leaves: round 0: the commands of 2 of 2 workers ended, and what these have started goes on beside what follows"
    assert_includes File.read(log(@folder)), told
    assert_equal column(rounds, "outlived").compact.size, JSON.parse(report)["sync"]["rounds_outlived"]
    left = [0, 1].product([0, 1]).map { |pair| File.join(@folder, "left.#{pair.join(".")}") }
    wait_until(@folder) { left.all? { |path| File.exist?(path) } }
    assert_equal ["gone gone\n"], left.map { |path| File.read(path) }.uniq
  end

  # A child that goes on until a later round has begun, or the last.
  LEAVES = <<~'C'
    #include <fcntl.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <unistd.h>
    static int there(const char *name) { return access(name, F_OK) == 0; }
    int main(int count, char **words) {
        char name[64], new_name[64];
        (void)count;
        if (words[1][0] == '1') close(open("later", O_WRONLY | O_CREAT, 0644));
        if (fork() != 0) _exit(0);
        while (!there("later")) usleep(1000);
        snprintf(name, sizeof name, "left.%s.%s", words[1], words[2]);
        snprintf(new_name, sizeof new_name, "new.%s.%s", words[1], words[2]);
        FILE *file = fopen(new_name, "w");
        if (file == NULL) return 1;
        fprintf(file, "%s %s\n", getenv("RAKUDA_GATE") ? "there" : "gone", getenv("LD_PRELOAD") ? "there" : "gone");
        return fclose(file) != 0 || rename(new_name, name) != 0;
    }
  C

  # Libraries that the Rakefile has a program load are ready before it waits, and stay in its environment.
  def test_a_library_that_is_preloaded_comes_before_the_gate_and_one_that_hangs_keeps_the_round_from_beginning
    rakefile = <<~'RUBY'
      sync(:slow, workers: 2, ready_within: Float(ENV.fetch("WITHIN")), overhead: false) do |w|
        sh({ "LD_PRELOAD" => File.expand_path("slow.so") }, "./dynamic", w.id == 1 ? ENV.fetch("HOW") : "")
      end
    RUBY
    files = { "dynamic" => [compile("dynamic", SHOWS), 0o755], "slow.so" => [compile("slow.so", SLOW), 0o755] }
    rounds = run_well(rakefile, "slow", "WITHIN=60", "HOW=goes", files: files)
    assert_equal [%w[preload], [nil]], [column(rounds, "gate"), column(rounds, "fault")]
    assert_whole rounds[0]
    assert_equal "gone there\n" * 2, File.read(log(@folder)).lines.grep(/^gone/).join
    assert_equal %w[ready ready], File.readlines(File.join(@folder, "ready"), chomp: true)
    out, status = rakuda(rakefile, "slow", "WITHIN=0.5", "HOW=hangs", files: files)
    assert_equal 1, status
    assert_match(/sync slow: round 0 did not begin: the command of worker \d did not come to its gate within 0.5 s/, out)
    wait_until(@folder) { left_in(@folder).empty? }
  end

  # Its constructor says that it was there, and hangs where the program's first word says so.
  SLOW = <<~'C'
    #include <fcntl.h>
    #include <string.h>
    #include <unistd.h>
    __attribute__((constructor)) static void begin(int count, char **words) {
        while (count > 1 && strcmp(words[1], "hangs") == 0) pause();
        int file = open("ready", O_WRONLY | O_CREAT | O_APPEND, 0644);
        if (file < 0 || write(file, "ready\n", 6) != 6 || close(file) != 0) _exit(1);
    }
  C

  WRONG = {
    'w.id == 1 ? sh("./nothere", "x") : sh("sleep", "600")' => /the command of worker 1 was over before all workers were ready/,
    'w.id == 1 ? sh("true") : sh("sleep", "600")' => /the command of worker 1 was over before all workers were ready/,
    'sh("sleep", "600") # never' => /the command of worker \d did not come to its gate within 0.3 s/,
    'w.id == 1 ? raise("cannot") : sh("sleep", "600")' => /worker 1 ended without a command/,
    'sh("sleep", "600") if w.id == 0' => /worker 1 ended without a command/
  }.freeze

  def test_a_round_that_cannot_begin_is_told_and_leaves_nobody_at_its_gate
    WRONG.each do |block, complaint|
      within = block.end_with?("never") ? "ready_within: 0.3, " : ""
      out, status = rakuda("sync(:bad, workers: 2, gate: :call, #{within}overhead: false) { |w| #{block}\n}", "bad")
      assert_equal 1, status, block
      assert_match(/rakuda: sync bad: round 0 did not begin: #{complaint}/, out, block)
      rounds.each { |round| assert_match complaint, round["fault"] }
      assert_nil rounds[0]["lag_ns"]
    end
  end

  def test_rounds_before_a_failure_are_kept
    out, status = rakuda(<<~'RUBY', "third")
      sync(:third, workers: 2, rounds: 10, overhead: false) { |w| sh "test #{w.round}#{w.id} != 21" }
    RUBY
    assert_equal 1, status
    assert_includes out, "third:task_2_w1: failed"
    assert_equal [0, 1, 2], column(rounds, "number")
    assert_equal 0, rounds[1]["failed"]
    assert_operator rounds[2]["failed"], :>=, 1
  end

  def test_more_workers_than_slots_are_refused_before_anything_runs
    [[], %w[-n]].each do |options|
      rakefile = "sync({ many: 'ran' }, workers: 3) { |w| sh 'touch ran' }\nfile('ran') { sh 'touch ran' }\n"
      out, status = rakuda(rakefile, *options, "many")
      assert_equal 1, status, options
      assert_includes out, "Rakefile:1: sync many: 3 workers begin together and need 3 slots, and there are 2: run it with " \
                           "-j 3, with fewer workers"
      refute_path_exists File.join(@folder, "ran")
    end
  end

  def test_programs_that_call_the_gate_themselves_have_an_overhead_too
    rounds = run_well(<<~'RUBY', "called")
      sync(:called, workers: 2, gate: :call) { |w| sh RbConfig.ruby, "-I", ENV.fetch("LIBRARY"), "-r", "rakuda/gate", "-e", "Rakuda::Gate.wait" }
    RUBY
    assert_equal [%w[null counted], %w[preload call]], [column(rounds, "kind"), column(rounds, "gate")]
    rounds.each { |round| assert_whole round }
  end

  def test_two_sets_of_rounds_and_other_tasks_do_not_keep_one_another_from_their_slots
    rounds = run_well(<<~'RUBY', "both")
      %i[one two].each { |name| sync(name, workers: 2, rounds: 3, overhead: false) { |w| sh "true" } }
      20.times { |i| task("other#{i}") { sh "true" } }
      multitask both: %w[one two] + 20.times.map { |i| "other#{i}" }
    RUBY
    assert_equal({ "one" => 3, "two" => 3 }, rounds.map { |round| round["sync"] }.tally)
  end

  # Each waits until the other has begun.
  def test_workers_of_rounds_at_the_same_time_are_on_different_processors
    rounds = run_well(<<~'RUBY', "both")
      { "one" => "two", "two" => "one" }.each do |name, other|
        sync(name, workers: 1, overhead: false) { |w| sh "touch #{name}.begun; until test -e #{other}.begun; do sleep 0.01; done" }
      end
      multitask both: %w[one two]
    RUBY
    processors = column(rounds, "processors").flatten
    assert_equal [2, [Etc.nprocessors, 2].min], [processors.size, processors.uniq.size]
  end

  def test_a_worker_with_several_cores_may_run_on_all
    allowed = "sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status"
    run_well(<<~RUBY, "wide")
      needs cores: 2
      sync(:wide, workers: 1, overhead: false) { |w| sh %q(#{allowed} > wide) }
      sync(:bound, workers: 1, overhead: false) { |w| sh %q(#{allowed} > bound) }
      sync(:loose, workers: 1, pin: false, overhead: false) { |w| sh %q(#{allowed} > loose) }
      task wide: %w[bound loose]
    RUBY
    own = File.read("/proc/self/status")[/^Cpus_allowed_list:\s*(.*)$/, 1]
    wide, bound, loose = %w[wide bound loose].map { |name| File.read(File.join(@folder, name)).chomp }
    assert_equal [own, own], [wide, loose]
    assert_match(/\A\d+\z/, bound)
  end

  CACHES = <<~'RUBY'
    sync(:cold, workers: 2, cache: :cold, files: %w[data.%w none]) { |w| sh "cat", "data.#{w.id}", out: File::NULL }
    sync(:warm, workers: 2, cache: :warm, files: ->(w) { ["data.#{w.id}"] }, overhead: false, gate: :exec) { |w| sh "true" }
    sync(:again, workers: 2, cache: :cold, files: "data.%w", overhead: false) { |w| sh "test -e data.#{w.id} && true" }
    task warm: :cold
    task again: :warm
  RUBY

  def test_files_are_out_of_the_page_cache_or_in_it_when_workers_begin
    files = { "data.0" => ["x" * 100_000, 0o600], "data.1" => ["y" * 50_001, 0o600] }
    counted = caches = expected = is_known = nil
    # A page that the kernel holds for a while, as under pressure, stays in memory.
    5.times do
      counted = run_well(CACHES, "again", files: files).reject { |round| round["kind"] == "null" }
      caches = counted.to_h { |round| [round["sync"], round.fetch("cache")] }
      is_known = caches["cold"].key?("resident_bytes") # Linux 6.5
      expected = { "cold" => 0, "warm" => 150_001, "again" => 0 }.to_h do |name, resident|
        state = name == "warm" ? "warm" : "cold"
        [name, { "state" => state, "workers" => 2, "bytes" => 150_001, "resident_bytes" => (resident if is_known) }.compact]
      end
      break if caches == expected
    end
    assert_equal expected, caches
    gates = counted.to_h { |round| [round["sync"], round["gate"]] }
    assert_equal({ "cold" => "preload", "warm" => "exec", "again" => "shell" }, gates)
    report, = Open3.capture2(RAKUDACTL, "-C", @folder, "report", "--text")
    assert_includes report, "page cache: cold before 2 of 2 rounds" if is_known
  end

  def test_what_no_gate_can_hold_is_refused_before_it_runs
    static = { "static" => [compile("static", SHOWS), 0o755] }
    said = {
      'sync(:a, workers: 1, gate: :preload, overhead: false) { |w| sh "./static" }' => "preload cannot hold it: it is static",
      'sync(:a, workers: 1, cache: :warm, files: "/dev/zero", overhead: false) { |w| sh "touch ran" }' =>
        "/dev/zero: expected a file with contents of its own"
    }
    said.each_with_index do |(rakefile, expected), number|
      @folder = new_folder("refused#{number}", rakefile)
      static.each { |name, (text, mode)| write_file(name, text, mode) }
      _, status = Process.wait2(start(@folder, "a"))
      assert_equal 1, status.exitstatus
      assert_includes File.read(log(@folder)), expected
      refute_match(/gone/, File.read(log(@folder)))
      refute_path_exists File.join(@folder, "ran")
    end
  end

  def test_a_limit_of_descriptors_below_those_of_a_gate_is_told
    folder = configured("few")
    out, status = Open3.capture2e(Engines::REAL, RAKUDACTL, "sync", "-j", "2", "conf.rb", chdir: folder, rlimit_nofile: 150)
    assert_equal 1, status.exitstatus
    assert_includes out, "it takes descriptors up to 199, and `ulimit -n` allows 150: expected 200 or more"
  end

  def test_rounds_of_two_namespaces_are_not_mixed
    rounds = run_well(<<~'RUBY', "all")
      %w[x y].each { |space| namespace(space) { sync(:a, workers: 2, overhead: false) { |w| sh "true" } } }
      task all: %w[x:a y:a]
    RUBY
    assert_equal %w[x:a y:a], column(rounds, "sync").sort
  end

  def test_files_that_are_not_there_are_no_evidence
    run_well('sync(:a, workers: 2, cache: :cold, files: "none.%w", overhead: false) { |w| sh "true" }', "a")
    report, = Open3.capture2(RAKUDACTL, "-C", @folder, "report", "--text")
    assert_match(/^ *page cache: cold before 0 of 1 rounds; none of its files was there before 1$/, report)
  end

  def test_a_file_that_cannot_be_got_out_of_memory_is_told
    out, status = rakuda('sync(:bad, workers: 2, cache: :cold, files: ".", overhead: false) { |w| sh "touch ran" }', "bad")
    assert_equal 1, status
    assert_match(/round 0 did not begin: the command of worker \d was over .*: its gate cannot get \. out of memory: Is/, out)
    refute_path_exists File.join(@folder, "ran")
  end

  # Hears of the stop from before its gate on, and heeds it after that: however slow the machine is, it has begun then.
  STOPPED = <<~'RUBY'
    require "rakuda/gate"
    is_stopped = false
    trap(:TERM) { is_stopped = true }
    Rakuda::Gate.wait
    sleep 0.01 until is_stopped
    exit!(128) if ARGV == %w[handles]
    trap(:TERM, "DEFAULT")
    Process.kill(:TERM, Process.pid)
    sleep
  RUBY

  def test_a_common_stop_ends_workers_well_and_offsets_are_no_lag
    rounds = run_well(<<~'RUBY', "--grace", "600", "both", files: { "stopped.rb" => [STOPPED, 0o644] })
      program = [RbConfig.ruby, "-I", ENV.fetch("LIBRARY"), "stopped.rb"]
      sync(:stopped, workers: 2, stop_after: 0.2, gate: :call, overhead: false) { |w| sh(*program) }
      sync(:later, workers: 2, offset: [0, 0.3], overhead: false) { |w| sh "true" }
      sync(:handled, workers: 2, stop_after: 0.2, gate: :call, overhead: false) { |w| sh(*program, "handles") }
      task both: %w[stopped later handled]
    RUBY
    stopped, later, handled = rounds.sort_by { |round| round["sync"] }.reverse
    assert_equal [0, 0], [stopped["failed"], handled["failed"]]
    # Times are counted from the first start, which may be later than the instant; nothing but the stop ends these
    # programs.
    [stopped, handled].each do |round|
      round["ends_ns"].each { |ns| assert_operator round["begun_after_ns"] + ns, :>=, 199_000_000 }
    end
    # The second began 0.3 s after the first; how much of it is lag is the rest.
    assert_in_delta later["starts_ns"][1] - later["starts_ns"][0] - 300_000_000, 0, later["lag_ns"]
  end

  def test_a_worker_that_does_not_end_at_the_common_stop_is_killed
    # Long enough that the other one, which hears the stop, has ended by then.
    out, status = rakuda(<<~'RUBY', "--grace", "20", "deaf")
      sync(:deaf, workers: 2, stop_after: 0.1, gate: :call, overhead: false) do |w|
        w.id == 1 ? sh("trap '' TERM; printf '\\001\\000\\000\\000' > /proc/self/fd/197; sleep 600") :
                    sh("ruby", "-I", ENV.fetch("LIBRARY"), "-r", "rakuda/gate", "-e", "Rakuda::Gate.wait; sleep 600")
      end
    RUBY
    assert_equal 1, status
    assert_match(/deaf:task_0_w1: failed.*SIGKILL|it did not end within 20 s of the stop of its round/m, out)
    assert_equal [1], column(rounds, "failed")
  end

  COLLECTS = <<~'RUBY'
    sync(:said, workers: 2, over: %w[4 8], rounds: 2, collect: { "bw" => /BW=(\d+)/, none: /NONE=(\d+)/ }, overhead: 2) do |w|
      sh "echo BW=1; echo BW=#{w.parameter.to_i + w.id + (w.round.zero? ? 4 : 0)} >&2"
    end
    sync(:object, workers: 2, collect: :json, overhead: false) { |w| sh "echo", w.id == 1 ? '{"iops": 2.5}' : "nothing" }
    task all: %w[said object]
  RUBY

  def test_figures_that_programs_print_are_collected_by_worker
    run_well(COLLECTS, "all")
    values = journal.select { |event| event["event"] == "round_values" }
    ids = rounds.reject { |round| round["kind"] == "null" }.map { |round| round["round"] }
    assert_equal ids.product([0, 1]), values.map { |event| event.values_at("round", "worker") }.sort
    out, = Open3.capture2(RAKUDACTL, "-C", @folder, "report", "--json")
    told = JSON.parse(out)["sync"]
    said, object = told["rounds"].partition { |round| round["sync"] == "said" }
    by_worker = said.map { |round| round["values"]["bw"]["workers"] }
    assert_equal [[8, 9], [4, 5], [8, 9], [8, 9]], by_worker
    assert_equal [nil, nil], said[0]["values"]["none"]["workers"]
    assert_equal({ "workers" => [nil, 2.5], "undefined" => 1, "total" => nil, "mean" => 2.5 },
                 object[0]["values"]["iops"].slice("workers", "undefined", "total", "mean"))
    four = told["collected"].find { |it| it.values_at("sync", "parameter", "name") == %w[said 4 bw] }
    assert_equal [2, 6.5, 4, 9, 13, 0], four.values_at("rounds", "mean", "min", "max", "total", "undefined")
    assert_equal [[0, 1], 2], [told["overhead_by_round"].map { |it| it["round"] }, told["overhead"][0]["count"]]
    text, = Open3.capture2(RAKUDACTL, "-C", @folder, "report", "--text")
    assert_match(/^said +bw +4 +2 +2 +6.5 +4 +9 +13 +0$/, text)
    assert_match(/^said +none +8 +2 +2 +4$/, text)
    assert_match(/^first round of said with 2 workers: start lag \d.*, mean of the 3 others \d/, text)
    Open3.capture2(RAKUDACTL, "-C", @folder, "report", "-o", "page.html")
    assert_includes File.read(File.join(@folder, "page.html")), "printed by the programs"
  end

  def test_workers_share_slots_where_that_is_allowed_and_it_is_told
    rounds = run_well('sync(:many, workers: 3, overhead: false) { |w| sh "true" }', "--oversubscribe", "many")
    assert_equal [true], column(rounds, "oversubscribed")
    assert_whole rounds[0]
    text, = Open3.capture2(RAKUDACTL, "-C", @folder, "report", "--text")
    assert_includes text, "1 round with more workers than slots (oversubscribed)"
  end

  def test_offsets_are_no_overhead_and_there_is_one_for_each_worker
    rounds = run_well('sync(:later, workers: 2, offset: [0, 0.2]) { |w| sh "true" }', "later")
    assert_equal %w[null counted], column(rounds, "kind")
    # With an offset the starts would lie further apart than the lag says.
    assert_whole rounds[0]
    out, status = rakuda('sync(:later, workers: 2, offset: [0.2]) { |w| sh "true" }', "later")
    assert_equal 1, status
    assert_includes out, "Rakefile:1: sync: offset: expected 2 values, one for each worker, not 1"
  end

  def test_a_round_that_did_not_begin_is_a_failure_whatever_its_actions_make_of_it
    out, status = rakuda("sync(:idle, workers: 1, overhead: false) { |w| w }", "idle")
    assert_equal 1, status
    assert_includes out, "Rakefile:1: sync idle: worker 0 ended without a command that the engine starts (sh)"
    out, status = rakuda(<<~'RUBY', "deaf")
      sync(:deaf, workers: 2, overhead: false) { |w| w.id == 1 ? sh("./nothere", "x") { |ok, _| ok } : sh("sleep", "600") { |ok, _| ok } }
    RUBY
    assert_equal 1, status, out
    assert_includes out, "sync deaf: round 0 did not begin: the command of worker 1 was over before all workers were ready"
  end

  def test_the_record_says_where_the_rakefile_has_the_sync_of_a_task
    run_well("task :before\nsync(:placed, workers: 1) { |w| sh 'true' }\n", "placed")
    places = journal.select { |event| event["event"] == "rule_defined" }.map { |event| event["location"] }
    refute_empty places
    assert_equal ["Rakefile:2"], places.map { |place| File.basename(place) }.uniq
  end

  def test_the_report_has_the_figures_of_rakudactl_sync
    run_well('sync(:told, workers: 2, rounds: 3) { |w| sh "true" }', "told")
    told = JSON.parse(report)["sync"]
    assert_equal [0, 1, 2], column(told["rounds"], "round")
    lags = rounds.select { |round| round["kind"] == "counted" }.map { |round| round["lag_ns"] / 1e9 }
    assert_equal lags, column(told["rounds"], "lag_s")
    assert_in_delta lags.sum / 3, told["lag"][0]["mean_s"], 2e-9
    by_round = told["lag_by_round"].map { |it| it.values_at("workers", "round") }
    assert_equal [[2, 0], [2, 1], [2, 2]], by_round
    out, = Open3.capture3(Engines::REAL, RAKUDACTL, "report", "--text", chdir: @folder)
    assert_match(/^synchronised rounds\n/, out)
    assert_match(/^start lag +2 +3 /, out)
    Open3.capture3(Engines::REAL, RAKUDACTL, "report", "-o", "page.html", chdir: @folder)
    page = File.read(File.join(@folder, "page.html"))
    assert_includes page, "<h2 id=\"rounds\">Synchronised rounds</h2>"
    ["start lag of each synchronised round", "start lag by round"].each do |title|
      assert_equal 3, page[/aria-label="#{title}".*?<\/svg>/m].scan(/<circle class="c\d" /).size, title
    end
    refute_includes page, "sync overhead by round"
  end

  def test_a_round_with_a_late_worker_is_repeated_as_often_as_is_wanted
    # More workers than processors begin one after the other: not late by itself. A stopped one is.
    rounds = run_well(<<~'RUBY', "late", files: { "stop" => [LateWorker::PROGRAM, 0o755] })
      sync(:late, workers: 1, gate: :call, repeat_late: 2, overhead: false) { |w| sh RbConfig.ruby, "-I", ENV.fetch("LIBRARY"), "./stop" }
    RUBY
    assert_equal [[0, 1], [1, 1], [2, 1]], column(rounds, "repeat").zip(column(rounds, "late"))
    told = File.read(log(@folder)).scan(/^rakuda: sync late: round \d: .* late: .*/)
    assert_match(/: 1 of 1 workers was late: worker 0, learnt of the instant .* after it was to begin/, told[0])
    assert_match(/ marked \(2 such rounds so far\)$/, told[1])
    assert_equal 2, told.size, "the third is in the record alone"
  end

  def test_no_process_stays_at_a_gate_when_the_hub_is_killed
    @folder = new_folder("killed", <<~'RUBY')
      sync(:wait, workers: 2, overhead: false) { |w| w.id == 1 ? sleep : sh("exec sleep 600.125") }
    RUBY
    pid = start(@folder, "wait")
    waiting = nil
    # It is at the gate when it waits in read(2) of the descriptor 198.
    wait_until(@folder) { waiting = at_gate(@folder) }
    Process.kill(:KILL, Integer(File.read("/proc/#{waiting}/stat").split(") ").last.split[1]))
    Process.wait(pid)
    refute_equal 0, $?.exitstatus # rubocop:disable Style/SpecialGlobalVars
    wait_until(@folder) { gone?(waiting) }
  end

  def test_rakudactl_sync_ends_with_an_object
    folder = configured("ctl")
    out, err, status = ctl(folder, "--rounds", "2", "--workers", "1,2", "--json", "--svg", "pictures", "conf.rb")
    assert status.success?, err
    pictures = %w[rounds workers].map { |name| REXML::Document.new(File.read(File.join(folder, "pictures/#{name}.svg"))) }
    counts = pictures.map { |picture| %w[circle polyline].map { |kind| REXML::XPath.match(picture, "//#{kind}").size } }
    # By workers every overhead, too.
    assert_equal [[8, 0], [10, 6]], counts
    answer = JSON.parse(out)
    shape = answer["rounds"].map { |round| round.values_at("parameter", "round", "workers", "late").first(3) }
    assert_equal [1, 2].product(%w[4k 8k], [0, 1]).map { |workers, p, i| [p, (p == "8k" ? 2 : 0) + i, workers] }, shape
    answer["rounds"].each { |round| assert_empty %w[lag_s overhead_s clock_bound_s late gate] - round.compact.keys }
    mean = answer["rounds"].select { |round| round["workers"] == 2 }.sum { |round| round["lag_s"] } / 4
    assert_in_delta mean, answer["lag"][1]["mean_s"], 2e-9
    nulls = answer["null_rounds"].map { |round| round.values_at("kind", "workers", "overhead_s") }
    overheads = column(answer["overhead"], "mean_s")
    assert_equal [["null", 1, overheads[0]], ["null", 2, overheads[1]]], nulls
    assert_in_delta answer["overhead"][1]["mean_s"] * 100, answer["shortest_program_s"], 1e-6
    assert_includes err, "-d work/1 8k\n"
  end

  def test_rakudactl_sync_says_what_cannot_be_and_shows_tasks
    folder = configured("refused")
    out, status = Open3.capture2e(Engines::REAL, RAKUDACTL, "sync", "-j", "2", "--workers", "5", "conf.rb", chdir: folder)
    assert_equal 1, status.exitstatus
    assert_equal "rakuda: --workers: 5 workers begin together and need as many slots, and there are 2: add -j 5, " \
                 "take fewer workers, or let them share slots (--oversubscribe)\n", out
    out, status = Open3.capture2e(Engines::REAL, RAKUDACTL, "sync", "-j", "2", "--workers", "1,5", "conf.rb", chdir: folder)
    assert_equal [1, "rakuda: --workers: 5 workers"], [status.exitstatus, out[/\A.*5 workers/]]
    _, err, status = ctl(folder, "--offset", "nan", "conf.rb")
    assert_equal 2, status.exitstatus
    assert_includes err, "expected seconds, such as 0.5"
    out, err, status = ctl(folder, "conf.rb", "--", "-P")
    assert_equal [0, ""], [status.exitstatus, err]
    assert_includes out, "rakuda task_0_w0\n    Sync_0\n"
  end

  def test_a_run_that_failed_is_run_again_by_the_call_that_started_it
    folder = new_folder("fails", "")
    File.write(File.join(folder, "conf.rb"), "WORKER_COUNT = 1\nTASK_FILE = 'false'\n")
    _, err, status = ctl(folder, "--no-overhead", "conf.rb")
    assert_equal 1, status.exitstatus
    assert_match(/^to run it again: rakudactl sync -j 2 --no-overhead conf.rb$/, err)
  end

  def test_a_signal_ends_the_run_that_rakudactl_sync_has_started
    folder = new_folder("signalled", "")
    @folder = folder
    File.write(File.join(folder, "conf.rb"), "WORKER_COUNT = 1\nTASK_FILE = 'sleep'\nARGUMENTS = '600.375'\n")
    %i[TERM INT KILL].each do |signal|
      pid = Process.spawn(Engines::REAL, RAKUDACTL, "sync", "-j", "2", "--no-overhead", "conf.rb",
                          chdir: folder, %i[out err] => log(folder))
      worker = nil
      wait_until(folder) { worker = sleeping(folder) }
      Process.kill(signal, pid)
      _, status = Process.wait2(pid)
      assert_equal Signal.list[signal.to_s], status.termsig, File.read(log(folder))
      wait_until(folder) { gone?(worker) }
    end
    paths = Dir[File.join(folder, ".rakuda/runs/*/journal.jsonl")]
    how = paths.map { |path| File.read(path)[/"event":"stop_requested".*"how":"(\w+)"/, 1] }
    assert_equal %w[interrupt] * 3, how
  end

  private

  # @return [String] a folder with a configuration
  def configured(name)
    folder = new_folder(name, "")
    File.write(File.join(folder, "conf.rb"), <<~RUBY)
      WORKER_COUNT = 2
      TASK_FILE = "./command"
      PARAMETER_ARRAY = %w[4k 8k]
      ARGUMENTS = "-d work/%w"
    RUBY
    File.write(File.join(folder, "command"), "#!/bin/sh\necho \"$@\"\n", perm: 0o755)
    folder
  end

  def ctl(folder, *words)
    Open3.capture3(Engines::REAL, RAKUDACTL, "sync", "-j", "2", *words, chdir: folder)
  end

  # Every worker has begun, none before the instant, the lag is what it is defined as.
  def assert_whole(round)
    starts, ends = round.values_at("starts_ns", "ends_ns")
    assert_equal [round["workers"]] * 2, [starts.size, ends.size]
    assert_equal starts.compact.max - starts.compact.min, round["lag_ns"], round.inspect
    assert_equal ends.max, round["span_ns"]
    assert_equal 0, starts.min
    assert_operator round["begun_after_ns"], :>=, 0
    started = journal.select { |event| event["event"] == "command_started" }.map { |event| event["time_ns"] }
    first = started.select { |time| time >= round["t0_ns"] }.min
    assert_operator first, :<=, round["time_ns"]
  end

  # @return [Array<Hash>] what the rounds of a run that went well were
  def run_well(rakefile, *words, files: {})
    out, status = rakuda(rakefile, *words, files: files)
    assert_equal 0, status, out
    rounds
  end

  # @return [Array(String, Integer)] all that it printed, and its status
  def rakuda(rakefile, *words, files: {})
    @runs = (@runs || 0) + 1
    @folder = new_folder("run#{@runs}", rakefile)
    files.each { |name, (text, mode)| write_file(name, text, mode) }
    ENV["LIBRARY"] = File.expand_path("../../lib", __dir__)
    _, status = Process.wait2(start(@folder, *words))
    [File.read(log(@folder)), status.exitstatus]
  end

  def report
    out, err, status = Open3.capture3(Engines::REAL, RAKUDACTL, "report", "--json", chdir: @folder)
    assert status.success?, err
    out
  end

  # The mode is what is said, whatever the umask.
  def write_file(name, text, mode = 0o755)
    path = File.join(@folder, name)
    File.binwrite(path, text)
    File.chmod(mode, path)
  end

  def journal
    lines = Dir[File.join(@folder, ".rakuda/runs/*/journal.jsonl")].flat_map { |path| File.readlines(path) }
    lines.map { |line| JSON.parse(line) }
  end

  def rounds
    journal.select { |event| event["event"] == "round_ended" }
  end

  # Programs of all kinds: text and mode.
  def programs
    sources = { "dynamic" => SHOWS, "static" => SHOWS, "called" => CALLS, "alone" => ALONE }
    built = sources.to_h { |name, source| [name, [compile(name, source), 0o755]] }
    built.merge("setuid" => [built["dynamic"][0], 0o4755], "script" => ["#!/bin/sh\n./dynamic\n", 0o755],
                "bare" => ["./dynamic\n", 0o755],
                "ruby.rb" => ["require 'rakuda/gate'\nexit(Rakuda::Gate.wait ? 0 : 3)\n", 0o644])
  end

  SHOWS = <<~'C'
    #include <stdio.h>
    #include <stdlib.h>
    int main(void) {
        printf("%s %s\n", getenv("RAKUDA_GATE") ? "there" : "gone", getenv("LD_PRELOAD") ? "there" : "gone");
        return 0;
    }
  C
  CALLS = <<~'C'
    #include <rakuda_gate.h>
    #include <stdio.h>
    int main(void) {
        printf("called %d\n", rakuda_gate());
        return 0;
    }
  C

  # Has an interpreter, as dynamic programs have, and no C library.
  ALONE = <<~'C'
    static long call(long number, long one, const char *two, long three) {
        long result;
        __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(one), "S"(two), "d"(three) : "rcx", "r11", "memory");
        return result;
    }
    void _start(void) {
        call(1, 1, "alone\n", 6);
        call(60, 0, 0, 0);
    }
  C

  # @return [String] the program's bytes
  def compile(name, source)
    path = File.join(@place, name)
    kinds = { "static" => %w[-static], "alone" => %w[-nostdlib -pie -fPIE], ".so" => %w[-shared -fPIC] }
    kind = kinds.find { |ending, _| name.end_with?(ending) }&.last
    words = ["gcc", "-O1", "-I", GATE, *kind, "-x", "c", "-", "-o", path]
    out, status = Open3.capture2e(*words, stdin_data: source)
    assert status.success?, out
    File.binread(path)
  end

  def gone?(process)
    File.read("/proc/#{process}/stat").split(") ").last.start_with?("Z")
  rescue SystemCallError
    true
  end

  def column(rounds, field) = rounds.map { |round| round[field] }

  # @return [Array<Integer>] processes whose working directory is the folder; with a block those of which it is true
  def left_in(folder)
    processes = Dir["/proc/[0-9]*"].select do |process|
      File.readlink("#{process}/cwd") == folder && (!block_given? || yield(process))
    rescue SystemCallError
      false
    end
    processes.map { |process| Integer(File.basename(process)) }
  end

  # @return [Integer, nil] the process of the program that sleeps there
  def sleeping(folder)
    left_in(folder) { |process| File.read("#{process}/cmdline").include?("600.375") }.first
  end

  # @return [Integer, nil] a process of a run in the folder that waits at a gate
  def at_gate(folder)
    left_in(folder) { |process| File.read("#{process}/syscall").start_with?("0 0xc6 ") }.first
  end
end
