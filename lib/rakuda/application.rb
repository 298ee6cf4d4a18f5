# frozen_string_literal: true

# The command: rake's application with Rakuda's options, and a session with the engine that begins when the first task
# is invoked. It knows options and exit codes; planning and running are the session's business.

require "rakuda/configuration"
require "rakuda/nodes_wanted"
require "rakuda/streams"

module Rakuda
  # Rake's application, run in parallel.
  class Application < Rake::Application
    # Pwrake's default name of a log folder.
    LOG_DIR_PATTERN = "Pwrake%Y%m%d-%H%M%S"

    prepend CommandLine

    # Lines of a backtrace that are Rakuda's own.
    OWN_LINES = %r{\A#{Regexp.quote(File.expand_path('..', __dir__))}/|(?:bin|exe)/rakuda:\d+}.freeze

    # Files whose lines define tasks for a Rakefile.
    NOT_THE_RAKEFILE = Regexp.union(File.expand_path("..", __dir__), File.dirname(Rake.method(:application).source_location[0]),
                                    "<internal:").freeze

    # Runs the command.
    # @param argv [Array<String>]
    def self.start(argv)
      start_below_guard unless Guard.there?
      InheritedState.watch
      Rake.application = new
      Rake.application.run(argv)
    end

    # Where there is no engine, a run says so; tasks can be listed all the same.
    def self.start_below_guard
      require "rakuda/engine"
      Guard.start_below(Engine.find)
    rescue EngineError
      nil
    end
    private_class_method :start_below_guard

    def initialize
      super
      @name = "rakuda"
      @jobs = nil
      @session = nil
      @former = nil               # the session that has ended
      @over = false               # `run` has ended
      @variables = {}
      @batch_words = []
      @command_line = []
      @rule_properties = nil
      @own = { keys: {}, resources: {}, memory_bytes: 0, seed: 0, grace_ms: 5000, prefix: false, record: true,
               given: [] }
    end

    # As rake's, under our name.
    def run(argv = ARGV)
      @command_line = argv.map(&:dup)
      standard_exception_handling do
        init "rakuda", argv
        load_rakefile
        show_configuration if @own[:show_conf]
        top_level
      end
    ensure
      close_session
      @over = true
    end

    # @return [Integer] how many tasks run at once
    def jobs
      @jobs ||= configured_jobs
    end

    # @return [Float] seconds between SIGTERM and SIGKILL for a command that is to end
    def grace = @own[:grace_ms] / 1000.0

    # The engine has said which run this is.
    # @param engine [String] its program
    # @param run [String] name of the run
    def show_page(engine, run)
      return if !configuration.on?("UI") || options.dryrun

      require "rakuda/page"
      Page.open(engine, run, rakefile_directory, name)
    end

    # @return [Boolean] whether there is one task at a time, in rake's order
    def serial?
      jobs == 1 && !cluster?
    end

    # @return [Boolean] whether tasks run on nodes other than this machine
    def cluster?
      !nodes.kind.nil?
    end

    # @return [NodesWanted] where the nodes of a run come from
    def nodes
      @nodes ||= NodesWanted.new(configuration, @batch_words)
    end

    # @return [Boolean] whether "** Invoke" lines are printed
    def traces?
      options.trace && (!options.dryrun || walk_shown?)
    end

    # Lines of a dry run are not for those who want it quiet.
    def trace(*strings)
      super unless options.dryrun && !walk_shown? && strings.first.to_s.start_with?("** ")
    end

    # @return [Boolean] whether the log is one of a job of continuous integration
    def ci?
      !@own[:ci].nil?
    end

    # @return [Boolean] whether commands are held to the memory that their tasks ask for
    def enforces_memory?
      @own[:enforce] == "memory"
    end

    # @return [Boolean] whether a failure leaves alone what does not depend on it
    def continues?
      configuration["FAILURE_TERMINATION"] == "continue"
    end

    # As rake's, but file tasks that stand side by side run together; a dry run then tells what would run.
    def top_level
      return super if options.show_tasks || options.show_prereqs

      run_with_threads { Targets.new(self).run }
      tell_needed_by_nothing # what stood in an action
      @session&.show_plan(plan_format, @own[:plan_output] || $stdout) if options.dryrun
    end

    # The session with the engine, which is started now if it was not.
    # @return [Session]
    def session
      @session ||= begin
        @former&.retire
        at_exit { close_session } if @over # invoked by an `at_exit`
        begin_session(hello)
      end
    end

    # @return [Session, nil] the session, when a task has been invoked
    def running_session
      @session
    end

    # @return [Action, nil] the action whose code is running
    def running_action
      activity = @session&.current_activity
      activity if activity && activity.is_a?(Action)
    end

    # @return [Gangs] tasks that begin together
    def gangs
      @gangs ||= Gangs.new
    end

    # @return [Configuration]
    def configuration
      @configuration ||= Configuration.new(configuration_files, @variables, @own[:keys])
    end

    # Remembers what the next task or rule needs.
    # @param arguments [Array] there are to be none
    # @param keywords [Hash{Symbol => Object}]
    # @raise [RakefileError]
    def needs(arguments, keywords, block)
      place = rakefile_place
      unless arguments.empty? && block.nil? && !keywords.empty?
        raise ConfigurationError, "expected keywords before a task or rule, such as `needs cores: 2`"
      end
      fields = Needs.fields(keywords)
      parameters = fields.delete("params") || @needed&.parameters
      files = fields.slice("outputs", "inputs")
      files = files.empty? ? @needed&.files : { **(@needed&.files || {}), **files, "place" => place }
      environment = fields.delete("env") || @needed&.environment
      fields = fields.except("outputs", "inputs")
      @needed = Needed.new(@needed ? merge_fields(@needed.fields, fields) : fields, place, parameters, files, environment)
    rescue ConfigurationError => e
      raise RakefileError, "#{place}: needs: #{e.message}"
    end

    # Defines the tasks of a `sync` statement.
    # @param arguments [Array] a name, or { name => prerequisites }
    # @param keywords [Hash{Symbol => Object}]
    # @param place [String] where that is said
    # @param workers_place [String, nil] what says how many workers there are, and where; nil: the statement
    # @return [Rake::Task]
    # @raise [RakefileError]
    def sync(arguments, keywords, block, place = rakefile_place, workers_place = nil)
      name, prerequisites = sync_name(arguments)
      raise ConfigurationError, "expected a block that starts a worker's command" unless block

      require "rakuda/sync"
      options = SyncOptions.new(keywords)
      needed = take_needed
      raise ConfigurationError,
"needs env: a worker's command must be the program itself, not one that sets up" if needed&.environment

      refuse_second_sync(name, place)
      description, @last_description = @last_description, nil
      workers_place ||= "#{place}: sync #{name || "rounds"}"
      statement = Sync.new(self, name, options, needed, place, workers_place, &block)
      statement.define(prerequisites) { @last_description = description }
    rescue ConfigurationError => e
      raise RakefileError, "#{place}: sync: #{e.message}"
    end

    # Remembers a stream between tasks.
    # @param arguments [Array] its name
    # @param keywords [Hash{Symbol => Object}]
    # @raise [RakefileError]
    def stream(arguments, keywords, block)
      place = rakefile_place
      raise ConfigurationError, "expected no block" if block

      streams.define(arguments, keywords, place, current_scope)
    rescue RakefileError
      raise
    rescue ConfigurationError => e
      raise RakefileError, "#{place}: #{"stream: " unless e.message.start_with?("stream: ")}#{e.message}"
    end

    # @return [Streams]
    def streams
      @streams ||= Streams.new
    end

    # Finds the tasks that streams join, and makes them gangs, once for all streams that there are.
    # @raise [RakefileError]
    def join_streams
      return if streams.empty? || streams.joined?

      (@gang_streams ||= {}.compare_by_identity).update(streams.join_gangs(self))
    end

    # @param gang [Gang]
    # @return [Streams::Component, nil] when streams have made it
    def component_of(gang)
      @gang_streams && @gang_streams[gang]
    end

    # @return [Boolean] whether the members of a component run one after the other, over spools
    def spools?(component)
      component.spooled? || serial?
    end

    # @return [Boolean] whether tasks that streams join share cores when there are too few
    def shares_cores?
      configuration.switch("OVERSUBSCRIBE") != false
    end

    # @return [Boolean] whether tasks that need more slots at once than there are run all the same
    def oversubscribes?
      configuration.on?("OVERSUBSCRIBE")
    end

    # @return [Array<String>, nil] what starts this run again, where that is no call of rakuda
    def resume_words
      nil
    end

    # As rake's, which prints nothing where no task is described: then standard error says so.
    def display_tasks_and_comments
      super
      return if options.silent || @own[:quiet]

      named = tasks.select { |task| task.name.match?(options.show_task_pattern) }
      return if named.any? { |task| options.show_all_tasks || task.comment }

      which = " whose name matches #{options.show_task_pattern.source}" unless options.show_task_pattern == //
      $stderr.puts "#{name}: #{nothing_to_list(named, which)}"
    end

    # @param named [Array<Rake::Task>] those that were asked for
    # @param which [String, nil] what they have in common
    # @return [String] why none of them is listed
    def nothing_to_list(named, which)
      return "the Rakefile defines no task#{which}" if named.empty?

      "no task#{which} has a description (`desc`): `#{name} -AT` lists all #{tasks.size}, and `#{name} -P` what they need"
    end
    private :nothing_to_list

    # As rake's, with what streams join.
    def display_prerequisites
      super
      return if streams.empty?

      streams.components(self).flat_map(&:streams).each do |stream|
        puts "#{name} stream #{stream.name}"
        stream.writers.each { |task| puts "    from #{task.name}" }
        stream.readers.each { |task| puts "    to #{task.name}" }
      end
    end

    # Remembers the properties of the description, or of `needs`, that comes before a task.
    def define_task(task_class, *args, &block)
      return super unless @last_description || @needed

      needed = take_needed
      task = super
      @last_description = nil
      task.rakuda_properties = needed if needed
      refuse_outputs(task, needed.files) if needed&.files && !task.is_a?(Rake::FileTask)
      task
    end

    # A rule's tasks have the properties of what stands before it.
    def create_rule(*args, &block)
      needed = take_needed
      action = block # once: Ruby would make another object of a block that is only passed on
      super(*args, &action).last.tap { |rule| (@rule_places ||= {}.compare_by_identity)[rule] = rakefile_place }
      return unless needed

      @last_description = nil
      (@rule_properties ||= {}.compare_by_identity)[action] = needed if action
    end

    # @param rule [Array] as rake keeps it
    # @return [String, nil] FILE:LINE of what defined it
    def rule_place(rule)
      @rule_places && @rule_places[rule]
    end

    # As rake's; where a rule applies to the name, followed by what that lacks.
    def generate_message_for_undefined_task(task_name)
      [super, *Failures.of_rules(RakeBridge.short_rules(self, task_name.to_s))].join("\n")
    end

    # As rake's. What is needed by nothing was written in the wrong place.
    def load_rakefile
      super
      tell_needed_by_nothing
    end

    # As rake's. What a MegaScript program ran is in a Rakefile of its own.
    def raw_load_rakefile
      super
    rescue RuntimeError => e
      made = e.message.start_with?("No Rakefile found") ? Dir[".rakuda/megascript/*.rake"].sort : []
      raise if made.empty?

      files = made.map { |file| "-f #{file}" }.join(", or ")
      raise e.class, "#{e.message}; for what a MegaScript program has run here: #{files}", cause: nil
    end

    def tell_needed_by_nothing
      $stderr.puts "#{name}: #{@needed.place}: needs: no task or rule comes after it" if @needed
      @needed = nil
    end
    private :tell_needed_by_nothing

    # @return [Needed, nil] properties of the rule that made the task
    def rule_properties(task)
      @rule_properties && @rule_properties[task.actions.first]
    end

    # As rake's, with a group of our own.
    def handle_options(argv)
      set_default_options
      parser = OptionParser.new do |opts|
        opts.banner = "#{name} [-f rakefile] {options} targets..."
        opts.separator ""
        opts.separator "Options are ..."
        opts.on_tail("-h", "--help", "-H", "Display this help message.") do
          puts opts
          exit
        end
        standard_rake_options.each { |args| opts.on(*args) }
        opts.separator ""
        opts.separator "Rakuda's own options are ..."
        rakuda_options.each { |args| opts.on(*args) }
        opts.environment("RAKEOPT")
      end
      parse_options(parser, argv)
    end

    # As the parser does, but with --cluster slurm the words after `--` are sbatch's.
    def parse_options(parser, argv)
      own = argv.take_while { |word| word != "--" }
      rest = argv.drop(own.size + 1)
      tasks = parser.parse(own)
      return tasks + rest unless @own[:keys]["CLUSTER"] == "slurm"

      @batch_words = rest
      tasks
    rescue OptionParser::MissingArgument, OptionParser::NeedlessArgument, OptionParser::AmbiguousOption => e
      raise ConfigurationError, e.message
    end

    def collect_command_line_tasks(args)
      args.each { |arg| @variables[Regexp.last_match(1)] = Regexp.last_match(2) if arg =~ /^(\w+)=(.*)$/m }
      super
    end

    def display_exception_backtrace(exception)
      return super if options.backtrace

      trace Rake::Backtrace.collapse(Application.without_own_lines(exception.backtrace || [])).join("\n")
    end

    # Ruby's own methods that are written in Ruby stand in backtraces, too (`<internal:kernel>:187:in 'loop'`, more of
    # them since Ruby 3.3): those that Rakuda has called are Rakuda's.
    # @param lines [Array<String>] a backtrace
    # @return [Array<String>] those that rake would have
    def self.without_own_lines(lines)
      own = false
      lines.reverse.reject do |line|
        own = line.match?(OWN_LINES) unless line.start_with?("<internal:")
        own
      end.reverse
    end

    # With --job-stats, actions stand for rake's threads.
    def run_with_threads(&block)
      return super if serial? || !options.job_stats

      block.call
      most, all = @session ? @session.action_counts : [0, 0]
      puts "Maximum active threads: #{most} + main", "Total threads in play:  #{all} + main"
    end

    # A signal has no text and no place in the Rakefile.
    def display_error_message(exception)
      return super unless exception.is_a?(SignalException) && !options.backtrace

      trace "#{name} aborted!"
      trace exception.signo == Signal.list["INT"] ? "Interrupt" : "SIG#{Signal.signame(exception.signo)}"
    end

    # Says in one line what the user has set wrongly, as with an unknown option.
    def standard_exception_handling
      super do
        yield
      rescue ConfigurationError => e
        raise if options.backtrace

        $stderr.puts(e.is_a?(RakefileError) ? e.message : "#{name}: #{e.message}")
        exit(false)
      end
    end

    def exit_because_of_exception(exception)
      case exception
      when NodesGone then exit(3)
      when Interrupt then exit(130)
      when SignalException then exit(128 + exception.signo)
      else super
      end
    end

    private

    # @return [Array(String, Array)] name of a `sync`, and what its first round needs
    def sync_name(arguments)
      given = arguments.size == 1 ? arguments[0] : nil
      return [given.to_s, []] if given.is_a?(String) || given.is_a?(Symbol)
      return [given.keys[0].to_s, Array(given.values[0]).map(&:to_s)] if given.is_a?(Hash) && given.size == 1
      return [nil, []] if arguments == [nil]

      raise ConfigurationError, "expected a name, such as `sync :write, workers: 8 do |w| ... end`"
    end

    # The tasks of both would have the same names.
    def refuse_second_sync(name, place)
      full = current_scope.path_with_task_name(name.to_s)
      first = (@sync_places ||= {})[full]
      raise ConfigurationError, "sync :#{full} is defined twice, first at #{first}: give one of them another name" if first

      @sync_places[full] = place
    end

    # Whether rake's own lines of a dry run are printed: people have the plan, and who reads rake's lines reads a pipe
    # or a file.
    def walk_shown?
      return false if @own[:quiet]

      @own[:walk] || (@own[:plan] != "json" && !STDERR.tty?)
    end

    def trace_rule(level, message)
      super unless options.trace_rules && @session&.log_rule("#{"    " * level}#{message}")
    end

    # @return [Needed, nil] what the description and `needs` say; the latter holds where both do
    def take_needed
      needed, @needed = @needed, nil
      described = described_properties or return ask_memory(needed)

      ask_memory(Needed.new(needed ? merge_fields(described, needed.fields) : described, needed&.place || rakefile_place,
                            needed&.parameters, needed&.files, needed&.environment))
    end

    # Asks how much memory each attempt needs, where that is a lambda.
    def ask_memory(needed)
      lambda = needed&.fields&.fetch("memory_bytes", nil)
      return needed unless lambda.is_a?(Proc)

      memory = Needs.memory_by_attempt(lambda, needed.fields["retry"] || configuration.retries)
      needed.fields = needed.fields.merge("memory_bytes" => memory)
      needed
    rescue ConfigurationError => e
      raise RakefileError, "#{needed.place}: needs: #{e.message}"
    end

    # What is written beside a target needs one.
    def refuse_outputs(task, files)
      return if files.fetch("outputs", []).empty?

      raise RakefileError, "#{files["place"]}: needs: outputs: expected a file task after it, not #{task.name}, " \
                           "which makes no file"
    end

    def merge_fields(earlier, later)
      strict = (earlier.fetch("strict", []) | later.fetch("strict", []))
      earlier.merge(later).merge("strict" => strict)
    end

    # A word such as `retry=N` in an ordinary description is left to it.
    def described_properties
      Properties.parse(@last_description) do |complaint|
        $stderr.puts "#{name}: #{rakefile_place}: #{complaint}; taken as text of the description"
      end
    end

    # @return [String, nil] FILE:LINE of what the Rakefile says just now, as seen from its folder
    def rakefile_place
      line = caller_locations.find { |location| !location.path.match?(NOT_THE_RAKEFILE) }
      "#{line.path.delete_prefix("#{rakefile_directory}/")}:#{line.lineno}" if line
    end

    def close_session
      session, @session = @session, nil
      return unless session

      failed = ending_badly?
      session.close(failed)
      @former = session
      run_end_commands(session, failed) unless options.dryrun
    end

    # The engine starts on another core while Ruby loads what a session needs.
    def begin_session(settings)
      require "rakuda/engine"
      engine = Engine.new
      engine.start(settings)
      begin
        require "rakuda/session"
        Session.new(self, engine, settings)
      rescue Exception # rubocop:disable Lint/RescueException -- a signal: nobody else would say goodbye
        engine.finish(true)
        raise
      end
    end

    def run_end_commands(session, failed)
      on_end, on_fail = %w[ON_END ON_FAIL].map { |key| configuration[key] }
      return unless on_end || on_fail

      require "rakuda/end_commands"
      EndCommands.new(on_end, on_fail, name).run(session.engine_program, session.run_name, failed)
    end

    # Whether the process is about to end with a status other than 0.
    def ending_badly?
      ending = $! # rubocop:disable Style/SpecialGlobalVars
      !ending.nil? && !(ending.is_a?(SystemExit) && ending.success?)
    end

    def configured_jobs
      configuration.cores || Etc.nprocessors
    end

    def configuration_files
      project = @own[:config] ? [@own[:config]] : Configuration.project_files(rakefile_directory)
      [Configuration.user_file, *project].compact
    end

    def rakefile_directory
      @rakefile_directory ||= Dir.pwd
    end

    def show_configuration
      puts(configuration.lines(holding_settings), option_settings.map { |setting| Configuration.line(*setting) })
      exit
    end

    # @return [Hash{String => Array(Object, String)}] by key, value and origin of what follows from several settings, or
    #   holds by itself where nobody has set the key
    def holding_settings
      sharing = { true => "true", false => "false" }.fetch(configuration.switch("OVERSUBSCRIBE"), "streams alone")
      holding = { "NCORE" => cores_setting, "QUEUE_PRIORITY" => order_setting, "OUTPUT" => output, "OVERSUBSCRIBE" => sharing,
                  "STRICT" => configuration.on?("STRICT"), "UI" => configuration.on?("UI"),
                  "ON_END" => configuration["ON_END"] || "nothing", "ON_FAIL" => configuration["ON_FAIL"] || "nothing" }
      holding.to_h { |key, value| [key, value.is_a?(Array) ? value : [value, configuration.origin(key) || "default"]] }
    end

    def cores_setting
      origin = @own[:given].include?(:jobs) ? "option" : configuration.origin("NCORE") || "default"
      [cluster? && !bounds_cores? ? "all of each host" : jobs, origin]
    end

    def order_setting
      return ["serial", "one job"] if serial?

      value = configuration["QUEUE_PRIORITY"].to_s
      [value == configuration.policy ? value : "#{value}, as #{configuration.policy}", configuration.origin("QUEUE_PRIORITY")]
    end

    # @return [Boolean] whether somebody has said how many cores of each host are used at most
    def bounds_cores?
      !!(@own[:given].include?(:jobs_number) || configuration.cores)
    end

    # @return [Array<Array(String, Object, String)>] what options alone set
    def option_settings
      resources = @own[:resources].map { |name, count| "#{name}=#{count}" }
      memory = @own[:memory_bytes]
      files = configuration_files
      [own_setting("output-prefix", :prefix),
       own_setting("ci", :ci, @own[:ci] || "none"),
       own_setting("grace", :grace_ms, "#{grace} s"),
       own_setting("memory", :memory_bytes, memory.zero? ? "all of the machine's" : Properties.text_of_bytes(memory)),
       own_setting("enforce", :enforce, @own[:enforce] || "nothing"),
       own_setting("resource", :resources, resources.empty? ? "none" : resources),
       own_setting("seed", :seed), own_setting("record", :record),
       ["config", files.empty? ? "none" : files, @own[:config] ? "option" : "default"]].sort_by(&:first)
    end

    def own_setting(name, key, value = @own[key])
      [name, value, @own[:given].include?(key) ? "option" : "default"]
    end

    # @return [Hash] settings of the message Hello
    def hello
      check_record
      nodes.without_effect.each { |line| $stderr.puts "#{name}: #{line}" }
      serial = serial? || options.dryrun
      {
        "jobs" => jobs, "oversubscribe" => configuration.on?("OVERSUBSCRIBE"),
        "stream_route" => configuration["STREAM_ROUTE"].to_s, "stream_stall_ms" => configuration.stream_stall * 1000,
        "policy" => serial ? "serial" : configuration.policy,
        "failure_termination" => configuration["FAILURE_TERMINATION"].to_s,
        "failed_target" => configuration["FAILED_TARGET"].to_s, "retry" => configuration.retries,
        "output" => output, "prefix" => @own[:prefix], "ci" => @own[:ci],
        "build_all" => options.build_all ? true : false, "dry_run" => options.dryrun ? true : false,
        "trace" => traces? ? true : false, "progress" => progress, "colour" => colour?,
        "strict" => configuration.on?("STRICT"), "farewell" => STDERR.tty? && !options.silent && !@own[:quiet],
        "grace_ms" => @own[:grace_ms], "directory" => Dir.pwd.b, "seed" => @own[:seed], "log_dir" => log_dir,
        "memory_bytes" => @own[:memory_bytes], "enforce_memory" => enforces_memory?, "resources" => @own[:resources],
        "stdin" => serial? && !options.dryrun ? "inherit" : "null", "record" => @own[:record],
        "command_line" => @command_line.map(&:b), "resume" => resume_words&.map(&:b) || [], "rakefile" => @rakefile.to_s.b,
        "runs_kept" => configuration.runs_kept, "runs_bytes" => configuration.runs_bytes,
        "locality" => !configuration.on?("DISABLE_AFFINITY"), "stealing" => !configuration.on?("DISABLE_STEAL"),
        "sample_ms" => configuration.sample_interval, "providers" => configuration.providers(rakefile_directory)&.b,
        "information_service" => configuration.information_service(rakefile_directory),
        "walltime_ms" => configuration.walltime.to_i * 1000, "cluster" => cluster_settings
      }.merge(rerun_settings)
    end

    # @return [Hash, nil] of the settings of Hello: the nodes
    def cluster_settings
      return nil unless cluster?

      { **nodes.settings(rakefile_directory),
        "cores_max" => bounds_cores? ? jobs : 0,
        "ssh_options" => configuration.ssh_options.map(&:b), "pass_environment" => configuration.pass_environment,
        "filesystem" => configuration.filesystem, "staging" => configuration.staging,
        "work_directory" => configuration["WORK_DIR"]&.b,
        "silence_ms" => configuration.heartbeat * 1000, "visible_ms" => configuration.visible_within * 1000,
        "host_failures" => configuration.host_failures }
    end

    # @return [Hash] of the settings of Hello: what is compared with earlier runs
    def rerun_settings
      on = configuration.rerun_on
      return {} if on.empty?

      names = on.include?("env") ? configuration.rerun_environment : []
      { "rerun_on" => on, "rerun_environment" => names.to_h { |name| [name, ENV.fetch(name, nil)&.b] },
        "content_bytes_max" => configuration.content_bytes_max }
    end

    def check_record
      if configuration.on?("UI") && !@own[:record]
        raise ConfigurationError, "--ui and --no-record together: the page is made of the record"
      end

      if !@own[:record] && configuration.on?("JOINABLE")
        raise ConfigurationError,
              "--no-record and --joinable together: who joins looks for the run in its record; leave one of the two out"
      end
      return if @own[:record] || configuration["FAILED_TARGET"] != "leave"

      raise ConfigurationError, "--no-record and FAILED_TARGET=leave (#{configuration.origin("FAILED_TARGET")}) together: " \
                                "without a record nothing tells a half-written target from a good one; " \
                                "use FAILED_TARGET=rename or delete, or keep the record"
    end

    # @return [String] how output of commands is kept apart
    def output
      configuration["OUTPUT"]&.to_s || default_output
    end

    # Who reads a log later wants it by task; who looks at a terminal wants to see what goes on.
    def default_output
      return "task" if ci?
      return $stdin.tty? ? "none" : "line" if serial?

      STDOUT.tty? ? "line" : "task"
    end

    # @return [String] one of Protocol::PlanFormat
    def plan_format
      @own[:plan] || (STDOUT.tty? ? Protocol::PlanFormat::SHORT : Protocol::PlanFormat::TEXT)
    end

    # @return [String] "live", "plain" or "off"
    def progress
      return "off" if options.dryrun

      wanted = configuration["PROGRESS"].to_s
      return check_live if wanted == "live"
      return wanted unless wanted == "auto"
      return "off" if options.silent || @own[:quiet]
      return "plain" unless terminal? && stdout_known?

      output == "none" ? "off" : "live"
    end

    # @return [Boolean] whether stderr may have colours
    def colour?
      return false unless ENV.fetch("NO_COLOR", "").empty?

      ci? || terminal? || %w[CLICOLOR_FORCE FORCE_COLOR].any? { |name| !["", "0", "false"].include?(ENV.fetch(name, "")) }
    end

    # @return [Boolean] whether lines can be drawn on stderr
    def terminal?
      STDERR.tty? && !["", "dumb"].include?(ENV.fetch("TERM", ""))
    end

    # @return [Boolean] whether nobody can show on the terminal what goes to stdout, past the engine: a reader of a pipe
    #   can
    def stdout_known?
      stat = STDOUT.stat
      STDOUT.tty? || stat.file? || (stat.chardev? && stat.rdev == File.stat(File::NULL).rdev)
    end

    def check_live
      if output == "none"
        raise ConfigurationError, "--progress live and --output none together: commands would write into the display; " \
                                  "use --output line or task"
      end
      return "live" if terminal?

      what = STDERR.tty? ? "the terminal cannot be drawn on (TERM is #{ENV.fetch("TERM", "").inspect})" : "stderr is no terminal"
      raise ConfigurationError, "--progress live: #{what}; use --progress plain"
    end

    def log_dir
      pattern = configuration["LOG_DIR"] or return
      # As in Pwrake, anything but a name (`LOG_DIR: true`) is the default name.
      pattern = LOG_DIR_PATTERN unless pattern.is_a?(String) && !pattern.empty?
      Time.now.strftime(pattern).b
    end
  end
end
