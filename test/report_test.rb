# frozen_string_literal: true

require "csv"
require "json"
require "minitest/autorun"
require "open3"
require "tmpdir"
require_relative "support/browser"
require_relative "support/page_look"

# `rakudactl report` on a journal written here, and its page in a real browser.
class ReportTest < Minitest::Test
  include PageLook

  ROOT = File.expand_path("..", __dir__)
  COMMAND = File.join(ROOT, "bin", "rakudactl")
  START_NS = 1_800_000_000_000_000_000
  HOSTILE = %(</script><img src=x onerror="document.title='caught'">'"&).freeze

  def setup
    @dir = Dir.mktmpdir("rakuda-report")
    @run = File.join(@dir, "run")
    Dir.mkdir(@run)
    File.write(File.join(@run, "journal.jsonl"), journal)
    tail = "no such star\n</pre><b>bold</b>\n"
    File.write(File.join(@run, "output.log"), "=== task 5 attempt 1 stderr #{tail.bytesize} e.out\n#{tail}\n")
  end

  def teardown
    FileUtils.rm_rf(@dir)
  end

  def test_json_has_the_figures_computed_by_hand
    summary = JSON.parse(report("--json"))
    assert_equal [1, 4, 4, 1], summary.values_at("version", "tasks", "run", "failed")
    assert_in_delta 6.0, summary["makespan_s"]
    assert_in_delta 10.5 / 12, summary["utilisation"]
    assert_in_delta 5.5, summary["critical_path_s"]
    refute summary.key?("local_share")
    assert_equal "no such star\n</pre><b>bold</b>", summary["failures"][0]["output"]
  end

  def test_page_goes_into_the_folder_of_the_run
    assert_equal "#{@run}/report.html\n", report
    assert_path_exists "#{@run}/report.html"
    assert_equal ["journal.jsonl", "output.log", "report.html"], Dir.children(@run).sort
  end

  def test_tables_are_those_of_pwrake
    report("--csv", @dir)
    tasks = CSV.read(File.join(@dir, "task.csv"), headers: true)
    assert_equal %w[task_id task_name start_time end_time elap_time preq preq_host preq_loc exec_host shell_id has_action
                    executed ncore file_size file_mtime file_host write_loc], tasks.headers
    done = tasks.find { |row| row["task_name"] == HOSTILE }
    assert_equal ["2", "2027-01-15 08:00:00.000", "2027-01-15 08:00:03.000", "3.000000", "a.src", "argo", "1", "1", "500"],
                 done.values_at("task_id", "start_time", "end_time", "elap_time", "preq", "exec_host", "has_action",
                                "executed", "file_size")
    assert_equal(3, tasks.count { |row| row["executed"] == "0" })
    commands = CSV.read(File.join(@dir, "command.csv"), headers: true)
    assert_equal %w[exec_id task_id task_name command start_time end_time elap_time host ncore status],
                 commands.headers.first(10)
    assert_equal %w[pwrake_profile_start pwrake_profile_end], commands["command"].values_at(0, -1)
    assert_equal [nil, "0", "0", "killed:9", "1", "0", nil], commands["status"]
  end

  def test_pictures_are_written_as_svg_and_png
    report("--svg", File.join(@dir, "svg"))
    report("--png", File.join(@dir, "png"))
    %w[running gantt rules].each do |name|
      assert_match(/\A<svg .*<\/svg>\n\z/m, File.read(File.join(@dir, "svg", "#{name}.svg")))
      assert File.binread(File.join(@dir, "png", "#{name}.png")).start_with?("\x89PNG".b)
    end
  end

  # Two counted rounds and two of programs that do nothing, of workers here and on a node an hour ahead.
  def test_synchronised_rounds_have_the_same_pictures_on_the_page_and_as_files
    clock = { node: 1, name: "far", ahead_ns: 3_600_000_000_000, bound_ns: 40_000, round_trip_ns: 70_000,
              paper_ns: -3_600_000_010_000 }
    rounds = %w[null null counted counted].each_with_index.map do |kind, index|
      event("round_ended", 6, round: index, sync: "write", number: index % 2, kind: kind, workers: 2, gate: "exec",
                              lag_ns: 20_000, span_ns: 300_000, clock_bound_ns: 40_000, clocks: [clock])
    end
    *before, last = journal.lines
    File.write(File.join(@run, "journal.jsonl"), [before, rounds, last].join)
    report("--svg", File.join(@dir, "svg"))
    report
    page = File.read("#{@run}/report.html", encoding: "UTF-8")
    { "rounds" => 2, "lag-by-round" => 2, "overhead-by-round" => 2, "clocks" => 6 }.each do |name, points|
      body = File.read(File.join(@dir, "svg", "#{name}.svg"))[%r{<rect class="ground"[^>]*/>(.*)</svg>}m, 1]
      assert_equal points, body.scan("<circle ").size, name
      assert_includes page, ">#{body}</svg></figure>"
    end
    refute_path_exists File.join(@dir, "svg/workers.svg")
    assert_equal 2, page[%r{<table[^>]*id="lag-table".*?</table>}m].scan(">40 µs<").size
  end

  def test_png_without_its_converter_says_which_package_has_it
    _, errors, status = Open3.capture3({ "PATH" => "" }, File.join(ROOT, "target/release/rakudad"), "ctl", "report", @run,
                                       "--png", @dir)
    refute status.success?
    assert_match(/rsvg-convert.*librsvg2-bin.*--svg/, errors)
  end

  def test_comparison_with_itself_finds_no_difference
    comparison = JSON.parse(report("--compare", @run, "--json"))
    assert_in_delta 1.0, comparison["makespan_ratio"]
    assert_equal ["too few to tell"], comparison["rules"].map { |rule| rule["verdict"] }.uniq
    assert_equal [0, 0], [comparison["only_first"]["tasks"], comparison["only_second"]["tasks"]]
  end

  def test_page_works_in_a_browser_and_hostile_names_are_harmless
    assert Browser.there?, "this test needs the package chromium; tools/setup installs it"
    report
    report("--compare", @run, "-o", File.join(@dir, "compare.html"))
    Browser.open do |browser|
      browser.show("#{@run}/report.html")
      check_tables(browser)
      check_keys(browser)
      check_sorting(browser)
      check_chart(browser)
      check_search(browser)
      check_times(browser)
      check_graph(browser)
      check_tasks(browser)
      assert_equal ["file://#{@run}/report.html"], browser.requests
      browser.show("#{@dir}/compare.html")
      assert_equal 2, browser.evaluate("document.querySelectorAll('#rule-table tbody tr').length")
      assert_empty browser.complaints
      assert_equal 2, browser.requests.size, browser.requests.inspect
    end
  end

  def test_page_has_room_for_long_names_and_shows_the_end_of_output
    assert Browser.there?, "this test needs the package chromium; tools/setup installs it"
    long = "long_name_" * 14
    File.write(File.join(@run, "journal.jsonl"), journal.gsub(/"([de])\.out"/) { %("#{long}#{$1}.out") })
    tail = (1..60).map { |number| "line #{number}\n" }.join
    File.write(File.join(@run, "output.log"), "=== task 5 attempt 1 stderr #{tail.bytesize} #{long}e.out\n#{tail}\n")
    report
    Browser.open do |browser|
      browser.show("#{@run}/report.html")
      assert_includes browser.evaluate("document.querySelector('.legend').textContent"), long
      check_ends(browser)
      check_widths(browser, "long")
      check_ends(browser)
      check_staying(browser)
    end
  end

  def test_names_without_room_keep_their_ends_and_what_scrolls_sideways_says_so
    assert Browser.there?, "this test needs the package chromium; tools/setup installs it"
    long = "long_name_" * 6
    File.write(File.join(@run, "journal.jsonl"), journal.gsub(/"([de])\.out"/) { %("#{long}#{$1}.out") })
    report
    Browser.open do |browser|
      browser.show("#{@run}/report.html")
      check_name(browser, "#{long}e.out")
      frame = "document.getElementById('task-table').parentNode.className"
      browser.wait_for("#{frame} === 'sideways after'")
      browser.evaluate("{ const it = document.getElementById('task-table'); it.scrollLeft = it.scrollWidth; }")
      browser.wait_for("#{frame} === 'sideways before'")
      browser.evaluate("document.querySelector('main').style.maxWidth = 'none'")
      browser.resize(3000, 1000)
      browser.wait_for("#{frame} === 'sideways'")
      ends = "document.querySelectorAll('#task-table .virtual-row > span')"
      both = "[#{ends}[12], document.getElementById('task-table')]"
      right = browser.evaluate("#{both}.map((it) => it.getBoundingClientRect().right)")
      assert_in_delta(*right, 2, "the last column takes what is spare")
    end
  end

  # The run's failed task fourteen times; the last by number failed first.
  def test_of_many_failures_ten_are_seen_and_the_rest_behind_a_button
    assert Browser.there?, "this test needs the package chromium; tools/setup installs it"
    more = (7..19).map do |number|
      event("task_defined", task: number, name: "more#{number}", action: true, rule: 1) +
        attempt(number, 1, [0, 3 - (0.1 * number)], "fit #{number}", { outcome: "failed", message: "it broke" }, status: 256) +
        event("task_settled", 5, task: number, how: "failed")
    end
    *before, last = journal.lines
    File.write(File.join(@run, "journal.jsonl"), [before, more, last].join)
    report
    names = (7..19).to_a.reverse.map { |number| "more#{number}" } << "e.out"
    assert_equal(names, JSON.parse(report("--json"))["failures"].map { |it| it["task"] })
    Browser.open do |browser|
      browser.show("#{@run}/report.html")
      seen = "[...document.querySelectorAll('main > details > summary code, .rest details > summary code')]" \
             ".filter((it) => it.checkVisibility({ contentVisibilityAuto: false })).map((it) => it.textContent)"
      assert_equal names.first(10), browser.evaluate(seen)
      assert_equal "4 more", browser.evaluate("document.querySelector('.rest > summary').textContent")
      assert_equal 1, browser.evaluate("document.querySelectorAll('main > details[open]').length")
      browser.evaluate("document.querySelector('.rest > summary').click()")
      assert_equal names, browser.evaluate(seen)
      check_widths(browser, "failures")
    end
  end

  private

  # A task's name in a row: its end is seen, and the whole is told under the pointer.
  def check_name(browser, name)
    row = "[...document.querySelectorAll('#task-table .virtual-row')].find((it) => it.children[1].textContent === '#{name}')"
    browser.evaluate("document.getElementById('task-table').scrollIntoView()")
    browser.wait_for("#{row} !== undefined")
    cell, first, last = browser.evaluate(<<~JS)
      [#{row}.children[1], ...#{row}.children[1].children].map((it) => {
        const { x, y, width, height, right } = it.getBoundingClientRect();
        return { x, y, width, height, right, cut: it.scrollWidth > it.clientWidth, text: it.textContent };
      })
    JS
    assert_equal [name, name[-12..]], [cell["text"], last["text"]]
    assert first["cut"], "the name has room"
    assert_operator last["right"], :<=, cell["right"]
    assert_operator first["right"], :<=, last["x"] + 1
    browser.point(cell["x"] + 20, cell["y"] + (cell["height"] / 2))
    browser.wait_for("#{row}.children[1].title === '#{name}'")
  end

  # Scrolled to its right end, the table of tasks tells of which task a row is.
  def check_staying(browser)
    [[1280, 2], [400, 1]].each do |width, count|
      browser.resize(width, 1000)
      browser.wait_for("innerWidth === #{width}")
      browser.evaluate("document.getElementById('task-table').scrollIntoView()")
      seen = browser.evaluate(<<~JS)
        new Promise((done) => requestAnimationFrame(() => {
          const holder = document.getElementById("task-table"), row = holder.querySelector(".virtual-row");
          holder.scrollTop = 0;
          holder.scrollLeft = holder.scrollWidth;
          requestAnimationFrame(() => requestAnimationFrame(() => {
            const { y, height } = row.getBoundingClientRect(), left = holder.getBoundingClientRect().x;
            const seen = [10, 100].map((x) => document.elementFromPoint(left + x, y + height / 2)
              .closest(".virtual-copy > span, .virtual-row > span").textContent);
            done([[...row.children].slice(2 - #{count}, 2).map((it) => it.textContent), seen.slice(0, #{count})]);
          }));
        }))
      JS
      assert_equal seen[0], seen[1], width
    end
  end

  def check_tables(browser)
    assert_equal "Run 20270115-080000.000-42", browser.evaluate("document.title")
    assert_equal 0, browser.evaluate("document.images.length")
    assert_equal [["*.outfit (Rakefile:9)", "2", "1", "5.50 s"], ["proj (Rakefile:3)", "2", "0", "5.00 s"]],
                 browser.evaluate("[...document.querySelectorAll('#rule-table tbody tr')]" \
                                  ".map((row) => [...row.cells].slice(0, 4).map((cell) => cell.textContent))")
    cards = browser.evaluate("[...document.querySelectorAll('.card')].map((card) => card.textContent)")
    assert(cards.any? { |card| card.start_with?("Makespan6.00 s") }, cards.inspect)
    assert(cards.any? { |card| card.start_with?("Core utilisation87.5 %") }, cards.inspect)
    assert_equal [HOSTILE, "d.out"],
                 browser.evaluate("[...document.querySelectorAll('#critical-table tbody tr')]" \
                                  ".map((row) => row.cells[0].textContent)")
    tail = browser.evaluate("document.querySelector('details pre').textContent")
    assert_equal "no such star\n</pre><b>bold</b>", tail
  end

  def check_sorting(browser)
    times = "[...document.querySelectorAll('#slowest-table tbody tr')].map((row) => Number(row.cells[4].dataset.v))"
    click = "document.querySelectorAll('#slowest-table th button')[4].click()"
    browser.evaluate(click)
    assert_equal [3, 3, 2, 2, 0.5], browser.evaluate(times)
    browser.evaluate(click)
    assert_equal [0.5, 2, 2, 3, 3], browser.evaluate(times)
    sorted = browser.evaluate("document.querySelectorAll('#slowest-table th')[4].getAttribute('aria-sort')")
    assert_equal "ascending", sorted
  end

  # Two lanes of 6 s; colours at chosen times and lanes, and what is told under the pointer.
  def check_chart(browser)
    colours = lambda do
      browser.evaluate(<<~JS)
        new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => {
          const canvas = document.getElementById("chart"), scale = devicePixelRatio;
          const wide = canvas.width / scale, copy = new OffscreenCanvas(canvas.width, canvas.height);
          const context = copy.getContext("2d", { willReadFrequently: true });
          context.drawImage(canvas, 0, 0);
          const at = (seconds, lane) => [...context.getImageData((56 + (wide - 56) * seconds / 6) * scale,
            (8 + 24 * lane + 12) * scale, 1, 1).data].join();
          done([at(1, 0), at(1, 1), at(2.5, 0), at(5.3, 1), at(5.3, 0)]);
        })))
      JS
    end
    light = colours.call
    assert_equal light[0], light[1]
    refute_equal light[0], light[2]
    assert_match(/,255\z/, light[0])
    assert_equal "0,0,0,0", light[4], "nothing ran then"
    browser.prefer("dark")
    assert((1..100).any? { colours.call[0] != light[0] }, "dark colours are not those of the light")
    box = browser.evaluate("document.getElementById('chart').scrollIntoView(), [document.getElementById('chart')" \
                           ".getBoundingClientRect()].map((box) => [box.x, box.y, box.width])[0]")
    browser.point(box[0] + 56 + ((box[2] - 56) / 6), box[1] + 8 + 24 + 12)
    assert_includes browser.evaluate("document.getElementById('tip').textContent"), "#{HOSTILE}proj (Rakefile:3)from 0"
  end

  def check_search(browser)
    browser.evaluate("const field = document.getElementById('search'); field.value = 'OUT'; " \
                     "field.dispatchEvent(new Event('input'))")
    assert_match(/\A4 attempts/, browser.evaluate("document.getElementById('found').textContent"))
    assert_equal "20270115-080000.000-42", browser.evaluate("document.title").split.last
  end

  # The reader's own time; UTC under the pointer.
  def check_times(browser)
    shown = browser.evaluate("[...document.querySelectorAll('time')].map((time) => [time.textContent, time.title])")
    assert_equal 3, shown.size
    assert_equal [Time.at(START_NS / 1_000_000_000).strftime("%F %T"), "2027-01-15 08:00:00 UTC"], shown[0]
  end

  def check_graph(browser)
    boxes = "[...document.querySelectorAll('.graph g title')].map((title) => title.textContent)"
    assert_equal ["proj (Rakefile:3): 2 tasks, mean 2.50 s", "*.out (Rakefile:9): 2 tasks, mean 1.83 s, 1 failed"],
                 browser.evaluate(boxes)
    assert_equal ["3 pairs of tasks"], browser.evaluate(
      "[...document.querySelectorAll('.graph .edge title')].map((title) => title.textContent)"
    )
    assert_equal "failed", browser.evaluate("document.querySelector('main h2').id"), "failures come first"
    assert_empty browser.evaluate(LEAVING_BOXES)
  end

  # With keys alone: rows are gone through, one is shown and closed again, and one sees where one is.
  def check_keys(browser)
    table = "document.getElementById('task-table')"
    current = "document.getElementById(#{table}.getAttribute('aria-activedescendant'))"
    name = "#{current}?.children[1].textContent"
    browser.evaluate("document.getElementById('task-status').focus()")
    browser.press("Tab", "ArrowDown")
    assert browser.evaluate("document.activeElement === #{table}")
    names = browser.evaluate("[...document.querySelectorAll('.virtual-row:not([hidden])')]" \
                             ".map((row) => row.children[1].textContent)")
    browser.wait_for("#{name} === #{JSON.generate(names[0])}")
    browser.press("ArrowDown", "ArrowDown", "ArrowUp", "Enter")
    browser.wait_for("#{name} === #{JSON.generate(names[1])}")
    assert_includes browser.evaluate("document.getElementById('task-detail').textContent"), names[1]
    browser.wait_for("#{current}.getAttribute('aria-selected') === 'true'")
    refute_equal "none", browser.evaluate("getComputedStyle(#{current}).boxShadow")
    browser.press("End")
    browser.wait_for("#{name} === #{JSON.generate(names[-1])}")
    browser.press("Escape")
    assert browser.evaluate("document.getElementById('task-detail').hidden")
  end

  # Rows are those of the four tasks with an action; what is found, how it is sorted, what a click tells.
  def check_tasks(browser)
    rows = "[...document.querySelectorAll('.virtual-row:not([hidden])')]" \
           ".map((row) => [...row.children].map((cell) => cell.textContent))"
    shown = browser.evaluate(rows)
    assert_equal ["e.out", HOSTILE, "b.out", "d.out"].sort, shown.map { |row| row[1] }.sort
    first = ["failed", "e.out", "*.out", "argo", "2.00 s", "3.00 s", "0 %", "? of 200 MiB", "100 B", "0 B", "1",
             "sh -c 'fit e'", ""]
    assert_equal first, shown[0], "what failed is first"
    type = "(text) => { const field = document.getElementById('task-search'); field.value = text; " \
           "field.dispatchEvent(new Event('input')); return new Promise((done) => setTimeout(done, 20)); }"
    browser.evaluate("(#{type})('FIT status')")
    assert_empty browser.evaluate(rows)
    browser.evaluate("(#{type})('fit failed')")
    assert_equal ["e.out"], (browser.evaluate(rows).map { |row| row[1] })
    assert_equal "1 of 4 tasks", browser.evaluate("document.getElementById('task-count').textContent")
    browser.evaluate("(#{type})('')")
    walls = "document.querySelectorAll('.virtual-head button')[5].click(), #{rows}.map((row) => row[5])"
    assert_equal ["3.00 s", "3.00 s", "2.00 s", "2.00 s"], browser.evaluate(walls)
    assert_equal ["2.00 s", "2.00 s", "3.00 s", "3.00 s"], browser.evaluate(walls)
    browser.evaluate("[...document.querySelectorAll('.virtual-row')]" \
                     ".find((row) => row.children[1].textContent === 'e.out').click()")
    assert_includes browser.evaluate("document.getElementById('task-detail').textContent"), "sh -c 'fit e'"
  end

  def report(*words)
    output, errors, status = Open3.capture3(COMMAND, "report", @run, *words)
    assert status.success?, errors
    assert_empty errors
    output
  end

  def event(name, time_s = nil, **fields)
    fields = { time_ns: START_NS + (time_s * 1e9).round, **fields } if time_s
    "#{JSON.generate({ event: name, **fields })}\n"
  end

  def attempt(task, number, times, line, ended, wants: {}, **command)
    @commands = (@commands || -1) + 1
    from_s, to_s = times
    event("attempt_started", from_s, task: task, attempt: number, node: 0, cores: 1, **wants) +
      event("command_started", from_s, command: @commands, task: task, line: line) +
      event("command_ended", to_s, command: @commands, wall_ns: ((to_s - from_s) * 1e9).round, **command) +
      event("attempt_ended", to_s, task: task, **ended)
  end

  # The run of crates/record/tests/support, drawn there, with a hostile name.
  def journal
    good = { outcome: "done", after: { modified_ns: 1, changed_ns: 1, bytes: 500, inode: 1 } }
    bad = { outcome: "failed", message: "it <b>broke</b>" }
    [
      event("run_started", -1, version: 2, run: "20270115-080000.000-42", rakuda: "0.1.0", directory: "/data/sky",
                               rakefile: "Rakefile", command_line: ["-j2", HOSTILE], host: "argo", cores: 2, policy: "lifo_hrf"),
      event("node_joined", -1, node: 0, name: "argo", cores: 2, memory_bytes: 1),
      event("invocation_started", 0, invocation: 0, tasks: ["all"]),
      definitions,
      attempt(1, 1, [0, 2], "proj a.src", good, status: 0, read_bytes: 400),
      attempt(2, 1, [0, 3], "cd x && proj a.src", good, status: 0, write_bytes: 50),
      attempt(4, 1, [3.5, 4], "fit d", { retried: true, **bad }, status: 9),
      attempt(5, 1, [2, 5], "sh -c 'fit e'", bad, wants: { memory_bytes: 200 << 20 }, status: 256, read_bytes: 100),
      event("task_settled", 5, task: 5, how: "failed"),
      attempt(4, 2, [4, 6], "fit d", good, status: 0),
      event("task_settled", 6, task: 6, how: "abandoned", because: [5]),
      event("invocation_ended", 6, invocation: 0, failed: 1, abandoned: 1),
      event("run_ended", 6.5, how: "failed", executed: 3, not_needed: 1, failed: 1, abandoned: 1)
    ].join
  end

  def definitions
    [
      event("rule_defined", rule: 0, location: "Rakefile:3"),
      event("rule_defined", rule: 1, location: "Rakefile:9"),
      event("task_defined", task: 0, name: "a.src", kind: "file", bytes: 1000, action: false),
      event("task_defined", task: 1, name: "b.out", kind: "file", action: true, rule: 0, prerequisites: [0]),
      event("task_defined", task: 2, name: HOSTILE, kind: "file", action: true, rule: 0, prerequisites: [0]),
      event("task_defined", task: 3, name: "mid", action: false, prerequisites: [1, 2]),
      event("task_defined", task: 4, name: "d.out", kind: "file", action: true, rule: 1, prerequisites: [3]),
      event("task_defined", task: 5, name: "e.out", kind: "file", action: true, rule: 1, prerequisites: [1]),
      event("task_defined", task: 6, name: "all", action: false, prerequisites: [4, 5])
    ]
  end
end
