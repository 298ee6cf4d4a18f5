# frozen_string_literal: true

require "json"
require "minitest/autorun"
require "net/http"
require "open3"
require "tmpdir"
require_relative "support/browser"
require_relative "support/near_hosts"
require_relative "support/page_look"
require_relative "support/waiting"

# `rakuda --ui` and `rakudactl ui`: a run that waits for a file, its page in a real browser, what the server lets in,
# and the report in the page's place when the run has ended.
class LivePageTest < Minitest::Test
  include PageLook
  include Waiting

  ROOT = File.expand_path("..", __dir__)
  RAKUDA = File.join(ROOT, "bin", "rakuda")
  CONTROL = File.join(ROOT, "bin", "rakudactl")
  METRICS = File.join(ROOT, "test", "validators", "metrics.py")
  PYTHON = File.join(ENV.fetch("CARGO_TARGET_DIR", File.join(ROOT, "target")), "validators/bin/python")
  RAKEFILE = <<~'RUBY'
    Dir.mkdir("out") unless File.directory?("out")
    20.times do |i|
      needs memory: "200M"
      file("out/a#{i}.txt") { |t| sh "echo made #{i} > #{t.name}" }
    end
    file("out/#{"bad_" * 40}.txt") { |t| sh "for i in $(seq 60); do echo line $i; done; echo 'no such star <b>bold</b>'; exit 3" }
    file("out/last.txt" => "out/late.txt") { |t| sh "echo last > #{t.name}" }
    file("out/late.txt" => (0...20).map { |i| "out/a#{i}.txt" }) do |t|
      sh "echo waiting; until [ -e go ]; do sleep 0.05; done; echo late > #{t.name}"
    end
    task default: ["out/last.txt", "out/#{"bad_" * 40}.txt"]
  RUBY
  # A round, and after it a stream, each of which waits for a file.
  JOINED = <<~'RUBY'
    sync(:disks, workers: 2, overhead: false) { |w| sh "echo begun; until [ -e go_round ]; do sleep 0.05; done" }
    small = (1..22).map { |i| "small#{i}" }
    small.each { |name| task(name) { sh "true" } }
    task(ticks: [:disks, *small]) { sh "echo one; echo two; until [ -e go ]; do sleep 0.05; done; echo three" }
    task(count: :disks) { sh "cat > all" }
    stream :lines, from: "ticks", to: "count"
    task default: :count
  RUBY

  # Of each of fourteen that fail nothing is needed, and one task needs it.
  FAILURES = <<~'RUBY'
    14.times do |i|
      file("out/#{"bad_" * 8}#{i}.txt") { sh "exit 3" }
      file("out/#{"bad_" * 8}#{i}.sum" => "out/#{"bad_" * 8}#{i}.txt") { sh "true" }
    end
    task(:slow) { sh "until [ -e go ]; do sleep 0.05; done" }
    task default: [:slow, *(0...14).map { |i| "out/#{"bad_" * 8}#{i}.sum" }]
  RUBY

  def setup
    @dir = Dir.mktmpdir("rakuda-page")
    File.write(File.join(@dir, "Rakefile"), RAKEFILE)
  end

  def teardown
    FileUtils.rm_rf(@dir)
  end

  def test_page_follows_the_run_and_becomes_its_report
    assert Browser.there?, "this test needs the package chromium; tools/setup installs it"
    with_run("--ui") do |address, ended|
      check_server(address)
      check_metrics(address)
      Browser.open do |browser|
        browser.visit(address)
        check_page(browser)
        check_last_row(browser)
        check_ends(browser)
        check_widths(browser)
        FileUtils.touch(File.join(@dir, "go"))
        refute ended.value.success?, "a task failed"
        browser.wait_for("document.title.startsWith('Run ')")
        browser.wait_for("document.querySelectorAll('#task-table .virtual-row').length > 20")
        check_widths(browser, "report")
        assert_empty browser.complaints
        own = address[%r{\Ahttp://[^/]+/}]
        assert_empty(browser.requests.reject { |request| request.start_with?(own) })
      end
    end
  end

  def test_page_of_a_run_that_was_started_without_it
    with_run do |_, ended|
      wait_until { Open3.capture3(CONTROL, "-C", @dir, "status").last.success? }
      Open3.popen3(CONTROL, "-C", @dir, "ui") do |_, out, _, control|
        address = out.gets.chomp
        # The page itself needs no token, what it asks for does.
        assert_equal "200", get(address, "/", nil).code
        wait_until { tasks(address, "failed") == 1 }
        FileUtils.touch(File.join(@dir, "go"))
        ended.value
        assert_includes get(address, "/report").body, "no such star &lt;b&gt;bold&lt;/b&gt;"
        Process.kill(:INT, control.pid)
        assert_predicate control.value, :success?
      end
    end
  end

  def test_page_shows_a_round_a_stream_and_nodes_while_they_go_on
    assert Browser.there?, "this test needs the package chromium; tools/setup installs it"
    on_near_hosts do |environment|
      with_run("--ui", "-F", "hosts", environment: environment) do |address, ended|
        Browser.open do |browser|
          browser.visit(address)
          check_round(browser)
          FileUtils.touch(File.join(@dir, "go_round"))
          check_stream(browser)
          check_values(browser)
          check_picture(browser)
          check_widths(browser, "joined")
          FileUtils.touch(File.join(@dir, "go"))
          assert_predicate ended.value, :success?
          browser.wait_for("document.title.startsWith('Run ')")
          %w[streams rounds].each { |part| assert browser.evaluate("document.getElementById('#{part}') !== null"), part }
          assert_empty browser.complaints
        end
      end
    end
  end

  # A window narrower than the picture around a failed task; more failures than are listed at once.
  def test_failures_on_a_narrow_page
    assert Browser.there?, "this test needs the package chromium; tools/setup installs it"
    File.write(File.join(@dir, "Rakefile"), FAILURES)
    with_run("--ui") do |address, ended|
      Browser.open(width: 400) do |browser|
        browser.visit(address)
        browser.wait_for("document.querySelector('.rest > summary')?.textContent === '4 more'")
        check_around(browser)
        listed = "[...document.querySelectorAll('#failures details:not(.rest) > summary')].map((it) => it.firstChild.data)"
        names = browser.evaluate(listed)
        assert_equal 14, names.uniq.size
        assert_equal 10, browser.evaluate("document.querySelectorAll('#failures > details:not(.rest)').length")
        browser.evaluate("document.querySelector('.rest > summary').click()")
        browser.wait_for("document.querySelector('.rest > div').clientHeight > 100")
        check_widths(browser, "failures")
        FileUtils.touch(File.join(@dir, "go"))
        refute ended.value.success?
        # The report has them in the same order.
        browser.wait_for("document.title.startsWith('Run ')")
        told = browser.evaluate("[...document.querySelectorAll('details:not(.rest) > summary code')].map((it) => it.textContent)")
        assert_equal names, told
        assert_empty browser.complaints
      end
    end
  end

  # No page follows the run before they are asked for: they are of now all the same.
  def test_first_pictures_are_not_of_when_the_server_began
    File.write(File.join(@dir, "Rakefile"), <<~'RUBY')
      task(:early) { sh "until [ -e go_round ]; do sleep 0.05; done" }
      task(late: :early) { sh "until [ -e go ]; do sleep 0.05; done" }
      task default: :late
    RUBY
    with_run("--ui") do |address, ended|
      assert_equal "200", get(address, "/v1/run/tasks/0").code # the server has read the journal
      FileUtils.touch(File.join(@dir, "go_round"))
      wait_until { running.map { |task| task["task"] } == ["late"] }
      # A look is a second old at most, and a picture two.
      legend = -> { JSON.parse(get(address, "/v1/run/pictures").body)["legend"].map { |entry| entry["label"] } }
      wait_until { legend.call.sort == %w[early late] }
      FileUtils.touch(File.join(@dir, "go"))
      assert_predicate ended.value, :success?
    end
  end

  def test_a_page_without_a_record_is_refused
    _, err, status = Open3.capture3(RAKUDA, "--ui", "--no-record", chdir: @dir)
    refute_predicate status, :success?
    assert_includes err, "--ui and --no-record together"
  end

  private

  # Two hosts that are this machine, with this folder, and JOINED in it.
  # @yield [Hash] the environment of a run over both
  def on_near_hosts
    Dir.mktmpdir("near") do |base|
      NearHosts::Run.new(base)
      File.write(File.join(@dir, "Rakefile"), JOINED)
      File.write(File.join(@dir, "hosts"), "host1 2\nhost2 2\n")
      yield({ "PATH" => "#{base}/bin:#{ENV.fetch("PATH")}", "NEAR_HOSTS" => base })
    end
  end

  # Runs it until the block is over; the files that it waits for are made then at the latest.
  def with_run(*options, environment: {})
    err, theirs = IO.pipe
    cores = environment.empty? ? %w[-j 4] : []
    pid = Process.spawn(environment, RAKUDA, *cores, "--keep-going", *options, chdir: @dir, out: File::NULL, err: theirs)
    theirs.close
    address = err.each_line.find { |line| line.include?("the page of this run") }&.slice(%r{http://\S+}) if options.any?
    rest = Thread.new { err.read }
    yield address, Process.detach(pid)
  ensure
    FileUtils.touch(%w[go_round go].map { |name| File.join(@dir, name) })
    rest&.join
  end

  def wait_until(&block) = wait_for("it at #{caller(1, 1).first}", &block)

  def get(address, path, token = address[/token=(\w+)/, 1], **headers)
    uri = URI(address)
    request = Net::HTTP::Get.new(path)
    request["Authorization"] = "Bearer #{token}" if token
    headers.each { |name, value| request[name.to_s] = value }
    Net::HTTP.start(uri.host, uri.port) { |http| http.request(request) }
  end

  # @return [Array<Hash>] the tasks that run now, as the hub says
  def running
    told, = Open3.capture2(CONTROL, "-C", @dir, "status", "--json", err: File::NULL)
    JSON.parse(told).fetch("runs", []).flat_map { |run| run["tasks"] }
  rescue JSON::ParserError
    []
  end

  # @return [Integer, nil] how many tasks of the run are in this state
  def tasks(address, state)
    get(address, "/metrics").body[/^rakuda_run_tasks\{.*state="#{state}"\} (\d+)$/, 1]&.to_i
  end

  def check_server(address)
    assert_equal "200", get(address, "/", nil).code
    assert_equal "401", get(address, "/metrics", nil).code
    assert_equal "401", get(address, "/v1/run/events", "0" * 64).code
    assert_equal "403", get(address, "/", nil, Host: "evil.example").code
    assert_equal "403", get(address, "/metrics", Origin: "http://evil.example").code
    assert_equal "404", get(address, "/nothing").code
    refute_includes get(address, "/", nil).body, File.basename(@dir), "the page holds nothing of the run"
  end

  # The figures are those of `rakudactl status`, in the form that Prometheus' own parser takes.
  def check_metrics(address)
    # Then nothing changes any more: one task waits for the test.
    wait_until { %w[failed done running].map { |state| tasks(address, state) } == [1, 20, 1] }
    metrics = get(address, "/metrics")
    status, = Open3.capture2(CONTROL, "-C", @dir, "status", "--json")
    status = JSON.parse(status)["runs"].first
    %w[total done running queued failed].each do |state|
      line = %(rakuda_run_tasks{run="#{status["run"]}",state="#{state}"} #{status[state]}\n)
      assert_includes metrics.body, line
    end
    assert_includes metrics.body, "rakuda_run_cores_busy{} 1\n"
    assert_path_exists PYTHON, "the validators are not installed: run tools/validators"
    found, status = Open3.capture2e(PYTHON, METRICS, metrics["Content-Type"], stdin_data: metrics.body)
    assert_predicate status, :success?, found
    assert_equal "gauge", JSON.parse(found).dig("rakuda_run_rule_seconds", "type")
  end

  def check_page(browser)
    browser.wait_for("document.getElementById('state').textContent === 'running'")
    assert_equal "", browser.evaluate("location.hash"), "the token is not left in the address"
    browser.wait_for("[...document.querySelectorAll('.card')].some((card) => card.textContent.startsWith('Tasks done20 of 23'))")
    names = "[...document.querySelectorAll('%s .virtual-row:not([hidden])')].map((row) => row.children[1].textContent)"
    browser.wait_for("#{format(names, "#running-table")}.length === 1")
    assert_equal ["out/late.txt"], browser.evaluate(format(names, "#running-table"))
    browser.wait_for("document.querySelector('#failures pre')?.textContent.includes('no such star <b>bold</b>')")
    browser.wait_for("document.querySelectorAll('#task-table .virtual-row:not([hidden])').length === 22")
    search(browser, "a1")
    browser.wait_for("#{format(names, "#task-table")}.length === 11")
    browser.evaluate("document.querySelector('#task-table .virtual-row').click()")
    browser.wait_for("document.querySelector('#task-detail .neighbours')?.textContent.includes('out/late.txt')")
    assert_includes browser.evaluate("document.getElementById('task-detail').textContent"), "memory asked for200 MiB"
    check_waiting(browser, names)
    search(browser, "")
    browser.wait_for("document.querySelector('#curve svg') !== null && !document.getElementById('attempts').hidden")
    browser.evaluate("document.getElementById('ask-values').click()")
    browser.wait_for("[...document.querySelectorAll('#node-rows th')].some((head) => head.textContent === 'mem_available')")
    # Of each rule: name, done, running, failed, mean, in all, and a bar.
    rows = "[...document.querySelectorAll('#rule-rows tbody tr')]"
    browser.wait_for("#{rows}.some((row) => row.cells[1].innerText === '20 of 20')")
    cells = browser.evaluate("#{rows}.map((row) => [...row.cells].map((it) => it.innerText))")
    made = cells.find { |row| row[1] == "20 of 20" }
    assert_includes cells.map { |row| row[0, 2] }, ["out/last.txt", "0 of 1"], "nothing of that rule has begun"
    assert_equal 7, made&.size, cells.inspect
    assert_match(/\A[\d.]+ (?:ms|s)\z/, made[5])
  end

  # The cells of a table's rows.
  def rows(table) = "[...document.querySelectorAll('#{table} tbody tr')].map((row) => [...row.cells].map((it) => it.textContent))"

  def linked(browser) = browser.evaluate("[...document.querySelectorAll('#sections a')].map((it) => it.textContent)")

  def check_round(browser)
    browser.wait_for("#{rows("#rounds")}.some((it) => it.at(-1) === '2 of 2 have begun')")
    assert_includes linked(browser), "Synchronised rounds"
    refute_includes linked(browser), "Streams"
    open = browser.evaluate(rows("#rounds")).find { |row| row.last == "2 of 2 have begun" }
    assert_equal ["disks", "counted", "2", "open"], open.values_at(0, 2, 3, 4)
    browser.wait_for("#{rows("#rule-rows")}.some((it) => it[0] === 'disks (sync, 2 workers)')")
    check_widths(browser, "round")
  end

  def check_stream(browser)
    browser.wait_for("#{rows("#streams")}.some((it) => it.join() === 'lines,running,1,1,8 B,2')")
    assert_includes linked(browser), "Streams"
    browser.wait_for("#{rows("#rounds")}.some((it) => it[2] === 'counted' && /^[0-9.]+ [a-zµ]+$/.test(it[4]))")
    round = browser.evaluate(rows("#rounds")).find { |row| row[2] == "counted" }
    assert_equal ["disks", "2", ""], round.values_at(0, 3, 8), round.inspect
  end

  # Of a node all that is known, also what only this run knows.
  def check_values(browser)
    nodes = browser.evaluate(rows("#node-rows")).map(&:first)
    assert_empty %w[host1 host2] - nodes
    _, errors, status = Open3.capture3(CONTROL, "-C", @dir, "set-attr", "host2", "licence=7")
    assert_predicate status, :success?, errors
    assert browser.evaluate("document.getElementById('node-values').hidden")
    browser.evaluate("document.getElementById('ask-values').click()")
    browser.wait_for("[...document.getElementById('values-of').options].map((it) => it.value).includes('host2')")
    browser.evaluate("{ const choice = document.getElementById('values-of'); choice.value = 'host2'; " \
                     "choice.dispatchEvent(new Event('change')) }")
    browser.wait_for("#{rows("#node-values")}.some((it) => it[0] === 'licence' && it[1] === '7')")
    # An agent samples from the first question on.
    browser.wait_for("#{rows("#node-values")}.some((it) => it[0] === 'mem_total' && it[1])")
    values = browser.evaluate(rows("#node-values")).to_h { |name, value| [name, value] }
    assert_empty %w[threads os mem_total load1 run_cores] - values.keys
    assert_equal "2", values["run_cores"]
    assert_match(/\A[\d.]+ [KMGT]iB\z/, values["mem_total"])
    refute_includes values.values.join, "NaN"
  end

  # What a task needs stands beside it, and a click on that goes there.
  def check_picture(browser)
    texts = "[...document.querySelectorAll('#task-detail .around text')].map((it) => it.textContent)"
    search(browser, "ticks")
    browser.wait_for("document.querySelector('#task-table .virtual-row:not([hidden])')?.textContent.includes('ticks')")
    browser.evaluate("document.querySelector('#task-table .virtual-row').click()")
    browser.wait_for("#{texts}.includes('ticks')")
    shown = browser.evaluate(texts)
    assert_equal [20, 1], [shown.grep(/\A(?:small\d+|disks\S*)\z/).size, shown.count("and 3 more")], shown.inspect
    assert_equal 1, browser.evaluate("document.querySelectorAll('#task-detail .around .task.now').length"), "ticks runs"
    browser.evaluate("[...document.querySelectorAll('#task-detail .around [role=button]')]" \
                     ".find((it) => it.textContent.includes('small1')).dispatchEvent(new Event('click'))")
    browser.wait_for("document.querySelector('#task-detail dd')?.textContent.startsWith('small1')")
    assert_includes browser.evaluate(texts), "ticks"
    search(browser, "")
  end

  # The box of the failed task itself is in sight, and no column is empty.
  def check_around(browser)
    figure = "document.querySelector('#failures figure.around')"
    browser.wait_for("#{figure}?.querySelector('.task.bad') && #{figure}.clientWidth > 0")
    browser.resize(500, 1000)
    browser.resize(400, 1000)
    browser.wait_for("innerWidth === 400")
    own = "[...#{figure}.querySelectorAll('.task')].at(-1).getBoundingClientRect()"
    bounds = "#{figure}.getBoundingClientRect()"
    browser.wait_for("#{own}.left >= #{bounds}.left - 1 && #{own}.right <= #{bounds}.right + 1")
    columns = browser.evaluate("[...new Set([...#{figure}.querySelectorAll('rect')].map((it) => Number(it.getAttribute('x'))))]")
    assert_equal [2, true], [columns.size, columns.min < 10], columns.inspect
    assert_operator browser.evaluate("#{figure}.querySelector('svg').viewBox.baseVal.width"), :<, 460
  end

  # The keyboard alone goes to a row that is out of sight, and brings that into sight.
  def check_last_row(browser)
    current = "document.querySelector('#task-table .current')"
    browser.wait_for("document.querySelectorAll('#task-table .virtual-row:not([hidden])').length === 22")
    browser.evaluate("document.getElementById('task-table').focus()")
    browser.press("End")
    browser.wait_for("#{current}?.getAttribute('aria-rowindex') === '23'")
    low = "document.getElementById('task-table').getBoundingClientRect().bottom"
    assert_operator browser.evaluate("#{current}.getBoundingClientRect().bottom"), :<=, browser.evaluate(low)
    browser.press("Escape", "Home")
    browser.wait_for("#{current}?.getAttribute('aria-rowindex') === '2'")
  end

  # What has not begun is found, and says what it waits for.
  def check_waiting(browser, names)
    search(browser, "LAST")
    browser.wait_for("#{format(names, "#task-table")}.join() === 'out/last.txt'")
    assert_includes browser.evaluate("document.getElementById('count').textContent"), "and 1 not begun"
    browser.evaluate("document.querySelector('#task-table .virtual-row').click()")
    browser.wait_for("document.querySelector('#task-detail .neighbours')?.textContent.includes('waits for 1 task')")
    assert_includes browser.evaluate("document.querySelector('#task-detail .neighbours').textContent"), "out/late.txt"
    choose(browser, "not begun")
    search(browser, "")
    browser.wait_for("#{format(names, "#task-table")}.join() === 'out/last.txt'")
    choose(browser, "")
  end

  def choose(browser, state)
    browser.evaluate("{ const choice = document.getElementById('status'); choice.value = #{JSON.generate(state)}; " \
                     "choice.dispatchEvent(new Event('change')) }")
  end

  def search(browser, text)
    browser.evaluate("{ const field = document.getElementById('search'); field.value = #{JSON.generate(text)}; " \
                     "field.dispatchEvent(new Event('input')) }")
  end
end
