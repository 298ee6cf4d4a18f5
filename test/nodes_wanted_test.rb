# frozen_string_literal: true

require "minitest/autorun"
require "rakuda"
require "socket"

# Which settings, and which surroundings, say where a run has its nodes.
class NodesWantedTest < Minitest::Test
  JOB = { "SLURM_JOB_ID" => "7", "SLURM_JOB_NUM_NODES" => "2", "SLURM_JOB_NODELIST" => "n[1-2]" }.freeze

  def wanted(variables = {}, environment = {}, words = [], options = {})
    Rakuda::NodesWanted.new(Rakuda::Configuration.new(nil, variables, options), words, environment)
  end

  def test_without_a_word_it_is_this_machine
    assert_nil wanted.kind
    assert_equal "local", wanted("JOINABLE" => "yes").kind
    assert_nil wanted({ "CLUSTER" => "local" }, JOB).kind
  end

  def test_the_more_that_is_said_the_more_it_counts
    assert_equal "slurm", wanted({}, JOB).kind
    assert_equal "ssh", wanted({ "HOSTFILE" => "hosts" }, JOB).kind
    assert_equal "launch", wanted({ "LAUNCH" => "x {agent}" }, JOB).kind
    assert_equal "slurm", wanted({ "HOSTFILE" => "hosts", "CLUSTER" => "slurm" }, JOB).kind
  end

  def test_a_run_within_a_run_and_an_allocation_of_this_machine_start_no_agents
    assert_nil wanted({}, JOB.merge("RAKUDA_RUN" => "1")).kind
    here = Socket.gethostname
    assert_nil wanted({}, JOB.merge("SLURM_JOB_NUM_NODES" => "1", "SLURM_JOB_NODELIST" => here)).kind
    assert_equal "slurm", wanted({}, JOB.merge("SLURM_JOB_NUM_NODES" => "1", "SLURM_JOB_NODELIST" => "x#{here}")).kind
  end

  def test_options_without_effect_are_told_with_what_would_give_them_one
    dialled = "without --joinable, --cluster slurm or --launch LINE"
    elsewhere = "without nodes elsewhere and --filesystem local"
    given = { "LISTEN" => "a:1", "MAX_IDLE" => 3, "STAGE_CACHE" => "1G", "GUESS_FILES" => false, "BATCH_OPTION" => "-x" }
    assert_equal ["--batch-option has no effect without --cluster slurm", "--listen has no effect #{dialled}",
                  "--max-idle has no effect #{dialled}", "--stage-cache has no effect #{elsewhere}",
                  "--no-guess-files has no effect #{elsewhere}"], wanted({}, {}, [], given).without_effect
    assert_empty wanted({}, JOB, [], given.slice("LISTEN", "MAX_IDLE", "BATCH_OPTION")).without_effect
    assert_empty wanted({ "HOSTFILE" => "hosts", "FILESYSTEM" => "local" }, {}, [],
                        given.slice("STAGE_CACHE", "GUESS_FILES")).without_effect
    # A file of settings is for all runs.
    assert_empty wanted(given.transform_values(&:to_s)).without_effect
  end

  def test_nodes_ask_for_an_allocation_of_their_own
    settings = wanted({ "CLUSTER" => "slurm", "NODES" => "4", "BATCH_OPTION" => "-p 'a b'" }, JOB, %w[-t 60]).settings("/")
    assert_equal [4, nil, ["-p", "a b", "-t", "60"]], settings.values_at("nodes", "job", "batch_options")
    assert_equal [nil, "7"], wanted({}, JOB).settings("/").values_at("nodes", "job")
  end

  def test_what_is_missing_is_told
    { "slurm" => /say how many nodes to ask for: --nodes N/, "ssh" => /expected -F FILE/, "launch" => /expected --launch LINE/ }
      .each do |kind, complaint|
      error = assert_raises(Rakuda::ConfigurationError) { wanted("CLUSTER" => kind).kind }
      assert_match complaint, error.message
    end
  end

  def test_nodes_that_nobody_is_asked_for_are_told
    hosts = { "HOSTFILE" => "hosts" }
    alone = JOB.merge("SLURM_JOB_NUM_NODES" => "1", "SLURM_JOB_NODELIST" => Socket.gethostname)
    joinable = { "JOINABLE" => "yes" }
    [[{}, {}, "local"], [{}, alone, "local"], [joinable, {}, "local"], [hosts, JOB, "ssh"]].each do |variables, job, kind|
      error = assert_raises(Rakuda::ConfigurationError) { wanted(variables, job, [], "NODES" => 4).kind }
      assert_equal "--nodes 4: without effect with --cluster #{kind}, which asks nobody for nodes; " \
                   "expected --cluster slurm or --launch LINE as well", error.message
    end
    assert_equal "slurm", wanted({}, JOB, [], "NODES" => 4).kind
    assert_equal "launch", wanted({ "LAUNCH" => "x {agent}" }, {}, [], "NODES" => 4).kind
    assert_nil wanted({ "NODES" => "4" }).kind, "it may be a variable of the Rakefile"
  end

  def test_values_that_mean_nothing_are_told
    { "NODES" => "0", "MAX_IDLE" => "soon", "LAUNCH" => "agent", "LISTEN" => "a b", "JOINABLE" => "perhaps",
      "BATCH_OPTION" => "'", "CLUSTER" => "pbs" }.each do |key, value|
      _, err = capture_io { Rakuda::Configuration.new(nil, { key => value }, {}) }
      assert_match(/\Arakuda: #{key}=#{value} \(command line\): expected /, err)
    end
  end

  def tasks_and_batch_words(*argv)
    application = Rakuda::Application.new
    tasks = application.handle_options(argv)
    [tasks, application.instance_variable_get(:@batch_words)]
  end

  def test_words_after_two_dashes_are_the_batch_systems_only_with_it
    assert_equal [%w[a -b], []], tasks_and_batch_words("a", "--", "-b")
    assert_equal [%w[a], %w[-p short --]], tasks_and_batch_words("--cluster", "slurm", "a", "--", "-p", "short", "--")
    assert_equal [%w[a], []], tasks_and_batch_words("--cluster=slurm", "a")
  end
end
