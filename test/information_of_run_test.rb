# frozen_string_literal: true

require "csv"
require "fileutils"
require "minitest/autorun"
require "open3"
require "socket"
require "tmpdir"

# A run whose values of nodes come from a standing service (`--info URL`), and one whose service is not there.
class InformationOfRunTest < Minitest::Test
  ROOT = File.expand_path("..", __dir__)
  ENGINE = File.join(ROOT, "target/release/rakudad")
  RAKUDA = File.join(ROOT, "bin/rakuda")
  # Of something that is expected to come; nothing is measured by it.
  PATIENCE_S = 60

  # The run has no such program.
  PROVIDERS = <<~TOML
    [[provider]]
    name = "probe"
    command = ["sh", "-c", "echo queue 12"]
    period = 0.2
    limit = 100
  TOML

  ASKS = <<~'RUBY'
    needs where: "queue == 12 && run_cores == 2 && cpu_idle >= 0", prefer: "-load1"
    task(:default) { sh ENV["RAKUDACTL"], "nodes", "--cols", "queue, run_cores, cpu_idle >= 0", "--csv", out: "said" }
  RUBY

  COMPARES = <<~'RUBY'
    needs where: "queue > 3"
    task(:default) { sh "echo ran" }
  RUBY

  BUILT_IN = <<~'RUBY'
    needs where: "load1 >= 0"
    task(:default) { sh "echo ran" }
  RUBY

  def setup
    @folder = Dir.mktmpdir("rakuda-info-")
    @token_file = File.join(@folder, "token")
    File.write(File.join(@folder, "providers.toml"), PROVIDERS)
  end

  def teardown
    FileUtils.remove_entry(@folder)
  end

  def test_a_run_takes_values_from_a_service_and_adds_its_own
    with_service do |address|
      said, status = rakuda(ASKS, "--info", address, "--info-token", "token")
      assert_equal [0, ""], [status, said]
      row = CSV.read(File.join(@folder, "said"), headers: true).first.fields.last(3)
      assert_equal %w[12 2 true], row
      journal = File.read(Dir[File.join(@folder, ".rakuda/runs/*/journal.jsonl")].first)
      assert_match(/"event":"node_chosen".*"queue":"12"/, journal)
    end
  end

  # Until the program has told it, nobody knows which kind it is.
  def test_a_condition_that_compares_a_text_of_a_provider_with_a_number_is_refused
    File.write(File.join(@folder, "own.toml"), PROVIDERS.sub("queue 12", "queue long"))
    said, status = rakuda(COMPARES, "PROVIDERS=own.toml")
    assert_equal 1, status
    assert_match(/where: at character 7: .*text/, said)
    refute_match(/unknown/, said)
  end

  def test_a_clause_that_is_undefined_for_good_is_refused
    said, status = rakuda(BUILT_IN.sub("load1 >= 0", "load1 >= 0 && 1/0 > 1"))
    assert_equal 1, status
    assert_match(%r{where: no node can ever have 1/0 > 1: it is undefined \(.*division by zero\)}, said)
  end

  def test_a_typo_of_what_nodes_are_ordered_by_is_told
    said, status = rakuda(<<~'RUBY')
      begin
        Rakuda.nodes.max_by(:mem_avaliable)
      rescue Rakuda::NodesNotKnown => e
        File.write("told", e.message)
      end
      File.write("best", Rakuda.nodes.min_by(:mem_available)[:mem_available])
      task(:default) {}
    RUBY
    assert_equal 0, status, said
    assert_match(/\Amax_by\(:mem_avaliable\): .*mem_avaliable/, File.read(File.join(@folder, "told")))
    assert_operator File.read(File.join(@folder, "best")).to_f, :>, 0
  end

  def test_names_that_nobody_knows_are_refused_once_the_service_has_answered
    with_service do |address|
      said, status = rakuda(ASKS.sub("queue", "quue"), "INFO=#{address}", "INFO_TOKEN=token")
      assert_equal 1, status
      assert_includes said, "Rakefile:1: needs: task default: where: at character 1: nothing is called quue"
    end
  end

  # Agents of nodes that a service tells of sample nothing.
  def test_a_folder_that_the_service_does_not_watch_is_told
    rakefile = "needs where: \"fs_free('\#{Dir.pwd}') > 1\"\ntask(:default) { sh 'echo ran' }"
    with_service do |address|
      said, status = rakuda(rakefile, "--info", address, "--info-token", "token")
      assert_equal 1, status
      assert_includes said, "Rakefile:1: needs: task default: where: no node has fs_free('#{@folder}'), which"
      assert_includes said, "a service that watches it: `rakudad info --file-system #{@folder}`"
    end
    with_service("--file-system", @folder) do |address|
      wait_for_value(address, "fs_free('#{@folder}')", /\d{4}/)
      assert_equal ["ran\n", 0], rakuda(rakefile, "--info", address, "--info-token", "token")
    end
  end

  def test_without_its_service_a_run_samples_for_itself_and_says_so
    # Bound and not listening: nobody else gets it meanwhile.
    socket = Socket.new(:INET, :STREAM)
    socket.bind(Addrinfo.tcp("127.0.0.1", 0))
    File.write(@token_file, "#{"0" * 64}\n", perm: 0o600)
    address = "http://127.0.0.1:#{socket.local_address.ip_port}"
    troubles = { "token" => /failed to reach the service at #{address}/, "none" => /failed to read the token file .*none/ }
    troubles.each do |file, why|
      said, status = rakuda(BUILT_IN, "--info", address, "--info-token", file)
      assert_equal 0, status, said
      assert_match(/\Arakuda: --info #{address}: .*the agents of this run sample their nodes themselves\nran\n\z/, said)
      assert_match why, said
    end
  ensure
    socket&.close
  end

  def test_a_token_that_is_another_one_is_told
    with_service do |address|
      File.write(File.join(@folder, "other"), "#{"0" * 64}\n", perm: 0o600)
      said, status = rakuda(BUILT_IN, "--info", address, "--info-token", "other")
      assert_equal 0, status, said
      assert_includes said, "rakuda: --info #{address}: its token is another one (status 401); the agents of this run"
    end
  end

  def test_settings_that_cannot_be_are_refused
    File.write(File.join(@folder, "own.toml"), PROVIDERS)
    mistakes = { ["--info", "ftp://x"] => "expected the address of a service: http://HOST:PORT",
                 ["--info", "http://127.0.0.1:1", "PROVIDERS=own.toml"] => "--info: the service has providers of its own" }
    mistakes.each do |words, why|
      said, status = rakuda(BUILT_IN, *words)
      refute_equal 0, status, words
      assert_includes said, why
    end
  end

  private

  def with_service(*more)
    output, writer = IO.pipe
    words = ["--token-file", @token_file, "--period", "100ms", "--providers", File.join(@folder, "providers.toml"), *more]
    service = Process.spawn(ENGINE, "info", *words, out: writer)
    writer.close
    line = output.wait_readable(PATIENCE_S) && output.gets
    address = line.to_s.split.first
    # What a service has not heard of is called nothing.
    wait_for_value(address, "queue", /12/)
    yield address
  ensure
    output&.close
    if service
      Process.kill(:TERM, service)
      Process.wait(service)
    end
  end

  # Until it was looked for the first time.
  def wait_for_value(address, column, value)
    words = ["nodes", "--service", address, "--token-file", @token_file, "--cols", column, "--csv"]
    deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + PATIENCE_S
    until Open3.capture2e(ENGINE, "ctl", *words).first.lines.drop(1).any?(value)
      flunk "the service has no value of #{column}" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline
      sleep 0.02
    end
  end

  # @return [Array(String, Integer)] all that it printed, and its status; but for what is said where values take long to
  #   come
  def rakuda(rakefile, *words)
    FileUtils.rm_rf(File.join(@folder, ".rakuda"))
    File.write(File.join(@folder, "Rakefile"), rakefile)
    environment = { "RAKUDACTL" => File.join(ROOT, "bin/rakudactl") }
    command = ["timeout", "-s", "KILL", PATIENCE_S.to_s, RAKUDA, "-q", "-j", "2", *words]
    said, status = Open3.capture2e(environment, *command, chdir: @folder)
    [said.sub(/^rakuda: task default waits for a node that suits it; .*\n/, ""), status.exitstatus || status.termsig]
  end
end
