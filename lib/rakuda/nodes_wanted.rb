# frozen_string_literal: true

# Where the nodes of a run come from, by the settings and by the Slurm job that this process may be in. It reads no host
# file and asks nobody: the engine does.

module Rakuda
  # The choice between this machine, a host file, Slurm and a launch template.
  class NodesWanted
    # @param configuration [Configuration]
    # @param batch_words [Array<String>] words for sbatch from the command line
    # @param environment [Hash, ENV]
    def initialize(configuration, batch_words = [], environment = ENV)
      @configuration = configuration
      @batch_words = batch_words
      @environment = environment
    end

    # @return [String, nil] "ssh", "slurm", "launch", or "local" when nodes may join this machine; nil: this machine
    #   alone
    # @raise [ConfigurationError] when the settings contradict each other
    def kind
      return @kind if defined?(@kind)

      found = wanted
      check(found)
      @kind = found == "local" && !joinable? ? nil : found
    end

    # Settings that mean something to some runs alone: whether this is one, and what makes it one.
    OF_SOME_RUNS = {
      "BATCH_OPTION" => [->(it) { it.kind == "slurm" }, "--cluster slurm"],
      "LISTEN" => [->(it) { it.dialled? }, "--joinable, --cluster slurm or --launch LINE"],
      "MAX_IDLE" => [->(it) { it.dialled? }, "--joinable, --cluster slurm or --launch LINE"],
      "STAGE_CACHE" => [->(it) { it.local_files? }, "nodes elsewhere and --filesystem local"],
      "GUESS_FILES" => [->(it) { it.local_files? }, "nodes elsewhere and --filesystem local"]
    }.freeze

    # @return [Array<String>] what the command line says to no effect, and what would give it one
    def without_effect
      OF_SOME_RUNS.filter_map do |key, (applies, what)|
        next if @configuration.origin(key) != "option" || applies.call(self)

        option = key == "GUESS_FILES" ? "--no-guess-files" : "--#{key.downcase.tr("_", "-")}"
        "#{option} has no effect without #{what}"
      end
    end

    # @return [Boolean] whether nodes may come that nobody has connected to
    def dialled?
      joinable? || %w[slurm launch].include?(kind)
    end

    # @return [Boolean] whether nodes have folders of their own for the run
    def local_files?
      !kind.nil? && @configuration.filesystem == "local"
    end

    # @param directory [String] where a relative host file starts
    # @return [Hash] for the message Hello
    def settings(directory)
      listen = @configuration["LISTEN"]&.to_s&.b
      common = { "kind" => kind, "joinable" => joinable?, "listen" => listen, "idle_ms" => @configuration.idle_ms }
      case kind
      when "ssh" then common.merge("host_file" => File.expand_path(@configuration.hostfile, directory).b)
      when "slurm"
        common.merge("nodes" => @configuration.nodes, "job" => @configuration.nodes ? nil : job,
                     "batch_options" => (@configuration.option_words("BATCH_OPTION") + @batch_words).map(&:b))
      when "launch" then common.merge("nodes" => @configuration.nodes, "launch" => @configuration["LAUNCH"].to_s.b)
      else common
      end
    end

    private

    def joinable?
      @configuration.on?("JOINABLE")
    end

    def wanted
      return @configuration["CLUSTER"] if @configuration["CLUSTER"]
      return "ssh" if @configuration.hostfile
      return "launch" if @configuration["LAUNCH"]

      job && !alone? ? "slurm" : "local"
    end

    # A run within a run has the nodes of that one already.
    # @return [String, nil] the Slurm job that this process is in
    def job
      return nil if Guard.nested?(@environment)

      id = @environment.fetch("SLURM_JOB_ID", "")
      id.empty? ? nil : id
    end

    # Whether the job's only node is this machine, for which nothing has to be started.
    def alone?
      require "socket"
      here = Socket.gethostname[/\A[^.]*/]
      @environment["SLURM_JOB_NUM_NODES"] == "1" && @environment["SLURM_JOB_NODELIST"].to_s[/\A[^.]*/] == here
    end

    def check(kind)
      case kind
      when "ssh" then need("HOSTFILE", "--cluster ssh", "-F FILE") unless @configuration.hostfile
      when "launch" then need("LAUNCH", "--cluster launch", "--launch LINE")
      when "slurm"
        unless @configuration.nodes || job
          raise ConfigurationError, "--cluster slurm: this is not within a Slurm allocation (SLURM_JOB_ID is not set); " \
                                    "say how many nodes to ask for: --nodes N"
        end
      end
      check_nodes(kind)
    end

    # NODES of the file is for those runs that ask for nodes, and NODES=3 may be the Rakefile's; the option means this
    # run.
    def check_nodes(kind)
      return if %w[slurm launch].include?(kind) || @configuration.origin("NODES") != "option"

      raise ConfigurationError, "--nodes #{@configuration.nodes}: without effect with --cluster #{kind}, which asks nobody for " \
                                "nodes; expected --cluster slurm or --launch LINE as well"
    end

    def need(key, what, option)
      raise ConfigurationError, "#{what}: expected #{option} (#{key}) as well" unless @configuration[key]
    end
  end
end
