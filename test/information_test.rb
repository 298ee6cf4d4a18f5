# frozen_string_literal: true

require "csv"
require "fileutils"
require "json"
require "minitest/autorun"
require "net/http"
require "open3"
require "socket"
require "tmpdir"
require_relative "support/terminal"

# The information service as a user has it: `rakudad info`, `rakudactl nodes`, and HTTP.
class InformationTest < Minitest::Test
  ROOT = File.expand_path("..", __dir__)
  ENGINE = File.join(ROOT, "target/release/rakudad")
  # Of something that is expected to come; nothing is measured by it.
  PATIENCE_S = 60
  PYTHON = File.join(ENV.fetch("CARGO_TARGET_DIR", File.join(ROOT, "target")), "validators/bin/python")

  PROVIDERS = <<~TOML
    [[provider]]
    name = "probe"
    command = ["sh", "-c", "echo queue 12 1/s; echo mode '\\"two words\\"'"]
    period = 0.2
    limit = 100
    [[provider]]
    name = "broken"
    command = ["sh", "-c", "exit 3"]
    limit = 100
    [[provider]]
    name = "hanging"
    command = ["sh", "-c", "sleep 98765"]
    limit = 0.3
  TOML

  def setup
    @folder = Dir.mktmpdir("rakuda-info-")
    @token_file = File.join(@folder, "token")
    File.write(File.join(@folder, "providers.toml"), PROVIDERS)
    words = ["info", "-F", "localhost", "--token-file", @token_file, "--period", "200ms",
             "--providers", File.join(@folder, "providers.toml")]
    @output, writer = IO.pipe
    @errors = File.join(@folder, "errors")
    @service = Process.spawn(ENGINE, *words, out: writer, err: @errors)
    writer.close
    line = @output.wait_readable(PATIENCE_S) && @output.gets
    @address, word, file = line.to_s.chomp.split(" ", 3)
    assert_equal ["token", @token_file], [word, file], File.read(@errors)
    @token = File.read(@token_file).chomp
  end

  def teardown
    Process.kill(:TERM, @service)
    Process.wait(@service)
    @output.close
    FileUtils.remove_entry(@folder)
  end

  def test_a_service_lets_in_who_has_its_token_and_means_it
    assert_equal 0o600, File.stat(@token_file).mode & 0o777
    assert_equal "200", get("/v1/nodes").code
    assert_equal "401", get("/v1/nodes", "Authorization" => "Bearer #{"0" * 64}").code
    assert_equal "401", get("/v1/nodes", "Authorization" => nil).code
    assert_equal "403", get("/v1/nodes", "Host" => "elsewhere.example").code
    assert_equal "403", get("/v1/nodes", "Origin" => "http://elsewhere.example").code
    assert_equal "404", get("/v2/nodes").code
    assert_equal "400", get("/v1/nodes?wher=1").code
  end

  def test_those_without_a_token_shut_nobody_out
    address = URI(@address)
    idle = Array.new(300) { TCPSocket.new(address.host, address.port) }
    assert_equal "200", get("/v1/nodes").code
  ensure
    idle&.each(&:close)
  end

  # They have the token, so they may come in: some ask nothing, some ask half, some ask once, some ask for more than
  # fits into the buffers on the way, some want events; none of them ever reads.
  def test_a_thousand_that_do_not_read_shut_nobody_out
    address = URI(@address)
    heads = ["Accept: */*\r\n\r\n", "Accept: text/event-stream\r\n\r\n"].map do |rest|
      "GET /v1/nodes HTTP/1.1\r\nHost: #{address.host}:#{address.port}\r\nAuthorization: Bearer #{@token}\r\n#{rest}"
    end
    said = ["", heads[0][0, 50], heads[0], heads[0] * 300, heads[1]]
    sockets = Array.new(1000) do |index|
      TCPSocket.new(address.host, address.port).tap { |socket| say(socket, said[index % said.size]) }
    end
    assert_equal "200", get("/v1/nodes").code
    # All were accepted before the one that was answered; beside connections a service has some files of its own.
    assert_operator Dir.children("/proc/#{@service}/fd").size, :<=, 256 + 32
    assert_equal "200", get("/metrics").code
    assert_operator File.read("/proc/#{@service}/status")[/^VmHWM:\s+(\d+)/, 1].to_i, :<, 128 << 10, "KiB at most"
  ensure
    sockets&.each(&:close)
  end

  def test_a_node_is_told_with_values_units_and_ages
    node = JSON.parse(get("/v1/nodes?max_age=0").body).fetch("nodes").fetch(0)
    assert_equal "up", node["state"]
    memory = node.dig("values", "mem_total")
    assert_equal File.read("/proc/meminfo")[/^MemTotal: +(\d+)/, 1].to_i * 1024, memory["value"]
    assert_equal "B", memory["unit"]
    assert_kind_of Float, memory["age_s"]
    assert_equal Dir["/sys/devices/system/cpu/cpu[0-9]*"].empty?, node.dig("values", "threads", "value").nil?
  end

  def test_tables_and_csv_have_ages_where_they_are_wanted
    wait_for { value("load1") && value("threads") }
    rows = CSV.parse(nodes("--csv", "--ages", "--cols", "load1, threads, run"), headers: true)
    assert_equal %w[node state load1 load1.age_s threads threads.age_s run run.age_s], rows.headers
    rows[0].values_at("load1", "load1.age_s", "threads.age_s").each { |number| assert_operator Float(number), :>=, 0 }
    assert_nil rows[0]["run.age_s"], "it rests on no sample"
    table = nodes("--ages", "--cols", "threads, arch").lines.last
    assert_match(/ \d+ \([\d.]+m?s\)  \S+ \([\d.]+m?s\)$/, table)
    assert_match(/ \d+  \S+$/, nodes("--cols", "threads, arch").lines.last)
    output, errors, status = rakudactl("nodes", "-F", "localhost", "--ages", "--cols", "threads")
    assert status.success?, errors
    assert_match(/ \d+ \([\d.]+m?s\)$/, output)
    assert_equal "400", get("/v1/nodes?ages=yes").code
  end

  # Each has the head that GET has, and the connection is good for more.
  def test_head_is_get_without_a_body
    address = URI(@address)
    Net::HTTP.start(address.host, address.port, read_timeout: PATIENCE_S) do |http|
      ["/v1/attributes", "/metrics", "/v1/nodes?fields=threads", "/nowhere", "/v1/nodes?where=%3C"].each do |path|
        asked = [Net::HTTP::Get, Net::HTTP::Head].map { |method| method.new(path, "Authorization" => "Bearer #{@token}") }
        got, head = asked.map { |one| http.request(one) }
        assert_equal [got.code, got["content-type"]], [head.code, head["content-type"]]
        assert_operator head["content-length"].to_i, :>, 0
        assert_nil head.body
      end
      stream = Net::HTTP::Head.new("/v1/nodes", "Authorization" => "Bearer #{@token}", "Accept" => "text/event-stream")
      head = http.request(stream)
      assert_equal %w[200 text/event-stream], [head.code, head["content-type"]]
      assert_equal "401", http.request(Net::HTTP::Head.new("/metrics")).code
    end
  end

  def test_other_methods_are_told_which_there_are
    { "/v1/nodes" => "GET, HEAD", "/metrics" => "GET, HEAD", "/v1/attributes" => "GET, HEAD",
      "/v1/sources/x/wishes" => "GET, HEAD", "/v1/sources/x" => "POST", "/v1/nodes/n/attributes/x" => "PUT",
      "/v1/nodes/n/providers/x" => "PUT, DELETE" }
      .each do |path, allowed|
      answer = send_with(Net::HTTP::Options, path, nil)
      assert_equal ["405", allowed], [answer.code, answer["allow"]], path
    end
    assert_nil get("/nowhere")["allow"]
  end

  def test_nodes_are_asked_by_expressions
    wait_for { value("mem_total") && value("load1") && value("threads") }
    names = ["--cols", "host, mem_total/1MiB, load1/0", "--csv"]
    lines = CSV.parse(nodes(*names, "--where", "mem_total > 1MiB && has(load1) && !has(gpu)"))
    assert_equal ["node", "state", "host", "mem_total/1MiB", "load1/0"], lines[0]
    assert_equal [2, nil], [lines.size, lines[1][4]]
    assert_equal 1, CSV.parse(nodes(*names, "--where", "mem_total < 1MiB")).size
    groups = JSON.parse(nodes("--group-by", "arch", "--cols", "count(), sum(threads)", "--json"))
    assert_equal 1, groups.dig("groups", 0, "values", "count()", "value")
    ldif = nodes("--format", "ldif")
    assert_match(/^Mds-Memory-Ram-Total-sizeMB: \d+$/, ldif)
    assert_match(/^rakuda-age: mem_total \d+\.\d{3}$/, ldif)
  end

  def test_what_makes_no_sense_is_told_with_its_place
    errors, status = refused("--where", "laod1 < 2")
    assert_equal "rakudactl: --where: at character 1: nothing is called laod1 (did you mean load1?)\n", errors
    assert_equal 2, status
    errors, status = refused("--format", "ldif", "--group-by", "arch")
    assert_equal ["rakudactl: --format: ldif has an entry for each node, and none for groups; take json, csv or text\n", 2],
                 [errors, status]
    assert_equal "400", get("/v1/nodes?format=ldif&group_by=arch").code
    errors, status = refused("--limit", "x")
    assert_equal ["rakudactl: invalid value 'x' for '--limit <N>': expected a number of rows; " \
                  "`rakudactl nodes --help` explains\n", 2],
                 [errors, status]
    errors, = refused("--where", "arch == 2")
    assert_match(/at character 6: a text is compared with a number/, errors)
  end

  def test_programs_provide_values_or_the_reason_why_not
    wait_for { value("queue") }
    assert_equal({ "value" => 12, "unit" => "1/s" }, value("queue").slice("value", "unit"))
    assert_equal "two words", value("mode")["value"]
    wait_for { value("provider_error('broken')") }
    assert_equal "provider broken exited with 3", value("provider_error('broken')")["value"]
    wait_for { value("provider_error('hanging')") }
    assert_equal "provider hanging took more than 0.3 s", value("provider_error('hanging')")["value"]
    assert_equal 1, File.readlines(@errors).grep(/broken/).size, "it is said once"
  end

  def test_providers_come_change_and_go_while_the_service_runs
    wait_for { value("queue") && value("provider_error('broken')") }
    file = File.join(@folder, "providers.toml")
    command = ["sh", "-c", "echo program $$; exec sleep 98764"]
    lives = "[[provider]]\nname = \"lives\"\ncommand = #{command}\nlong_lived = true\n"
    provide(file, PROVIDERS.sub("queue 12", "queue 13").sub(/^\[\[provider\]\]\nname = "broken".*?(?=^\[\[)/m, "") + lives)
    wait_for { value("program") && value("queue")["value"] == 13 }
    assert_equal [nil, "its provider was removed"], value("provider_error('broken')").values_at("value", "why")
    program = value("program")["value"]
    provide(file, "[[provider]]\nname = \"lives\"\n")
    told = /failed to understand the file of providers #{file}: .*missing field `command`.*; all providers go on$/m
    wait_for { File.read(@errors).match?(told) }
    assert_equal program, value("program")["value"]
    provide(file, "")
    wait_for { value("program")["value"].nil? }
    wait_for { !File.exist?("/proc/#{program.to_i}") }
    assert_equal([nil, "its provider was removed"], value("queue").values_at("value", "why"))
    provide(file, lives)
    wait_for { value("program")["value"] }
    refute_equal program, value("program")["value"]
    assert_nil value("provider_error('lives')"), "that it was killed is no fault of it"
  end

  def test_a_user_gives_a_node_a_value
    name = JSON.parse(get("/v1/nodes").body).dig("nodes", 0, "node")
    _, errors, status = rakudactl("set-attr", name, "rack=r7", "weight=3.5 kg", *service)
    assert status.success?, errors
    assert_equal ["r7", [3.5, "kg"]], [value("rack")["value"], value("weight").values_at("value", "unit")]
    _, errors, status = rakudactl("set-attr", name, "load1=0", "room('/a b')=5 GB", "note=two words", *service)
    assert_equal ["rakudactl: load1 is set by the provider load (status 400)\n", 1], [errors, status.exitstatus]
    assert_equal [[5e9, "B"], "two words"], [value("room('/a b')").values_at("value", "unit"), value("note")["value"]]
    assert_equal 2, nodes("--where", "room('/a b') >= 4GB", "--cols", "rack").lines.size
    _, errors, status = rakudactl("set-attr", name, "rack=#{"x" * 70_000}", *service)
    assert_equal ["rakudactl: rack: the texts of the node would have more than 64 KiB (status 400)\n", 1],
                 [errors, status.exitstatus]
    assert rakudactl("set-attr", name, "rack=", *service).last.success?
    assert_equal [nil, "a user has removed it"], value("rack").values_at("value", "why")
    _, errors, status = rakudactl("set-attr", name, "rack=", *service)
    assert_equal ["rakudactl: no user has set rack of this node (status 400)\n", 1], [errors, status.exitstatus]
    assert rakudactl("set-attr", name, "rack=r8", *service).last.success?
    assert_equal "r8", value("rack")["value"]
  end

  def test_a_program_that_somebody_else_has_started_registers_and_provides
    path = "/v1/nodes/#{own}/providers/sensor?validity=1d"
    answer = put(path, "depth 3 m\nplace \"the sea\"\nload1 7")
    assert_equal "200", answer.code, answer.body
    assert_equal [true, ["load1 is set by the provider load"]], JSON.parse(answer.body).values_at("new", "refused")
    assert_equal [3, "m"], value("depth").values_at("value", "unit")
    assert_equal "200", put(path.sub("1d", "1s"), "").code
    wait_for { value("depth")["value"].nil? }
    assert_equal "provider sensor has said nothing for 1 s", value("depth")["why"]
    assert_equal "provider sensor has said nothing for 1 s", value("provider_error('sensor')")["value"]
    assert_equal true, JSON.parse(put(path, '{"depth": {"value": 4, "unit": "m"}}').body)["new"], "it tells all again"
    assert_equal false, JSON.parse(put(path, "").body)["new"]
    assert_equal 4, value("depth")["value"]
    assert_equal "400", put(path, "rubbish").code
    assert_equal 4, value("depth")["value"]
    assert_equal "200", remove(path).code
    assert_equal "its provider was removed", value("depth")["why"]
    assert_equal "404", remove(path).code
  end

  def test_who_may_not_register_is_told_why
    path = ->(node, name) { "/v1/nodes/#{node}/providers/#{name}" }
    { put(path[own, "load"], "x 1") => ["400", "a built-in provider has this name"],
      put(path[own, "Sensor"], "x 1") => ["400", "expected a name of a-z, then a-z, 0-9 and _"],
      put(path[own, "probe"], "x 1") => ["409", "this service runs a provider probe itself"],
      put(path["nowhere", "sensor"], "x 1") => ["404", "there is no node nowhere"],
      put("#{path[own, "sensor"]}?validity=0s", "x 1") => ["400", "validity: expected a time from 1s to 1d, such as 30s"],
      put(path[own, "sensor"], "x \"#{"x" * (129 << 10)}\"") =>
        ["429", "provider sensor has sent more than 128 KiB within a second; expected less, or less often"] }
      .each do |answer, (code, message)|
      assert_equal code, answer.code
      assert_includes JSON.parse(answer.body).dig("error", "message"), message
    end
    assert_nil value("x")
  end

  def test_rakudactl_provide_tells_what_a_program_prints_as_long_as_it_prints
    words = ["provide", own, "sensor", *service, "--validity", "1d"]
    Open3.popen3(ENGINE, "ctl", *words, chdir: @folder) do |input, _, errors, process|
      input.puts "depth 3 m", "place deep"
      wait_for { value("depth")&.fetch("value") == 3 }
      input.puts '{"depth": {"value": 5, "unit": "m"}, "tide": "low"}'
      wait_for { value("depth")["value"] == 5 && value("tide") }
      input.puts "depth deep", "tide high"
      wait_for { value("tide")["value"] == "high" }
      assert_equal "depth was a number in m, is a text", value("depth")["why"]
      input.close
      said = errors.read
      assert_equal [0, "rakudactl: depth was a number in m, is a text\n"], [process.value.exitstatus, said]
    end
    assert_equal "its provider was removed", value("tide")["why"]
    _, errors, status = rakudactl("provide", "nowhere", "sensor", *service)
    assert_equal ["rakudactl: there is no node nowhere (status 404)\n", 1], [errors, status.exitstatus]
    _, errors, status = rakudactl("provide", own, "sensor", *service, "--validity", "soon")
    assert_equal ["rakudactl: --validity soon: expected a time such as 30s\n", 2], [errors, status.exitstatus]
  end

  # Another file, which the service is told to read.
  def provide(file, text)
    File.write("#{file}.new", text)
    File.rename("#{file}.new", file)
    Process.kill(:HUP, @service)
  end

  def stream_code
    address = URI(@address)
    TCPSocket.open(address.host, address.port) do |socket|
      socket.write("GET /v1/nodes?fields=host HTTP/1.1\r\nHost: #{address.host}:#{address.port}\r\n" \
                   "Accept: text/event-stream\r\nAuthorization: Bearer #{@token}\r\n\r\n")
      socket.gets[/ (\d+) /, 1]
    end
  end

  def test_changes_come_as_events
    address = URI(@address)
    ids = []
    # Net::HTTP reads a body to its end, which this one has not.
    TCPSocket.open(address.host, address.port) do |socket|
      socket.timeout = PATIENCE_S if socket.respond_to?(:timeout=)
      socket.write("GET /v1/nodes?fields=uptime HTTP/1.1\r\nHost: #{address.host}:#{address.port}\r\n" \
                   "Accept: text/event-stream\r\nAuthorization: Bearer #{@token}\r\n\r\n")
      events = socket.each_line.lazy.filter_map { |line| line[/^(?:id|data): (.*)$/, 1] }
      ids = events.first(4)
    end
    assert_operator ids[0].to_i, :<, ids[2].to_i
    assert_equal([2, 2], [ids[1], ids[3]].map { |data| JSON.parse(data)["version"] })
  end

  def test_events_say_who_comes_and_who_leaves
    name = JSON.parse(get("/v1/nodes").body).dig("nodes", 0, "node")
    set = ->(number) { assert rakudactl("set-attr", name, "x=#{number}", *service).last.success? }
    set.call(1)
    wait_for { value("threads") }
    address = URI(@address)
    TCPSocket.open(address.host, address.port) do |socket|
      socket.timeout = PATIENCE_S if socket.respond_to?(:timeout=)
      socket.write("GET /v1/nodes?fields=threads&where=x%3C5 HTTP/1.1\r\nHost: #{address.host}:#{address.port}\r\n" \
                   "Accept: text/event-stream\r\nAuthorization: Bearer #{@token}\r\n\r\n")
      events = socket.each_line.lazy.filter_map { |line| line[/^data: (.*)$/, 1] }.map { |data| JSON.parse(data) }
      told = -> { events.first.then { |it| [it["nodes"].map { |node| node["values"].keys }, it["left"]] } }
      assert_equal [[["threads"]], nil], told.call
      set.call(9)
      assert_equal [[], [name]], told.call
      set.call(2)
      assert_equal [[["threads"]], nil], told.call, "it is told whole"
    end
    change = JSON.parse(get("/v1/nodes").body)["change"]
    set.call(9)
    assert_equal [name], JSON.parse(get("/v1/nodes?where=x%3C5&since=#{change}").body)["left"]
    change = JSON.parse(get("/v1/nodes").body)["change"]
    set.call(3)
    nodes = JSON.parse(get("/v1/nodes?fields=threads&where=x%3C5&since=#{change}").body)["nodes"]
    assert_equal [["threads"]], nodes.map { |node| node["values"].keys }, "it may have come into the answer"
  end

  # A service that was started anew does not know what it was told of the one before, and says so.
  def test_since_a_change_of_another_service_everything_is_told
    wait_for { value("threads") }
    [0, JSON.parse(get("/v1/nodes").body)["change"] - 3_600_000_000, 2**60].each do |change|
      answer = JSON.parse(get("/v1/nodes?fields=threads&since=#{change}").body)
      assert_equal [true, [["threads"]]], [answer["anew"], answer["nodes"].map { |node| node["values"].keys }]
    end
    answer = JSON.parse(get("/v1/nodes?fields=threads").body)
    refute answer.key?("anew")
    refute JSON.parse(get("/v1/nodes?fields=threads&since=#{answer["change"]}").body).key?("anew")
  end

  def test_the_last_group_that_goes_is_told
    set = ->(number) { assert rakudactl("set-attr", own, "x=#{number}", *service).last.success? }
    set.call(1)
    address = URI(@address)
    TCPSocket.open(address.host, address.port) do |socket|
      socket.timeout = PATIENCE_S if socket.respond_to?(:timeout=)
      socket.write("GET /v1/nodes?group_by=node&where=x%3C5 HTTP/1.1\r\nHost: #{address.host}:#{address.port}\r\n" \
                   "Accept: text/event-stream\r\nAuthorization: Bearer #{@token}\r\n\r\n")
      events = socket.each_line.lazy.filter_map { |line| line[/^data: (.*)$/, 1] }.map { |data| JSON.parse(data)["groups"].size }
      assert_equal 1, events.first
      set.call(9)
      assert_equal 0, events.first, "what changes besides is not told"
      set.call(2)
      assert_equal 1, events.first
    end
  end

  # As many as there would be room for, and more.
  def test_streams_of_events_leave_room_for_questions
    address = URI(@address)
    sockets = Array.new(260) do
      TCPSocket.new(address.host, address.port).tap do |socket|
        socket.write("GET /v1/nodes?fields=host HTTP/1.1\r\nHost: #{address.host}:#{address.port}\r\n" \
                     "Accept: text/event-stream\r\nAuthorization: Bearer #{@token}\r\n\r\n")
        assert socket.wait_readable(PATIENCE_S)
      end
    end
    codes = sockets.map { |socket| socket.gets[/ (\d+) /, 1] }
    assert_equal({ "200" => 192, "503" => 68 }, codes.tally)
    assert_equal "200", get("/metrics").code
    sockets.shift(10).each(&:close)
    wait_for { stream_code == "200" }
  ensure
    sockets&.each(&:close)
  end

  def test_metrics_are_in_both_formats
    wait_for { value("mem_total") }
    open = get("/metrics")
    assert_match(%r{\Aapplication/openmetrics-text; version=1.0.0}, open["content-type"])
    assert open.body.end_with?("# EOF\n")
    old = get("/metrics", "Accept" => "text/plain")
    assert_match(%r{\Atext/plain; version=0.0.4}, old["content-type"])
    refute_includes old.body, "# EOF"
    assert_match(/^rakuda_mem_total_bytes\{node=".+"\} \d+$/, old.body)
  end

  def test_metrics_are_read_by_the_parsers_of_prometheus
    wait_for { value("queue") && value("mode") }
    wait_for_file_systems
    open, old = [{}, { "Accept" => "text/plain" }].map { |headers| parsed(get("/metrics", headers)) }
    total = File.read("/proc/meminfo")[/^MemTotal: +(\d+)/, 1].to_i * 1024
    [open, old].each do |families|
      memory = families.fetch("rakuda_mem_total_bytes")
      assert_equal ["gauge", [total]], [memory["type"], memory["samples"].map { |sample| sample["value"] }]
      assert_equal([12], families.fetch("rakuda_queue_per_second")["samples"].map { |sample| sample["value"] })
      file_systems = families.fetch("rakuda_fs_free_bytes")["samples"].map { |sample| sample["labels"].keys.sort }
      assert_equal [%w[instance node]], file_systems.uniq
    end
    assert_equal ["info", "bytes"], [open.dig("rakuda_node", "type"), open.dig("rakuda_mem_total_bytes", "unit")]
    [open, old].each { |families| assert_each_value_has_an_age(families) }
    cut = get("/metrics").body.delete_suffix("# EOF\n")
    assert_includes validated(cut, "application/openmetrics-text").fetch(1), "Missing # EOF"
  end

  # It refuses what Prometheus cannot read with status 1, and has an opinion of names and units, with status 3.
  def test_promtool_reads_the_older_text_format
    wait_for { value("queue") && value("mode") }
    old = get("/metrics", "Accept" => "text/plain").body
    output, errors, status = promtool(old)
    assert_includes [0, 3], status.exitstatus, errors
    assert_equal [], (output + errors).lines.grep_v(/net_speed/), "of Mbit/s it has heard nothing"
    _, errors, status = promtool(old.sub(/^(rakuda_mem_total_bytes\{.*\}) \d+$/, '\\1 much'))
    assert_equal 1, status.exitstatus, errors
  end

  # Debian's server, which asks as its users configure it, and is asked by its own language.
  def test_prometheus_scrapes_a_service
    wait_for { value("queue") }
    port = TCPServer.open("127.0.0.1", 0) { |server| server.addr[1] }
    target = { job_name: "rakuda", scrape_interval: "1s", scrape_timeout: "1s",
               authorization: { credentials_file: @token_file },
               static_configs: [{ targets: [@address.delete_prefix("http://")] }] }
    # A busy machine may be slow to answer one of them; the next comes.
    File.write(File.join(@folder, "prometheus.yml"), JSON.generate(scrape_configs: [target]))
    words = ["--config.file=prometheus.yml", "--storage.tsdb.path=data", "--web.listen-address=127.0.0.1:#{port}"]
    prometheus = Process.spawn("prometheus", *words, chdir: @folder, %i[out err] => File.join(@folder, "prometheus.log"))
    assert_prometheus_knows(port, "up" => 1, "rakuda_queue_per_second" => 12,
                                  "count(rakuda_age_seconds%7Battribute=%22queue%22%7D)" => 1,
                                  "rakuda_mem_total_bytes" => File.read("/proc/meminfo")[/^MemTotal: +(\d+)/, 1].to_i * 1024)
  rescue Errno::ENOENT
    flunk "prometheus is not installed (Debian: prometheus); see test/packages.apt"
  ensure
    if prometheus
      Process.kill(:TERM, prometheus)
      Process.wait(prometheus)
    end
  end

  SLAPD = <<~CONF.freeze
    include /etc/ldap/schema/core.schema
    include #{ROOT}/share/rakuda/ldap/rakuda.schema
    modulepath /usr/lib/ldap
    moduleload back_mdb
    database mdb
    suffix "o=grid"
    directory data
  CONF

  # By its schema, which has no names of the test's own programs.
  def test_slapd_takes_the_entries_with_values_and_ages
    FileUtils.mkdir(File.join(@folder, "data"))
    File.write(File.join(@folder, "slapd.conf"), SLAPD)
    entry = nodes("--format", "ldif").gsub(/^rakuda-(?:queue|mode): .*\n/, "")
    File.write(File.join(@folder, "entries"), entry)
    slapd("slapadd", "-l", "entries")
    kept = slapd("slapcat").gsub("\n ", "")
    assert_match(/^rakuda-mem-total: #{File.read("/proc/meminfo")[/^MemTotal: +(\d+)/, 1].to_i * 1024}$/, kept)
    assert_equal entry.gsub("\n ", "").scan(/^rakuda-age:.*$/).sort, kept.scan(/^rakuda-age:.*$/).sort
  end

  def test_metrics_stay_sound_whatever_a_user_calls_values
    wait_for_file_systems
    name = JSON.parse(get("/v1/nodes").body).dig("nodes", 0, "node")
    values = ["up=1", "age_seconds=3", "node_info=5", "x2=6 B", "x2_bytes=7", "load1_total=8", "x_count=9"]
    _, errors, status = rakudactl("set-attr", name, *values, *service)
    assert status.success?, errors
    [{}, { "Accept" => "text/plain" }].each do |headers|
      families = parsed(get("/metrics", headers))
      assert_equal([3], families.fetch("rakuda_age_seconds_of_user")["samples"].map { |sample| sample["value"] })
      assert_each_value_has_an_age(families)
      assert_equal([1], families.fetch("rakuda_up")["samples"].map { |sample| sample["value"] })
    end
  end

  def test_this_machine_needs_no_service
    output, errors, status = rakudactl("nodes", "-F", "localhost", "--json")
    assert status.success?, errors
    values = JSON.parse(output).dig("nodes", 0, "values")
    assert_operator values.dig("load1", "value"), :>=, 0
    assert_operator values.dig("cpu_idle", "value"), :<=, 100, "there were two samples"
    output, errors, status = rakudactl("nodes", "-F", "localhost", "--max-age", "0", "--json")
    assert status.success?, errors
    assert_equal 1, JSON.parse(output)["nodes"].size
    _, errors, status = rakudactl("nodes", "--max-age", "soon")
    assert_equal 2, status.exitstatus
    assert_includes errors, "--max-age soon: expected a time such as 100ms or 5s"
  end

  def test_who_watches_is_told_each_answer_once
    name = own
    assert rakudactl("set-attr", name, "rack=r1", *service).last.success?
    Open3.popen2(ENGINE, "ctl", "nodes", *service, "--cols", "rack", "--csv", "--watch") do |input, output, thread|
      input.close
      %w[r1 r2 r3].each do |rack|
        assert rakudactl("set-attr", name, "rack=#{rack}", *service).last.success? unless rack == "r1"
        assert output.wait_readable(PATIENCE_S), "nothing of #{rack}"
        assert_equal("node,state,rack\r\n#{name},up,#{rack}\r\n", output.gets + output.gets)
      end
    ensure
      Process.kill(:TERM, thread.pid)
    end
  end

  # A service that is made up says that it is there, then something, and is cut off.
  def test_who_watches_takes_no_comment_for_an_event
    TCPServer.open("127.0.0.1", 0) do |server|
      told = Thread.new do
        2.times do
          server.accept.then do |socket|
            head = socket.each_line.take_while { |line| line != "\r\n" }
            text = ": nothing new\n\nid: 7\ndata: {}\n\n: nothing new\n\n"
            events = "Transfer-Encoding: chunked\r\n\r\n#{text.bytesize.to_s(16)}\r\n#{text}\r\n"
            is_stream = head.any? { |line| line.include?("text/event-stream") }
            socket.write("HTTP/1.1 200 OK\r\n#{is_stream ? events : "Content-Length: 6\r\n\r\nnode\r\n"}")
            socket.close
          end
        end
      end
      address = "http://127.0.0.1:#{server.addr[1]}"
      output, errors, status = rakudactl("nodes", "--service", address, "--token-file", @token_file, "--csv", "--watch")
      told.join
      assert_equal ["node\r\n", "rakudactl: failed to reach the service at #{address}: it has ended\n", 1],
                   [output, errors, status.exitstatus]
    end
  end

  def test_a_table_that_is_watched_stays_in_its_place
    [service, ["-F", "localhost"]].each do |place|
      looks = 0
      # Only this many columns are there, and the line of the shell above stays.
      words = [ENGINE, "ctl", "nodes", *place, "--cols", "uptime, os, kernel, cpu_model", "--watch"]
      screen = Terminal.run("sh", "-c", 'echo above; exec "$@"', "sh", *words, columns: 40, directory: @folder) do |terminal|
        looks = terminal.bytes.scan("\e[J").size
        Process.kill(:TERM, terminal.pid) if looks >= 3
      end
      assert_operator looks, :>=, 3
      assert_equal "above", screen.lines[0]
      assert_match(/\Anode +state +uptime/, screen.lines[1])
      assert_equal 4, screen.lines.size, "one node, drawn again and again, and the cursor's line"
    end
  end

  private

  # Writes as much as the way takes.
  def say(socket, text)
    socket.write_nonblock(text, exception: false) unless text.empty?
  rescue Errno::EPIPE, Errno::ECONNRESET
    nil # cut off already
  end

  # Families by name, as Prometheus' own Python library reads them.
  def parsed(response)
    output, errors, status = validated(response.body, response["content-type"])
    assert status.success?, errors
    JSON.parse(output)
  end

  # As far as it is told here: of what a node is, too.
  def assert_each_value_has_an_age(families)
    ages = families.fetch("rakuda_age_seconds")["samples"]
    ages.each { |sample| assert_includes 0..PATIENCE_S, sample["value"] }
    named = ages.map { |sample| sample["labels"].values_at("attribute", "instance") }
    assert_equal named.uniq, named
    info = families.values_at("rakuda_node", "rakuda_node_info").compact.first["samples"].first["labels"].keys - ["node"]
    others = families.reject { |name, _| name.match?(/\Arakuda_(age_seconds|up|node(_info)?)\z/) }
    assert_equal others.values.sum { |family| family["samples"].size } + info.size, ages.size
    assert_includes named, ["os", nil]
    assert_includes named.map(&:first), "fs_free"
  end

  def assert_prometheus_knows(port, expected)
    ask = lambda do |name|
      answer = Net::HTTP.get(URI("http://127.0.0.1:#{port}/api/v1/query?query=#{name}"))
      JSON.parse(answer).dig("data", "result", 0, "value", 1)&.to_f
    rescue Errno::ECONNREFUSED, JSON::ParserError
      nil # it does not listen, or is not ready
    end
    found = {}
    wait_for(-> { "#{found}: #{File.read(File.join(@folder, "prometheus.log"))}" }) do
      found = expected.to_h { |name, _| [name, ask[name]] }
      found == expected
    end
  end

  def slapd(program, *words)
    program = %W[/usr/sbin/#{program} /sbin/#{program}].find { |path| File.executable?(path) } or
      flunk "#{program} is not installed (Debian: slapd); see test/packages.apt"
    output, errors, status = Open3.capture3(program, "-f", "slapd.conf", *words, chdir: @folder)
    assert status.success?, errors
    output
  end

  def promtool(text)
    Open3.capture3("promtool", "check", "metrics", stdin_data: text)
  rescue Errno::ENOENT
    flunk "promtool is not installed (Debian: prometheus); see test/packages.apt"
  end

  def validated(text, kind)
    assert_path_exists PYTHON, "the validators are not installed: run tools/validators"
    Open3.capture3(PYTHON, File.join(ROOT, "test/validators/metrics.py"), kind, stdin_data: text)
  end

  def get(path, headers = {})
    address = URI(@address + path)
    headers = { "Authorization" => "Bearer #{@token}" }.merge(headers)
    asked = Net::HTTP::Get.new(address)
    headers.each { |name, value| asked[name] = value }
    Net::HTTP.start(address.host, address.port, read_timeout: PATIENCE_S) { |http| http.request(asked) }
  end

  # This machine's name.
  def own
    JSON.parse(get("/v1/nodes").body).dig("nodes", 0, "node")
  end

  def put(path, body) = send_with(Net::HTTP::Put, path, body)

  def remove(path) = send_with(Net::HTTP::Delete, path, nil)

  def send_with(method, path, body)
    address = URI(@address + path)
    asked = method.new(address, "Authorization" => "Bearer #{@token}")
    asked.body = body
    Net::HTTP.start(address.host, address.port, read_timeout: PATIENCE_S) { |http| http.request(asked) }
  end

  def value(name)
    JSON.parse(get("/v1/nodes").body).dig("nodes", 0, "values", name)
  end

  def service
    ["--service", @address, "--token-file", @token_file]
  end

  def rakudactl(*words)
    Open3.capture3(ENGINE, "ctl", *words, chdir: @folder)
  end

  def nodes(*words)
    output, errors, status = rakudactl("nodes", *service, *words)
    assert status.success?, errors
    output
  end

  def refused(*words)
    _, errors, status = rakudactl("nodes", *service, *words)
    [errors, status.exitstatus]
  end

  # The service looks at these in a thread of its own, and does not wait for it.
  def wait_for_file_systems = wait_for { get("/metrics").body.include?("rakuda_fs_free_bytes") }

  def wait_for(printed = -> { File.read(@errors) })
    deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + PATIENCE_S
    until yield
      flunk "it did not come: #{printed.call}" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline
      sleep 0.05
    end
  end
end
