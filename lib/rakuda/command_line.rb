# frozen_string_literal: true

# Rakuda's own options, and those of rake whose meaning differs. Only fills fields of the application's options; rake's
# other options are rake's own.

require "etc"

module Rakuda
  # Options beyond rake's.
  module CommandLine
    POLICIES = %w[fifo lifo lifo_hrf rank_hrf cached lifo_hlfet].freeze
    RERUN_ON = %w[command inputs content env].freeze
    PLAN_FORMATS = %w[text json].freeze
    PROGRESS = %w[auto live plain off].freeze
    ENFORCED = %w[memory].freeze
    OUTPUTS = %w[line task none].freeze
    CI_SYSTEMS = %w[github gitlab].freeze
    FAILURES = %w[wait kill continue].freeze
    JOBS_MAX = 65_535
    SEED_MAX = (1 << 64) - 1
    SECONDS_MAX = 4_294_967
    STREAM_ROUTES = %w[auto relay direct conventional].freeze
    CLUSTERS = %w[local ssh slurm launch].freeze
    FILESYSTEMS = %w[shared gfarm local].freeze
    # What the value of an option is, for the completions of shells: words to choose from, a file or a folder; others
    # are free.
    VALUES = { "--policy" => POLICIES, "--rerun-on" => RERUN_ON, "--plan" => PLAN_FORMATS, "--cluster" => CLUSTERS,
               "--filesystem" => FILESYSTEMS, "--failure" => FAILURES, "--output" => OUTPUTS, "--progress" => PROGRESS,
               "--enforce" => ENFORCED, "--stream-route" => STREAM_ROUTES, "--ci" => CI_SYSTEMS,
               "--config" => :file, "--hostfile" => :file, "--rakefile" => :file, "--log-dir" => :folder,
               "--directory" => :folder, "--libdir" => :folder, "--rakelib" => :folder }.freeze
    # Of these the value may be several of the words, with commas between.
    LISTS = %w[--rerun-on].freeze

    private

    # @return [Array<Array>] as rake's standard_rake_options
    def standard_rake_options
      super.map do |option|
        case option.first
        when "--jobs" then jobs_option
        when "--version" then version_option
        when "--quiet", "--silent" then quiet_option(option)
        when "--trace=[OUT]" then trace_option(option)
        else option
        end
      end
    end
    public :standard_rake_options

    def jobs_option
      ["--jobs", "-j [NUMBER]",
       "Specifies the maximum number of tasks to execute in parallel. (default is number of CPU cores)",
       lambda { |value|
         @jobs = jobs_value(value)
         @own[:given] << :jobs
         options.thread_pool_size = @jobs - 1
       }]
    end

    # As in rake, what is no number means all cores; `-j build` hides a task that way, so rakuda says so.
    def jobs_value(value)
      return Etc.nprocessors if value.nil? || value.empty?
      if value.match?(/\A-?\d+\z/)
        @own[:given] << :jobs_number
        return whole_number("-j", value, 1..JOBS_MAX)
      end

      $stderr.puts "#{name}: -j #{value}: not a number; all #{Etc.nprocessors} cores are used"
      Etc.nprocessors
    end

    # As rake's; the lines of a dry run are left out, too, in whatever order the options come.
    def quiet_option(option)
      *words, action = option
      [*words, lambda { |value|
        @own[:quiet] = true
        action.call(value)
      }]
    end

    # As rake's; in a dry run rake's lines are wanted then, wherever they go.
    def trace_option(option)
      *words, action = option
      [*words, lambda { |value|
        @own[:walk] = true
        action.call(value)
      }]
    end

    # Nothing but the document may come to stdout, whatever the Rakefile prints.
    def plan_option(value)
      @own[:plan] = choice("--plan", value, PLAN_FORMATS)
      standard_rake_options.assoc("--dry-run").last.call(true)
      return unless @own[:plan] == "json" && @own[:plan_output].nil?

      @own[:plan_output] = $stdout.dup
      $stdout.reopen($stderr)
    end

    def version_option
      ["--version", "-V", "Display the program version.",
       lambda { |_value|
         puts "rakuda, version #{VERSION} (rake, version #{Rake::VERSION})", "engine: #{engine_version}", RUBY_DESCRIPTION
         exit
       }]
    end

    # @return [String] the engine's version, commit and machine type, and where it is
    def engine_version
      require "rakuda/engine"
      program = Engine.find
      "#{IO.popen([program, "--version"], &:read).chomp}, #{program}"
    rescue EngineError => e
      "none: #{e.message}"
    rescue SystemCallError => e
      "#{program} cannot be started: #{e.message}"
    end

    def rakuda_options
      run_options + cluster_options + failure_options + output_options
    end

    def run_options
      [
        ["--policy POLICY", "Order of ready tasks: #{POLICIES.join(', ')}. (default is lifo_hrf)",
         ->(value) { set_key("QUEUE_PRIORITY", choice("--policy", value, POLICIES)) }],
        ["--memory BYTES", "Memory that tasks may use together, such as 8G.",
         ->(value) { set_own(:memory_bytes, checked("--memory #{value}") { Properties.bytes(value) }) }],
        ["--enforce WHAT", "Hold tasks to what they ask for: #{ENFORCED.join(', ')} (a command that has more is killed).",
         ->(value) { set_own(:enforce, choice("--enforce", value, ENFORCED)) }],
        ["--oversubscribe", "Run tasks that need more slots at once than there are all the same.",
         ->(_value) { set_key("OVERSUBSCRIBE", true) }],
        ["--resource NAME=COUNT", "A named resource that tasks may ask for. Repeatable.",
         ->(value) { set_own(:resources, @own[:resources].merge(checked("--resource") { Properties.resources(value) })) }],
        ["--no-oversubscribe", "Tasks that streams join run only if there is a job for each.",
         ->(_value) { set_key("OVERSUBSCRIBE", false) }],
        ["--stream-route ROUTE", "How streams pass between hosts: #{STREAM_ROUTES.join(', ')}. (default is auto)",
         ->(value) { set_key("STREAM_ROUTE", choice("--stream-route", value, STREAM_ROUTES)) }],
        ["--seed N", "Seed of the choices made at random.",
         ->(value) { set_own(:seed, whole_number("--seed", value, 0..SEED_MAX)) }],
        ["--walltime TIME", "All nodes end after TIME (2:00:00, 90m): start nothing that takes longer by earlier runs.",
         ->(value) { set_key("WALLTIME", value) }],
        ["--config FILE", "Read FILE in place of #{Configuration::FILE} and #{Configuration::PWRAKE_FILE} beside the Rakefile.",
         ->(value) { @own[:config] = File.expand_path(value) }],
        ["--rerun-on LIST", "Also run what was made otherwise before: #{RERUN_ON.join(',')}.",
         ->(value) { set_key("RERUN_ON", value) }],
        ["--rerun-env LIST", "Variables that --rerun-on env compares. (default is PASS_ENV)",
         ->(value) { set_key("RERUN_ENV", value) }],
        ["--plan FORMAT", "Show what would run and why, as text or as json, and run nothing (implies -n).",
         ->(value) { plan_option(value) }],
        ["--rake", "With -n: rake's own lines (** Invoke ...) too, on stderr, also where that is a terminal.",
         ->(_value) { @own[:walk] = true }],
        ["--show-conf", "Show the settings, where each came from and what PASS_ENV passes, then exit.",
         ->(_value) { @own[:show_conf] = true }]
      ]
    end

    def cluster_options
      [
        ["-F", "--hostfile FILE", "Run on the hosts that FILE names, over ssh. With -j N: at most N cores of each.",
         ->(value) { set_key("HOSTFILE", File.expand_path(value)) }],
        ["--cluster KIND", "Where to run: #{CLUSTERS.join(', ')}. (default is what the other settings say)",
         ->(value) { set_key("CLUSTER", choice("--cluster", value, CLUSTERS)) }],
        ["--nodes N", "Nodes to ask Slurm for, or that a launch template starts.",
         ->(value) { set_key("NODES", whole_number("--nodes", value, 1..JOBS_MAX)) }],
        ["--batch-option OPTIONS", "Options for sbatch. Repeatable. With --cluster slurm also all words after --.",
         ->(value) { set_key("BATCH_OPTION", [@own[:keys]["BATCH_OPTION"], value].compact.join(" ")) }],
        ["--launch LINE", "A command line that starts an agent on each node; {agent} stands for the agent.",
         ->(value) { set_key("LAUNCH", value) }],
        ["--info URL", "Take what is known of nodes from this service (rakudad info), as far as it knows them.",
         ->(value) { set_key("INFO", value) }],
        ["--info-token FILE", "The token of that service. (default is its own default)",
         ->(value) { set_key("INFO_TOKEN", File.expand_path(value)) }],
        ["--joinable", "Let nodes join with rakudactl join.", ->(_value) { set_key("JOINABLE", true) }],
        ["--listen HOST[:PORT]", "Where nodes that come by themselves find this machine.",
         ->(value) { set_key("LISTEN", value) }],
        ["--max-idle SECONDS", "Let nodes go that came by themselves and have run nothing for SECONDS.",
         ->(value) { set_key("MAX_IDLE", whole_number("--max-idle", value, 1..SECONDS_MAX)) }],
        ["--ssh-option OPTIONS", "Options for ssh. Repeatable.",
         ->(value) { set_key("SSH_OPTION", [@own[:keys]["SSH_OPTION"], value].compact.join(" ")) }],
        ["--filesystem KIND", "What the hosts share: shared (the run's folder), gfarm (that, mounted), local (nothing). " \
                              "(default is shared)",
         ->(value) { set_key("FILESYSTEM", value) }],
        ["--stage-cache BYTES", "With --filesystem local: room for copies on each host, such as 10G.",
         ->(value) { set_key("STAGE_CACHE", value) }],
        ["--no-guess-files", "With --filesystem local: stage in only files that tasks and `needs` name.",
         ->(_value) { set_key("GUESS_FILES", false) }],
        ["--disable-affinity", "Do not prefer the nodes that hold a task's input.",
         ->(_value) { set_key("DISABLE_AFFINITY", true) }],
        ["-S", "--disable-steal", "Never take a task from the queue of another node.",
         ->(_value) { set_key("DISABLE_STEAL", true) }]
      ]
    end

    def failure_options
      [
        ["--failure HOW", "What a failed task does to others: wait, kill, continue. (default is wait)",
         ->(value) { set_key("FAILURE_TERMINATION", choice("--failure", value, FAILURES)) }],
        ["--keep-going", "The same as --failure continue.", ->(_value) { set_key("FAILURE_TERMINATION", "continue") }],
        ["--strict", "A target that its action has not made is a failure.", ->(_value) { set_key("STRICT", true) }],
        ["--retry N", "Attempts after the first, for tasks that do not say. (default is 0)",
         ->(value) { set_key("RETRY", whole_number("--retry", value, 0..Properties::COUNT_MAX)) }],
        ["--on-end LINE", "When the run is over, run this command line with the run as JSON on its standard input.",
         ->(value) { set_key("ON_END", value) }],
        ["--on-fail LINE", "The same, when it did not end well; before that of --on-end.",
         ->(value) { set_key("ON_FAIL", value) }],
        ["--grace SECONDS", "Seconds between SIGINT, SIGTERM and SIGKILL when a run is stopped. (default is 5)",
         ->(value) { set_own(:grace_ms, (seconds("--grace", value) * 1000).to_i) }]
      ]
    end

    def output_options
      [
        ["--output HOW", "How output of commands is kept apart: line (by line), task (by task), none (not at all).",
         ->(value) { set_key("OUTPUT", choice("--output", value, OUTPUTS)) }],
        ["--progress HOW", "Where to show how far the run is: #{PROGRESS.join(', ')}. (default is auto)",
         ->(value) { set_key("PROGRESS", choice("--progress", value, PROGRESS)) }],
        ["--ui", "Show the run in a browser while it goes on: prints the address of a page on this machine.",
         ->(_value) { set_key("UI", true) }],
        ["--ci SYSTEM", "For the log of a job on #{CI_SYSTEMS.join(', ')}: output of tasks in groups, failures with their line.",
         ->(value) { set_own(:ci, choice("--ci", value, CI_SYSTEMS)) }],
        ["--output-prefix", "Put the task's name before each line of output.", ->(_value) { set_own(:prefix, true) }],
        ["-L", "--log-dir [DIRECTORY]", "Write logs to DIRECTORY. (default is Rakuda%Y%m%d-%H%M%S)",
         ->(value) { set_key("LOG_DIR", log_dir_of(value)) }],
        ["--no-record", "Keep no record of the run in .rakuda.", ->(_value) { set_own(:record, false) }]
      ]
    end

    # A word of a list, or the beginning of just one.
    def log_dir_of(value)
      raise ConfigurationError, "-L '': expected the name of a folder" if value&.empty?

      value || "Rakuda%Y%m%d-%H%M%S"
    end

    def choice(option, value, words)
      # Our own word: one from RAKEOPT is bytes.
      found = words.find { |word| word == value }
      return found if found

      near = words.select { |word| word.start_with?(value) }
      return near.first if near.size == 1

      raise ConfigurationError, "#{option} #{value}: expected #{"one of " if words.size > 1}#{words.join(', ')}"
    end

    def whole_number(option, value, range)
      number = Integer(value, 10, exception: false)
      return number if range.cover?(number)

      raise ConfigurationError, "#{option} #{value}: expected a whole number from #{range.begin} to #{range.end}"
    end

    def seconds(option, value)
      number = Float(value, exception: false)
      return number if number&.between?(0, SECONDS_MAX)

      raise ConfigurationError, "#{option} #{value}: expected a number of seconds from 0 to #{SECONDS_MAX}"
    end

    def checked(option)
      yield
    rescue ConfigurationError => e
      raise ConfigurationError, "#{option}: #{e.message}"
    end

    def set_own(key, value)
      @own[key] = value
      @own[:given] << key
    end

    def set_key(key, value)
      @own[:keys][key] = value
    end
  end
end
