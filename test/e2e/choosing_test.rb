# frozen_string_literal: true

# Nodes that tasks choose by what is known of them (`needs where:`, `prefer:`), on one machine. The attributes are the
# user's own or never change, so that nothing depends on what else the machine does.

require "json"
require "minitest/autorun"
require "open3"
require "socket"
require_relative "../support/counted_providers"
require_relative "../support/rakefile_run"
require_relative "../support/waiting"

class ChoosingTest < Minitest::Test
  include CountedProviders
  include RakefileRun
  include Waiting

  RAKUDACTL = File.expand_path("../../bin/rakudactl", __dir__)

  def setup
    @engine_environment = {}
  end

  def ask(folder, *arguments)
    out, err, status = Open3.capture3(RAKUDACTL, *arguments, chdir: folder)
    [out, err, status.exitstatus]
  end

  # @return [Hash, nil] what keeps this machine from running the task
  def short(folder, task)
    out, = ask(folder, "explain", task, "--json")
    answer = JSON.parse(out).fetch("answers").first if out.start_with?("{")
    answer&.dig("short", 0, "where")
  end

  # The next line of what a run prints. A run in which all have waited for a while says so, and for how long they wait
  # until values are there is the machine's business.
  def line_of_tasks(out)
    line = out.gets
    line = out.gets if line&.start_with?("rakuda: task wants waits for a node that suits it")
    line
  end

  def journal(folder)
    # The last line may be half there.
    Dir[File.join(folder, ".rakuda/runs/*/journal.jsonl")].flat_map { |file| File.readlines(file).grep(/\n\z/) }
                                                          .map { |line| JSON.parse(line) }
  end

  def test_a_task_waits_until_a_value_lets_it_start_and_the_record_keeps_what_it_rested_on
    rakefile = <<~RUBY
      needs where: "threads >= 1 && has(licence)", prefer: "-load1"
      task(:wants) { puts "wanted" }
      task(:other) { puts "other" }
      task(all: %i[wants other])
    RUBY
    start_rakuda(rakefile, "all") do |pid, folder, out|
      # What needs nothing is not held up.
      assert_equal "other\n", out.gets
      wait_for("the clause that fails") { short(folder, "wants")&.fetch("clause", nil) == "has(licence)" }
      text, = ask(folder, "explain", "wants")
      assert_includes text, "where: has(licence) is not true"
      host = Socket.gethostname
      _, err, status = ask(folder, "set-attr", "nowhere", "licence=1")
      assert_equal ["rakudactl: there is no node nowhere\n", 1], [err, status]
      assert_equal 0, ask(folder, "set-attr", host, "licence=1").last
      assert_equal "wanted\n", line_of_tasks(out)
      Process.wait(pid)
      assert_equal 0, $?.exitstatus # rubocop:disable Style/SpecialGlobalVars
      chosen = journal(folder).select { |event| event["event"] == "node_chosen" }
      told = chosen.map { |event| [event["condition"], event["prefer"], event["values"]["licence"]] }
      assert_equal [["threads >= 1 && has(licence)", "-load1", "1"]], told
      assert_equal %w[licence load1 threads], chosen.first["values"].keys.sort
      story, = ask(folder, "story", "wants")
      assert_match(/chosen: .*licence 1.*threads \d+/, story)
    end
  end

  def test_a_run_in_which_all_wait_says_so_and_can_be_asked
    start_rakuda("needs where: 'has(licence)'\ntask(:wants) { puts 'wanted' }", "wants") do |pid, folder, out|
      assert_equal "rakuda: task wants waits for a node that suits it; `rakudactl explain wants` says what is missing\n",
                   out.gets
      assert_equal "has(licence)", short(folder, "wants")["clause"]
      text, = ask(folder, "nodes", "--where", "threads >= 1 && !has(licence)", "--cols", "threads, age(threads)")
      assert_includes text, Socket.gethostname
      ask(folder, "set-attr", Socket.gethostname, "licence=yes")
      assert_equal "wanted\n", out.gets
      Process.wait(pid)
    end
  end

  PROVIDERS = <<~TOML
    [[provider]]
    name = "queue"
    command = ["sh", "-c", "echo queue 7"]
    limit = 100
    [[provider]]
    name = "broken"
    command = ["sh", "-c", "exit 3"]
    limit = 100
    [[provider]]
    name = "sensor"
    command = ["sh", "-c", "echo $$ > sensor.part; mv sensor.part sensor; echo depth 3; sleep 1000 & wait"]
    long_lived = true
  TOML

  def test_tasks_go_by_what_programs_of_the_user_provide
    rakefile = <<~RUBY
      File.write("providers.toml", #{PROVIDERS.dump})
      needs where: "queue == 7 && depth > 2 && has(provider_error('broken'))"
      task(:wants) { puts "wanted \#{File.read("sensor")}" }
    RUBY
    start_rakuda(rakefile, "PROVIDERS=providers.toml", "wants") do |pid, _folder, out|
      line = line_of_tasks(out)
      number = line.to_s[/\Awanted (\d+)/, 1] or flunk "the task has not said what it has read: #{line.inspect}"
      Process.wait(pid)
      assert_equal 0, $?.exitstatus # rubocop:disable Style/SpecialGlobalVars
      wait_for("the provider to end") { !File.exist?("/proc/#{number}") }
    end
  end

  def test_a_file_of_providers_that_means_nothing_ends_the_run
    rakuda("task(:wants)", "PROVIDERS=nowhere.toml", "wants") do |result|
      assert_match(/\Arakuda: failed to read the file of providers .*nowhere\.toml: No such file/, result.err)
      assert_equal 1, result.status
    end
  end

  def test_a_name_that_no_provider_tells_is_refused_when_all_have_told
    rakefile = <<~RUBY
      needs where: "quaeue == 7"
      task(:wants) { puts "wanted" }
    RUBY
    providers = PROVIDERS.lines.first(4).join
    rakuda(rakefile, "PROVIDERS=providers.toml", "wants", files: { "providers.toml" => providers }) do |result|
      assert_includes result.err, "task wants: where: at character 1: nothing is called quaeue (did you mean queue?)"
      assert_equal 1, result.status
    end
  end

  def test_a_gang_that_waits_for_a_node_that_suits_it_names_task_clause_and_node
    rakefile = <<~RUBY
      needs where: "has(licence)"
      one = task(:one) { puts "ran" }
      two = task(:two) { puts "ran" }
      Rake.application.gangs.define([one, two])
    RUBY
    start_rakuda(rakefile, "-j2", "two") do |pid, folder, out|
      gang = nil
      wait_for("the gang to wait") do
        text, = ask(folder, "explain", "two", "--json")
        gang = JSON.parse(text).fetch("answers").first["gang"] if text.start_with?("{")
        gang && gang["unsuited"]
      end
      host = Socket.gethostname
      told = gang["unsuited"].flat_map do |it|
        it["nodes"].map { |node| [it["task"], node["node"], node.dig("where", "clause")] }
      end
      assert_equal [["one", host, "has(licence)"]], told
      text, = ask(folder, "explain", "one")
      assert_includes text, "one not on #{host}: where: has(licence) is not true"
      ask(folder, "set-attr", host, "licence=1")
      assert_includes [out.gets, out.gets, out.gets], "ran\n"
      Process.wait(pid)
      assert_equal 0, $?.exitstatus # rubocop:disable Style/SpecialGlobalVars
    end
  end

  def test_a_gang_goes_nowhere_where_not_all_of_it_fits_by_its_own_claims
    rakefile = <<~RUBY
      needs where: "run_running < 1 && has(licence)"
      one = task(:one) { puts "ran" }
      two = task(:two) { puts "ran" }
      Rake.application.gangs.define([one, two])
    RUBY
    start_rakuda(rakefile, "-j2", "two") do |pid, folder, _out|
      where = nil
      wait_for("the run") { ask(folder, "set-attr", Socket.gethostname, "licence=1").last.zero? }
      wait_for("the gang to wait") do
        text, = ask(folder, "explain", "two", "--json")
        gang = JSON.parse(text).fetch("answers").first["gang"] if text.start_with?("{")
        where = gang&.dig("unsuited", 0, "nodes", 0, "where")
        where&.key?("at_once")
      end
      assert_equal({ "at_once" => 1 }, where)
      text, = ask(folder, "explain", "one")
      assert_includes text, "where: it suits 1 of the gang at once"
      Process.kill("INT", pid)
      Process.wait(pid)
    end
  end

  def test_tasks_go_by_what_the_run_itself_keeps_on_a_node
    rakefile = <<~RUBY
      columns = "run_cores,run_running,run_cores_reserved,run_memory_reserved,clock_offset"
      3.times do |number|
        needs where: "run_running < 1 && run_cores == 3 && round_trip == 0"
        task("t\#{number}") { sh "#{RAKUDACTL} nodes --csv --cols \#{columns}" }
      end
      task all: %w[t0 t1 t2]
    RUBY
    rakuda(rakefile, "-q", "-j3", "all") do |run|
      assert_equal 0, run.status, run.err
      rows = run.lines.reject { |line| line.start_with?("node,") }
      assert_equal ["3,1,1,0,0"] * 3, rows.map { |row| row.chomp.split(",").last(5).join(",") }, run.lines.inspect
    end
  end

  def test_ruby_code_asks_for_nodes_in_an_action_and_without_a_run
    rakefile = <<~'RUBY'
      puts Rakuda.nodes.where("threads >= 1").map(&:state).inspect
      task(:asks) do
        all = Rakuda.nodes.where("threads >= 1").where("has(mem_available)")
        node = all.max_by(:mem_available)
        puts [node.state, node[:threads] >= 1, node.age(:mem_available) >= 0].inspect
        ways = [:node_memory_MemTotal_bytes, "mem_total / threads", "max(threads, 1)", "-threads", :os]
        puts ways.map { |way| [all.max_by(way), all.min_by(way)].map { |it| it[:threads] >= 1 } }.uniq.inspect
        puts [all.max_by("threads / 0"), Rakuda.nodes.min_by("fs_free('/no/such/folder')")].inspect
        begin
          all.max_by("threads + lod1")
        rescue Rakuda::NodesNotKnown => e
          puts e.message
        end
        begin
          all.min_by(:nothing)
        rescue Rakuda::NodesNotKnown => e
          puts e.message
        end
        [["lod1 < 2"], ["load1 >= 0", "2 > lod1"]].each do |conditions|
          conditions.reduce(Rakuda.nodes) { |nodes, one| nodes.where(one) }.to_a
        rescue Rakuda::NodesNotKnown => e
          puts e.message
        end
        begin
          Rakuda.nodes.where("lod1 < 2").max_by(:load1)
        rescue Rakuda::NodesNotKnown => e
          puts e.message
        end
        sh "echo it goes on"
      end
    RUBY
    rakuda(rakefile, "-q", "asks") do |run|
      assert_equal 0, run.status, run.err
      assert_equal ['["up"]', '["up", true, true]'], run.lines.first(2)
      assert_equal ["[[true, true]]", "[nil, nil]"], run.lines[2, 2]
      hint = "nothing is called lod1 (did you mean load1?)"
      assert_equal "max_by(\"threads + lod1\"): #{hint}", run.lines[4]
      assert_equal "min_by(:nothing): nothing is called nothing (has(NAME) is also for what nothing has)", run.lines[5]
      assert_equal ["where(\"lod1 < 2\"): at character 1: #{hint}", "where(\"2 > lod1\"): at character 5: #{hint}",
                    "where(\"lod1 < 2\"): at character 1: #{hint}"],
                   run.lines[6, 3]
      assert_equal "it goes on", run.lines[9]
    end
  end

  # What was just written is in memory, unless the kernel does not tell.
  def test_a_node_tells_what_of_the_files_that_its_tasks_use_is_in_memory
    rakefile = <<~RUBY
      file("made") { sh "head -c 123456 /dev/zero > made" }
      file("read" => "made") { sh "until test -e go; do sleep 0.05; done; cp made read" }
      task default: "read"
    RUBY
    start_rakuda(rakefile, "-q") do |pid, folder, _|
      told = nil
      # While it is written there is less of it.
      wait_for("bytes in memory", -> { told.inspect }) do
        text, = ask(folder, "nodes", "--json", "--cols", "run_page_cache")
        told = text.start_with?("{") && JSON.parse(text).dig("nodes", 0, "values", "run_page_cache")
        told && (told["value"] == 123_456 || told["why"].to_s.include?("cachestat"))
      end
      assert_equal "B", told["unit"]
      FileUtils.touch(File.join(folder, "go"))
      Process.wait(pid)
    end
  end

  def test_max_age_has_a_run_sample_and_ages_are_told
    start_rakuda("task(:default) { sh 'until test -e go; do sleep 0.05; done' }", "-q") do |pid, folder, _|
      ages = lambda do |*words|
        text, = ask(folder, "nodes", "--json", "--cols", "threads, cpu_model, load1", *words)
        JSON.parse(text).fetch("nodes").first.fetch("values") if text.start_with?("{")
      end
      values = nil
      wait_for("values") { values = ages.call }
      assert_operator values.dig("threads", "value"), :>=, 1
      # By themselves the first two are sampled once in 15 s.
      wait_for("them to grow old") { ages.call.dig("cpu_model", "age_s") > 2 }
      # The sample is no older than that when it is asked for, and then grows older on its way here.
      asked = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      age = ages.call("--max-age", "100ms").dig("cpu_model", "age_s")
      assert_operator age, :<=, Process.clock_gettime(Process::CLOCK_MONOTONIC) - asked + 0.1
      text, err, status = ask(folder, "nodes", "--max-age", "soon")
      assert_equal ["", 2], [text, status], err
      FileUtils.touch(File.join(folder, "go"))
      Process.wait(pid)
    end
  end

  def test_only_the_providers_of_what_is_asked_for_are_run
    rakefile = <<~RUBY
      File.write("providers.toml", #{counted_providers("one", "other").dump})
      task(:default) { sh "until test -e go; do sleep 0.05; done" }
    RUBY
    start_rakuda(rakefile, "-q", "PROVIDERS=providers.toml") do |pid, folder, _|
      value = lambda do |name, *words|
        text, = ask(folder, "nodes", "--json", *words)
        JSON.parse(text).dig("nodes", 0, "values", name, "value") if text.start_with?("{")
      end
      runs = ->(name) { Dir[File.join(folder, "#{name}.ran")].sum { |file| File.readlines(file).size } }
      first = nil
      wait_for("what one of them says") { first = value.call("one", "--only", "one") }
      wait_for("another run of it") { value.call("one", "--cols", "one", "--max-age", "0").to_i > first }
      wait_for("what is built in") { value.call("threads", "--only", "cpu", "--max-age", "0") }
      assert_equal 0, runs.call("other"), "nobody has asked for it"
      wait_for("what all say") { value.call("other") }
      before = runs.call("one")
      wait_for("another run") { value.call("one", "--where", "one > 0", "--only", "one", "--max-age", "0").to_i > before }
      assert_equal 1, runs.call("other")
      FileUtils.touch(File.join(folder, "go"))
      Process.wait(pid)
      assert_equal 0, $?.exitstatus # rubocop:disable Style/SpecialGlobalVars
    end
  end

  def test_file_systems_of_folders_that_are_no_mount_points_are_sampled
    rakefile = <<~'RUBY'
      here = File.join(Dir.pwd, "it's here")
      Dir.mkdir(here)
      quoted = here.gsub("'") { "\\'" }
      needs where: "fs_free('#{quoted}') > 1 && has(fs_type('#{quoted}'))", prefer: "fs_size('#{Dir.pwd}')"
      task(:wants) { puts "wanted" }
    RUBY
    rakuda(rakefile, "-q", "wants") { |run| assert_equal [0, "wanted\n"], [run.status, run.out], run.err }
  end

  # Not when some node could have it, and a clause that is true without it is none of its business.
  def test_what_no_node_has_is_an_error_when_all_have_told_what_they_have
    rakefile = <<~RUBY
      needs where: "load1 >= 0 && fs_free('/no/such/folder') > 1"
      task(:wants) { puts "wanted" }
    RUBY
    rakuda(rakefile, "wants") do |run|
      assert_equal [1, ""], [run.status, run.out], run.err
      assert_includes run.err, "Rakefile:1: needs: task wants: where: no node has fs_free('/no/such/folder'), which " \
                               "fs_free('/no/such/folder') > 1 asks for; expected a folder that is there when the task is ready"
    end
    rakuda(rakefile.sub("&& fs_free", "|| fs_free"), "wants") do |run|
      assert_equal [0, "wanted\n"], [run.status, run.out], run.err
    end
    relative = rakefile.sub("/no/such/folder", "no/such/folder")
    [["wants"], ["-n", "wants"]].each do |words|
      rakuda(relative, *words) do |run|
        assert_equal [1, ""], [run.status, run.out], run.err
        assert_includes run.err, "where: \"no/such/folder\" is no folder of a node; expected an absolute path"
      end
    end
  end

  # Makes the folder when it was looked for in vain.
  MAKES = <<~'RUBY'
    FOLDER = File.join(Dir.pwd, "run1")
    task(:makes) do
      sleep 0.05 until Rakuda.nodes.where("age(fs_type('#{FOLDER}')) >= 0 && !has(fs_type('#{FOLDER}'))").any?
      mkdir FOLDER
    end
  RUBY

  def test_a_folder_that_another_task_makes_is_looked_for_until_it_is_there
    rakefile = <<~RUBY
      #{MAKES}
      needs where: "fs_free('\#{FOLDER}') > 1 && fs_size('\#{FOLDER}') > 1 && has(fs_type('\#{FOLDER}'))"
      task(:wants) { puts "wanted" }
      task(later: %i[makes wants])
      multitask(beside: %i[wants makes])
      Rake::Task[:wants].enhance([:makes]) if ENV["BEFORE"]
    RUBY
    [[%w[wants], { "BEFORE" => "yes" }], [%w[-j1 later], {}], [%w[-j2 beside], {}]].each do |words, environment|
      rakuda(rakefile, "-q", *words, environment:) do |run|
        assert_equal [0, "wanted\n"], [run.status, run.out], "#{words}: #{run.err}"
      end
    end
  end

  # What the file system can never have is an error as soon as there is one.
  def test_a_folder_that_has_come_is_judged_by_what_it_is
    rakefile = <<~RUBY
      #{MAKES}
      needs where: "fs_size('\#{FOLDER}') > 1e30"
      task(wants: :makes) { puts "wanted" }
    RUBY
    rakuda(rakefile, "-q", "wants") do |run|
      assert_equal [1, "", true], [run.status, run.out, File.exist?(File.join(run.folder, "run1"))], run.err
      assert_match(/: where: no node can ever have fs_size\('.*run1'\) > 1e30 \(.*is .*B\)/, run.err)
    end
  end

  def test_a_folder_that_nothing_has_made_is_an_error_when_nothing_is_left_that_could
    said = "where: no node has fs_free('/no/such/folder'), which"
    ways = {
      "a task that has ended before" => "task(wants: :other)\ntask(all: :wants)",
      "tasks beside it" => "multitask(all: %i[wants other])",
      "an action that waits for it" => "task(all: :other) { Rake::Task[:wants].invoke }",
      "one of its gang" => "task(:mate) { puts 'never' }\nRake.application.gangs.define([Rake::Task[:wants], " \
                           "Rake::Task[:mate]])\ntask(all: %i[other wants])"
    }
    ways.each do |way, tasks|
      rakefile = <<~RUBY
        task(:other) { puts "other" }
        needs where: "load1 >= 0 && fs_free('/no/such/folder') > 1"
        task(:wants) { puts "wanted" }
        #{tasks}
      RUBY
      rakuda(rakefile, "-q", "-j2", "all") do |run|
        assert_equal [1, "other\n"], [run.status, run.out], "#{way}: #{run.err}"
        assert_includes run.err, "Rakefile:2: needs: task wants: #{said}", way
      end
    end
    rakefile = "task(:other) { puts 'other' }\ndesc \"where=has(fs_type('/no/such/folder'))\"\n" \
               "task(wants: :other) { puts 'wanted' }"
    rakuda(rakefile, "wants") do |run|
      assert_equal [0, "other\nwanted\n"], [run.status, run.out], run.err
      assert_includes run.err, "where: no node has fs_type('/no/such/folder'), which"
    end
  end

  # Nobody can say that a task which waits for something else will not make it.
  def test_a_folder_is_waited_for_as_long_as_a_task_waits_that_may_make_it
    rakefile = <<~RUBY
      #{MAKES.sub("task(:makes)", "needs where: 'has(licence)'\ntask(:makes)")}
      needs where: "fs_free('\#{FOLDER}') > 1"
      task(:wants) { puts "wanted" }
      multitask(all: %i[wants makes])
    RUBY
    start_rakuda(rakefile, "-j2", "all") do |pid, folder, out|
      assert_match(/\Arakuda: task \w+ waits for a node that suits it/, out.gets)
      wait_for("the clause that fails") { short(folder, "wants")&.fetch("clause", "").to_s.start_with?("fs_free(") }
      ask(folder, "set-attr", Socket.gethostname, "licence=1")
      assert_includes out.readlines, "wanted\n"
      Process.wait(pid)
      assert_equal 0, $?.exitstatus # rubocop:disable Style/SpecialGlobalVars
    end
  end

  def test_what_an_expression_has_wrong_is_told_with_its_place_and_nothing_is_started
    rakefile = <<~RUBY
      task(:first) { puts "first" }
      needs where: "threads > 1 && lod1 < 2"
      task(wants: :first) { puts "wanted" }
    RUBY
    rakuda(rakefile, "wants") do |run|
      assert_equal [1, ""], [run.status, run.out], run.err
      assert_includes run.err, "Rakefile:2: needs: task wants: where: at character 16: nothing is called lod1"
      assert_includes run.err, "load1"
    end
    rakuda(rakefile.sub("where: \"threads > 1 && lod1 < 2\"", "prefer: \"arch\""), "wants") do |run|
      assert_equal [1, ""], [run.status, run.out], run.err
      assert_includes run.err, "Rakefile:2: needs: task wants: prefer: at character 1: it is a text"
    end
    rakuda("needs where: 5\ntask(:wants)", "wants") do |run|
      assert_equal 1, run.status
      assert_includes run.err, "Rakefile:1: needs: where: expected an expression"
    end
  end

  def test_what_no_node_can_ever_have_is_an_error_with_needs_and_left_out_with_desc
    rakefile = <<~RUBY
      needs where: "load1 >= 0 && threads > 100000"
      task(:wants) { puts "wanted" }
    RUBY
    rakuda(rakefile, "wants") do |run|
      assert_equal [1, ""], [run.status, run.out], run.err
      assert_match(/Rakefile:1: needs: task wants: where: no node can ever have threads > 100000 \(.*threads is \d+/,
                   run.err)
    end
    rakefile = <<~RUBY
      desc 'where="threads > 100000"'
      task(:wants) { puts "wanted" }
    RUBY
    rakuda(rakefile, "wants") do |run|
      assert_equal [0, "wanted\n"], [run.status, run.out], run.err
      assert_includes run.err, "no node can ever have threads > 100000"
    end
  end

  # A sensor of which nobody knows what a task does to it. Every line it prints is another number, so that one sees which
  # sample a start rested on. As long as a stranger keeps the node busy the number is 5 and more, else less than 1.
  SENSOR = <<~TOML
    [[provider]]
    name = "sensor"
    command = ["sh", "-c", "i=10000; while :; do i=$((i + 1)); if test -e free; then echo depth 0.$i; else echo depth 5.$i; fi; sleep 0.01; done"]
    long_lived = true
  TOML

  def test_of_many_tasks_that_wait_for_a_node_that_just_looks_free_one_starts_for_each_sample
    rakefile = <<~RUBY
      200.times do |i|
        needs where: "depth < 1"
        task("t\#{i}") { puts "ran" }
      end
      multitask(all: (0...200).map { |i| "t\#{i}" })
    RUBY
    files = { "providers.toml" => SENSOR }
    start_rakuda(rakefile, "-q", "-j200", "PROVIDERS=providers.toml", "all", files:) do |pid, folder, out|
      wait_for("the clause that fails") { short(folder, "t199")&.fetch("clause", nil) == "depth < 1" }
      assert_empty(journal(folder).select { |event| event["event"] == "node_chosen" })
      FileUtils.touch(File.join(folder, "free"))
      Process.wait(pid)
      assert_equal 0, $?.exitstatus # rubocop:disable Style/SpecialGlobalVars
      assert_equal 200, out.readlines.count("ran\n")
      chosen = journal(folder).select { |event| event["event"] == "node_chosen" }.map { |event| event["values"]["depth"] }
      assert_equal 200, chosen.uniq.size, "a start for each sample"
      assert(chosen.all? { |depth| depth.to_f < 1 }, chosen.inspect)
    end
  end

  # In the middle of many tasks: what was seen of the node by then keeps all others away, until that is over.
  def test_a_node_that_a_stranger_keeps_busy_gets_no_more_of_such_tasks_until_it_is_free_again
    rakefile = <<~RUBY
      needs where: "depth < 1"
      task(:first) { rm "free" }
      20.times do |i|
        needs where: "depth < 1 && age(depth) >= 0"
        task("t\#{i}" => :first) { puts "ran" }
      end
      multitask(all: (0...20).map { |i| "t\#{i}" })
    RUBY
    # So seldom that none of the samples in a pipe is older than what the first task removes.
    files = { "providers.toml" => SENSOR.sub("sleep 0.01", "sleep 0.2"), "free" => "" }
    start_rakuda(rakefile, "-q", "-j20", "PROVIDERS=providers.toml", "all", files:) do |pid, folder, _out|
      busy = nil
      # The last one in line: a task may begin after one sample between the first task's start and what it removes.
      wait_for("the stranger to be seen") { (busy = short(folder, "t0"))&.fetch("clause", nil) == "depth < 1" }
      assert_operator busy["values"].first["value"], :>=, 5
      chosen = -> { journal(folder).select { |event| event["event"] == "node_chosen" } }
      before = chosen.call.size
      # Samples go on, and nothing follows from them.
      later = ->(depth) { short(folder, "t0")["values"].first["value"] > depth + 0.00005 }
      wait_for("more samples") { later.call(busy["values"].first["value"]) }
      assert_equal before, chosen.call.size
      FileUtils.touch(File.join(folder, "free"))
      Process.wait(pid)
      assert_equal 0, $?.exitstatus # rubocop:disable Style/SpecialGlobalVars
      assert_equal 21, chosen.call.size
      assert(chosen.call.all? { |event| event["values"]["depth"].to_f < 1 })
    end
  end

  def test_all_of_many_tasks_run_and_those_whose_effect_is_not_known_one_for_each_sample
    rakefile = <<~RUBY
      20.times do |i|
        needs where: "threads >= 1", prefer: "mem_available", locality: false
        task("steady\#{i}") { puts "steady" }
        desc "where=cpu_iowait>=0||!has(cpu_iowait)"
        task("moving\#{i}") { puts "moving" } if i < 3
      end
      task(all: Rake::Task.tasks.map(&:name))
    RUBY
    rakuda(rakefile, "all") do |run|
      assert_equal [0, 20, 3], [run.status, run.lines.count("steady"), run.lines.count("moving")], run.err
    end
  end
end
