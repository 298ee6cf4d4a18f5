# frozen_string_literal: true

require "fileutils"
require "json"
require "minitest/autorun"
require "net/http"
require "open3"
require "socket"
require "tmpdir"
require_relative "support/counted_providers"

# Services of information that have nodes elsewhere: hosts that an ssh of the test's own starts here.
class InformationTreeTest < Minitest::Test
  include CountedProviders

  ROOT = File.expand_path("..", __dir__)
  ENGINE = File.join(ROOT, "target/release/rakudad")
  # Of something that is expected to come; nothing is measured by it.
  PATIENCE_S = 90

  SSH = <<~'SH'
    #!/bin/sh
    while test "$1" != --; do shift; done
    export NEAR_HOST=$2 TMPDIR="$NEAR_HOSTS/$2" XDG_CACHE_HOME="$NEAR_HOSTS/cache"
    shift 2
    mkdir -p "$TMPDIR"
    exec sh -c "$*"
  SH

  HOSTS = <<~TOML
    hosts = ["host1 1", "host2 1"]

    [[provider]]
    name = "rack"
    command = ["sh", "-c", "echo rack \\"$NEAR_HOST\\"; echo height 42 U"]
    limit = 100

    [[provider]]
    name = "broken"
    command = ["sh", "-c", "test $NEAR_HOST = host1 && echo whole 1 || exit 3"]
    limit = 100
  TOML

  # Counts how often it has run.
  ONCE = <<~'TOML'
    [[provider]]
    name = "turns"
    command = ["sh", "-c", "echo x >> turns; echo turns $(wc -l < turns); echo turns_made 1"]
    period = 86400
    limit = 100
  TOML

  # A service that listens.
  Service = Struct.new(:pid, :address, :token_file) do
    def words = ["--service", address, "--token-file", token_file]
  end

  def setup
    @folder = Dir.mktmpdir("rakuda-tree-")
    @services = []
    FileUtils.mkdir_p(File.join(@folder, "bin"))
    File.write(File.join(@folder, "bin/ssh"), SSH, perm: 0o755)
    File.write(File.join(@folder, "hosts.toml"), HOSTS)
    File.write(File.join(@folder, "once.toml"), ONCE)
  end

  def teardown
    stop(@services.first) until @services.empty?
    FileUtils.remove_entry(@folder)
  end

  def test_programs_provide_values_of_hosts_or_the_reason_why_not
    serve("hosts", "-F", "hosts.toml")
    expected = { "host1" => ["host1", 42, 1, nil], "host2" => ["host2", 42, nil, "provider broken exited with 3"] }
    wait_for("what the programs say") { said(@services.first) == expected }
    assert_equal "U", nodes(@services.first).dig("host1", "height", "unit")
    # It asks for new runs of those that have not failed, and waits for no other.
    wait_for("the same, fresh") { said(@services.first, "--max-age", "0") == expected }
    out, err, status = ctl("nodes", "-F", "hosts.toml", "--json")
    assert status.success?, err
    assert_equal expected, picked(by_name(out))
    # Programs of hosts are others while the service runs.
    File.write(File.join(@folder, "hosts.toml"),
HOSTS.sub('name = "rack"', 'name = "cage"').sub("echo rack", "echo cage").sub("echo height", "echo depth"))
    Process.kill(:HUP, @services.first.pid)
    wait_for("what another program says") { nodes(@services.first).values.map { |it|
 it.dig("cage", "value") } == %w[host1 host2] }
    wait_for("the end of the other one") { said(@services.first).values.all? { |values| values.first.nil? } }
    whys = nodes(@services.first).values.map { |it| it.dig("rack", "why") }
    assert_equal ["its provider was removed"] * 2, whys
    depths = nodes(@services.first, "--max-age", "0").values.map { |it| it.dig("depth", "value") }
    assert_equal [42, 42], depths
  end

  def test_what_two_hosts_tell_in_different_units_is_told_with_both
    write_provider("test $NEAR_HOST = host1 && echo rack 7 U || echo rack left")
    out, err, status = ctl("nodes", "-F", "hosts.toml", "--json")
    assert status.success?, err
    racks = by_name(out).values.map { |it| it["rack"].values_at("value", "why") }
    first = ["rack is a text here, a number in U on other nodes", "rack is a number in U here, a text on other nodes"]
    told = racks.map { |value, why| value || why }
    assert_includes [[7, first[0]], [first[1], "left"]], told
    errors = by_name(out).values.filter_map { |it| it.dig("provider_error('one')", "value") }
    assert_equal racks.filter_map(&:last), errors
  end

  def test_a_program_that_the_question_does_not_need_is_not_started_on_hosts
    write_provider("touch ../ran; sleep 1000")
    out, err, status = ctl("nodes", "-F", "hosts.toml", "--cols", "load1 >= 0", "--csv")
    assert status.success?, err
    assert_equal 3, out.lines.size
    refute_path_exists File.join(@folder, "ran")
  end

  def test_ldif_has_what_the_named_providers_say_and_no_columns
    out, err, status = ctl("nodes", "-F", "localhost", "--format", "ldif", "--only", "memory")
    assert status.success?, err
    names = out.lines.grep(/\A(?:Mds|rakuda)-/).map { |line| line[/[^:]+/] }.uniq
    assert_includes names, "rakuda-mem-total"
    assert_includes names, "Mds-Memory-Ram-sizeMB"
    assert_empty names.grep(/load|cpu|fs|net/i)
    _, err, status = ctl("nodes", "-F", "localhost", "--format", "ldif", "--cols", "load1")
    assert_equal 2, status.exitstatus
    assert_match(/ldif has entries with all attributes, and no columns/, err)
  end

  def test_only_the_providers_of_what_is_asked_for_are_run_on_hosts
    write_hosts = lambda do |*names|
      providers = counted_providers(*names, folder: "$TMPDIR")
      File.write(File.join(@folder, "hosts.toml"), "hosts = [\"host1 1\", \"host2 1\"]\n#{providers}")
    end
    write_hosts["one", "other"]
    hosts = serve("hosts", "-F", "hosts.toml")
    said = ->(name, *words) { nodes(hosts, *words).values.map { |it| it.dig(name, "value") } }
    wait_for("what the programs say") { said["one"] == [1, 1] && said["other"] == [1, 1] }
    wait_for("another run") { said["one", "--cols", "one", "--max-age", "0"].all? { |runs| runs > 1 } }
    before = said["one"].max
    wait_for("one more") { said["one", "--only", "one", "--max-age", "0"].all? { |runs| runs > before } }
    # What goes on is not disturbed by one that comes.
    write_hosts["one", "other", "more"]
    Process.kill(:HUP, hosts.pid)
    wait_for("what another program says") { said["more"] == [1, 1] }
    runs = %w[host1 host2].map { |host| File.readlines(File.join(@folder, host, "other.ran")).size }
    assert_equal [[1, 1], [1, 1]], [runs, said["other"]]
  end

  # The names of its attributes come with its first frame, values with later ones; and so on up.
  def test_services_register_with_others_over_two_levels
    top = serve("top", "-F", "none")
    middle = serve("middle", "--name", "middle", *register(top))
    below = serve("below", "--name", "below", "--providers", "once.toml", *register(middle))
    wait_for("all nodes at the top") { nodes(top).keys.sort == %w[below middle] }
    assert_equal %w[below middle], nodes(middle).keys.sort
    assert_equal %w[below], nodes(below).keys
    wait_for("what a program says") { nodes(top).dig("below", "turns", "value") }
    # It runs once a day: who wants it fresher is waited for, and only that program is asked.
    turns = nodes(top).dig("below", "turns", "value")
    wait_for("another run of it") { nodes(top, "--cols", "turns", "--max-age", "0").dig("below", "turns", "value") > turns }
    assert_nil nodes(top, "--cols", "turns").dig("middle", "turns", "value")
  end

  def test_a_level_may_keep_its_answers_fresh
    # The one is a provider, the other an attribute of the program below.
    top = serve("top", "-F", "none", "--validity", "load=1h", "--validity", "turns_made=0s")
    serve("below", "--name", "below", "--providers", "once.toml", *register(top))
    # Only what is asked for has to be fresh; and until the program has run nobody knows the name.
    turns = lambda do |*words|
      out, _, status = ctl("nodes", *top.words, "--json", "--cols", ["turns", *words].join(","))
      by_name(out).dig("below", "turns", "value") if status.success?
    end
    wait_for("what a program says") { turns.call }
    first = turns.call
    assert_equal first, turns.call, "nothing that is needed has to be fresh"
    wait_for("another run of it") { turns.call("turns_made") > first }
  end

  def test_a_validity_of_what_nothing_is_called_is_told_once_all_providers_have_told
    words = %w[nonsense=1s lod1=2s load=1s fs_free=1min turns=1s turns_made=1s 1h].flat_map { |word| ["--validity", word] }
    serve("alone", "--providers", "once.toml", *words)
    told = %w[lod1 nonsense].map do |name|
      hint = " (did you mean load1?)" if name == "lod1"
      "rakudad info: --validity: nothing is called #{name} so far, neither a provider nor an attribute#{hint}\n"
    end
    wait_for("both names") { errors("alone").lines.size >= 2 }
    assert_equal told.join, errors("alone")
  end

  def test_a_service_that_is_gone_leaves_its_nodes_suspected_and_one_that_comes_back_tells_all
    top = serve("top", "-F", "none")
    below = serve("below", "--name", "below", *register(top))
    wait_for("the node") { state(top, "below") == "up" }
    Process.kill(:STOP, below.pid)
    wait_for("suspicion") { silent?(top) }
    Process.kill(:CONT, below.pid)
    wait_for("the node again") { state(top, "below") == "up" }
    Process.kill(:KILL, below.pid)
    wait_for("suspicion again") { silent?(top) }
    assert nodes(top).dig("below", "load1", "value"), "what is known stays"
    serve("again", "--name", "below", *register(top))
    wait_for("another one of that name") { state(top, "below") == "up" }
    # By its silence alone it would be down after 150 s.
    told = serve("told", "--name", "told", "--period", "5s", *register(top))
    wait_for("one that says when it ends") { state(top, "told") == "up" }
    stop(told)
    wait_for("its end") { state(top, "told") == "down" }
  end

  def test_the_other_service_may_end_and_come_back_and_what_is_wrong_is_said_once
    listen = ["--listen", "127.0.0.1:#{free_port}"]
    top = serve("top", "-F", "none", *listen)
    below = serve("below", "--name", "below", *register(top))
    wait_for("the node") { state(top, "below") == "up" }
    stop(top)
    wait_for("what is wrong") { errors("below").include?("failed to register: ") }
    back = serve("top", "-F", "none", *listen)
    wait_for("the node again") { state(back, "below") == "up" }
    assert_equal ["below"], nodes(below).keys
    other = serve("other", "-F", "none")
    serve("stranger", "--register", other.address, "--register-token-file", top.token_file)
    wait_for("a refusal") { errors("stranger").include?("(status 401)") }
    assert_equal 1, errors("stranger").lines.size
    assert_empty nodes(other)
  end

  def test_a_node_is_told_of_by_one_service
    top = serve("top", "-F", "none")
    assert_equal "200", post(top, "/v1/sources/one?session=1&validity=1d", frame("below")).code
    answer = post(top, "/v1/sources/two?session=1&validity=1s", frame("below"))
    assert_equal ["409", "the frame has the node \"below\", which another source tells of"],
                 [answer.code, JSON.parse(answer.body).dig("error", "message")]
    assert_equal "200", post(top, "/v1/sources/two?session=1&validity=1s", frame("else")).code
    assert_equal "409", post(top, "/v1/sources/two?session=2&validity=1s", "").code, "a session begins with everything"
    assert_equal "409", post(top, "/v1/sources/two?session=2&validity=1s", "rubbish").code
    assert_equal "400", post(top, "/v1/sources/two?session=2", frame("else")).code
    assert_equal "405", post(top, "/v1/nodes", "").code
  end

  def test_changes_of_states_are_events
    top = serve("top", "-F", "none")
    assert_equal "200", post(top, "/v1/sources/one?session=1&validity=1s", frame("silent")).code
    socket = stream(top, "/v1/nodes?fields=state")
    socket.timeout = PATIENCE_S if socket.respond_to?(:timeout=)
    data = socket.each_line.lazy.filter_map { |line| line[/^data: (.*)$/, 1] }
    states = data.map { |event| JSON.parse(event)["nodes"][0].then { |it| [it["state"], it.dig("values", "state", "value")] } }
    assert(states.find { |it| [%w[suspected suspected], %w[down down]].include?(it) })
  ensure
    socket&.close
  end

  def test_nodes_that_are_long_down_are_removed_and_events_say_so
    top = serve("top", "-F", "none", "--keep-down", "1s")
    %w[a b].each { |node| assert_equal "200", post(top, "/v1/sources/#{node}?session=1&validity=1d", frame(node)).code }
    change = JSON.parse(ctl("nodes", *top.words, "--json").first)["change"]
    socket = stream(top, "/v1/nodes?fields=state")
    socket.timeout = PATIENCE_S if socket.respond_to?(:timeout=)
    lines = socket.each_line.lazy.map(&:chomp)
    assert(lines.find { |line| line.start_with?("data: ") }, "it has told all nodes")
    assert_equal "200", post(top, "/v1/sources/a?session=1&validity=1d&last=true", "").code
    assert(lines.find { |line| line == "event: gone" })
    assert_equal({ "version" => 2, "nodes" => [], "gone" => ["a"] },
JSON.parse(lines.first.delete_prefix("data: ")).except("change"))
    assert_equal ["b"], nodes(top).keys
    answer = JSON.parse(get(top, "/v1/nodes?since=#{change}").body)
    assert_equal [["a"], ["a"]], answer.values_at("left", "gone")
    assert_equal "200", post(top, "/v1/sources/c?session=1&validity=1d", frame("c")).code
    assert_equal %w[b c], nodes(top).keys
  ensure
    socket&.close
  end

  # More than a service has room for of others, who are let in all the same.
  def test_services_that_register_are_not_counted_with_those_who_ask
    top = serve("top", "-F", "none")
    streams = Array.new(300) do |number|
      path = "/v1/sources/service#{number}"
      assert_equal "200", post(top, "#{path}?session=1&validity=1d", frame("node#{number}")).code
      wishes(top, path)
    end
    assert_equal 300, nodes(top).size
  ensure
    streams&.each(&:close)
  end

  def test_words_of_a_registration_that_mean_nothing_are_told
    token = File.join(@folder, "some.token")
    File.write(token, "#{"a" * 64}\n", perm: 0o600)
    [[["--validity", "soon"],
      "understand --validity soon: expected a time such as 100ms or 30s, PROVIDER=TIME or ATTRIBUTE=TIME"],
     [["--register", "ftp://x", "--register-token-file", token], "understand the address \"ftp://x\"; expected http://HOST:PORT"],
     [["--keep-down", "0s"], "understand --keep-down 0s: expected 1s to 366d, such as 30min"],
     [["--name", "a\nb"], "understand --name \"a\\nb\": expected 1 to 255 bytes without control characters"]]
      .each do |words, message|
      _, err, status = Open3.capture3(environment, ENGINE, "info", *words, chdir: @folder)
      assert_includes err, message
      refute status.success?
    end
    [[["--perod", "1s"], 2, "\"--perod\" is no option; `rakudad info --help` lists the options"],
     [["--perod"], 2, "\"--perod\" is no option; `rakudad info --help` lists the options"],
     [["--period"], 2, "the option --period needs a value; `rakudad info --help` lists the options"],
     [["--name", ""], 2, "the option --name needs a value that is not empty; `rakudad info --help` lists the options"],
     [["-F", " "], 2, "the option -F needs a value that is not empty; `rakudad info --help` lists the options"],
     [["-F", "/nowhere/hosts"], 1, "failed to read the host file /nowhere/hosts: No such file or directory (os error 2); " \
                                 "-F (HOSTFILE) expects a file with lines such as `host1 8`, or TOML"]]
      .each do |words, code, message|
      _, err, status = Open3.capture3(environment, ENGINE, "info", *words, chdir: @folder)
      assert_equal ["rakudad info: #{message}\n", code], [err, status.exitstatus]
    end
  end

  def test_the_options_of_a_service_are_listed
    [%w[--help], %w[-h], %w[-F none --help]].each do |words|
      out, err, status = Open3.capture3(environment, ENGINE, "info", *words, chdir: @folder)
      assert_equal ["", 0], [err, status.exitstatus]
      listed = out.scan(/^ +(?:-F, )?(--[a-z-]+)/).flatten - ["--help"]
      source = File.read(File.join(ROOT, "crates/cli/src/info_process.rs"))
      assert_equal source.scan(/^ +(?:"-F" \| )?"(--[a-z-]+)" =>/).flatten.sort, listed.sort
    end
  end

  private

  # One that the system gives to nobody by itself.
  def free_port
    20_000.upto(32_000).to_a.shuffle.find do |port|
      TCPServer.new("127.0.0.1", port).close
      true
    rescue Errno::EADDRINUSE
      false
    end
  end

  def register(service) = ["--register", service.address, "--register-token-file", service.token_file]

  def state(service, node)
    out, = ctl("nodes", *service.words, "--json")
    out.start_with?("{") && JSON.parse(out)["nodes"].find { |it| it["node"] == node }&.fetch("state")
  end

  # Suspected, or down when nobody has looked for ten times as long.
  def silent?(service) = %w[suspected down].include?(state(service, "below"))

  def errors(name) = File.read(File.join(@folder, "#{name}.errors"))

  # The first of a session: no attributes, one node, no states, no values.
  def frame(node) = [1, 1, 0, 1, node.bytesize].pack("C*") + node + [0, 0].pack("C*")

  def post(service, path, body)
    address = URI(service.address + path)
    headers = { "Authorization" => "Bearer #{File.read(service.token_file).chomp}" }
    Net::HTTP.start(address.host, address.port, read_timeout: PATIENCE_S) { |http| http.post(address.request_uri, body, headers) }
  end

  def get(service, path)
    Net::HTTP.get_response(URI(service.address + path), "Authorization" => "Bearer #{File.read(service.token_file).chomp}")
  end

  # @return [TCPSocket] a stream that has begun
  def wishes(service, path) = stream(service, "#{path}/wishes")

  def stream(service, path)
    host = service.address.delete_prefix("http://")
    socket = TCPSocket.new("127.0.0.1", URI(service.address).port)
    socket.write("GET #{path} HTTP/1.1\r\nHost: #{host}\r\nAccept: text/event-stream\r\n" \
                 "Authorization: Bearer #{File.read(service.token_file).chomp}\r\n\r\n")
    assert socket.wait_readable(PATIENCE_S), "#{path} has no answer"
    assert_match(%r{\AHTTP/1.1 200}, socket.gets.to_s)
    socket
  end

  def environment = { "PATH" => "#{@folder}/bin:#{ENV.fetch("PATH")}", "NEAR_HOSTS" => @folder }

  # @return [Service] when it has said where it listens
  def serve(name, *words)
    token = File.join(@folder, "#{name}.token")
    output, writer = IO.pipe
    errors = File.join(@folder, "#{name}.errors")
    pid = Process.spawn(environment, ENGINE, "info", "--token-file", token, "--period", "100ms", *words,
                        out: writer, err: errors, chdir: @folder)
    writer.close
    @services << Service.new(pid, nil, token)
    line = output.wait_readable(PATIENCE_S) && output.gets
    output.close
    assert line, File.read(errors)
    @services.last.address = line.split.first
    @services.last
  end

  # One that the test has killed already is waited for, too, and one that it has stopped goes on to its end.
  def stop(service)
    @services.delete(service)
    %i[TERM CONT].each { |signal| Process.kill(signal, service.pid) }
    limit = Thread.new do
      sleep PATIENCE_S
      Process.kill(:KILL, service.pid)
    end
    Process.wait(service.pid)
  ensure
    limit&.kill
  end

  def write_provider(script)
    File.write(File.join(@folder, "hosts.toml"), <<~TOML)
      hosts = ["host1 1", "host2 1"]

      [[provider]]
      name = "one"
      command = ["sh", "-c", "cd $TMPDIR; #{script}"]
      limit = 100
    TOML
  end

  def ctl(*words) = Open3.capture3(environment, ENGINE, "ctl", *words, chdir: @folder)

  def by_name(text) = JSON.parse(text)["nodes"].to_h { |node| [node["node"], node["values"]] }

  def nodes(service, *words)
    out, err, status = ctl("nodes", *service.words, "--json", *words)
    assert status.success?, err
    by_name(out)
  end

  def said(service, *words) = picked(nodes(service, *words))

  def picked(nodes)
    names = ["rack", "height", "whole", "provider_error('broken')"]
    nodes.transform_values { |values| names.map { |name| values.dig(name, "value") } }
  end

  def wait_for(what)
    deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + PATIENCE_S
    until yield
      flunk "it did not come: #{what}" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline
      sleep 0.05
    end
  end
end
