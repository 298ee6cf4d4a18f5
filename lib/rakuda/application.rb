# frozen_string_literal: true

# The command: rake's application with Rakuda's options, and a session with the engine that begins when the first task
# is invoked. It knows options and exit codes; planning and running are the session's business.

require "rakuda/configuration"

module Rakuda
  # Rake's application, run in parallel.
  class Application < Rake::Application
    # Pwrake's default name of a log folder.
    LOG_DIR_PATTERN = "Pwrake%Y%m%d-%H%M%S"

    prepend CommandLine

    # Lines of a backtrace that are Rakuda's own.
    OWN_LINES = %r{\A#{Regexp.quote(File.expand_path('..', __dir__))}/|bin/rakuda:\d+}.freeze

    # Files whose lines define tasks for a Rakefile.
    NOT_THE_RAKEFILE = Regexp.union(File.expand_path("..", __dir__), File.dirname(Rake.method(:application).source_location[0]),
                                    "<internal:").freeze

    # Runs the command.
    # @param argv [Array<String>]
    def self.start(argv)
      Rake.application = new
      Rake.application.run(argv)
    end

    def initialize
      super
      @name = "rakuda"
      @jobs = nil
      @session = nil
      @former = nil               # the session that has ended
      @over = false               # `run` has ended
      @variables = {}
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

    # @return [Boolean] whether invocations are planned; a dry run is rake's own, one task after the other
    def plans?
      !options.dryrun
    end

    # The session with the engine, which is started now if it was not.
    # @return [Session]
    def session
      @session ||= begin
        require "rakuda/session"
        @former&.retire
        at_exit { close_session } if @over # invoked by an `at_exit`
        Session.new(self, hello)
      end
    end

    # @return [Session, nil] the session, when a task has been invoked
    def running_session
      @session
    end

    # @return [Configuration]
    def configuration
      @configuration ||= Configuration.new(configuration_file, @variables, @own[:keys])
    end

    # Remembers the properties of the description that comes before a task.
    def define_task(task_class, *args, &block)
      return super unless @last_description

      properties = described_properties
      task = super
      @last_description = nil
      task.rakuda_properties = properties if properties
      task
    end

    # A rule's tasks have the properties of the description before it.
    def create_rule(*args, &block)
      properties = described_properties
      super
      return unless properties

      @last_description = nil
      (@rule_properties ||= {}.compare_by_identity)[block] = properties
    end

    # @return [Hash, nil] properties of the rule that made the task
    def rule_properties(task)
      @rule_properties && @rule_properties[task.actions.first]
    end

    # As rake's, with a group of our own.
    def handle_options(argv)
      set_default_options
      OptionParser.new do |opts|
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
      end.parse(argv)
    end

    def collect_command_line_tasks(args)
      args.each { |arg| @variables[Regexp.last_match(1)] = Regexp.last_match(2) if arg =~ /^(\w+)=(.*)$/m }
      super
    end

    def display_exception_backtrace(exception)
      return super if options.backtrace

      lines = Rake::Backtrace.collapse(exception.backtrace || [])
      trace lines.grep_v(OWN_LINES).join("\n")
    end

    # With --job-stats, actions stand for rake's threads.
    def run_with_threads(&block)
      return super if jobs == 1 || !options.job_stats

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

    # What the user has set wrongly is told in one line, as with an unknown option.
    def standard_exception_handling
      super do
        yield
      rescue ConfigurationError => e
        raise if options.backtrace

        $stderr.puts "#{name}: #{e.message}"
        exit(false)
      end
    end

    def exit_because_of_exception(exception)
      case exception
      when Interrupt then exit(130)
      when SignalException then exit(128 + exception.signo)
      else super
      end
    end

    private

    def trace_rule(level, message)
      super unless options.trace_rules && @session&.log_rule("#{"    " * level}#{message}")
    end

    # A word such as `retry=N` in an ordinary description is left to it.
    def described_properties
      Properties.parse(@last_description) do |complaint|
        place = caller_locations.find { |location| !location.path.match?(NOT_THE_RAKEFILE) }
        $stderr.puts "#{name}: #{place&.path}:#{place&.lineno}: #{complaint}; taken as text of the description"
      end
    end

    def close_session
      session, @session = @session, nil
      session&.close
      @former = session if session
    end

    def configured_jobs
      configuration.cores || Etc.nprocessors
    end

    def configuration_file
      return @own[:config] if @own[:config]

      path = File.join(rakefile_directory, Configuration::FILE)
      path if File.file?(path)
    end

    def rakefile_directory
      @rakefile_directory ||= Dir.pwd
    end

    def show_configuration
      puts(configuration.lines, other_settings.map { |setting| Configuration.line(*setting) })
      exit
    end

    # @return [Array<Array(String, Object, String)>] what options alone set, and what follows from several settings
    def other_settings
      jobs_origin = @own[:given].include?(:jobs) ? "option" : configuration.origin("NCORE") || "default"
      resources = @own[:resources].map { |name, count| "#{name}=#{count}" }
      [["jobs", jobs, jobs_origin],
       ["policy", jobs == 1 ? "serial" : configuration.policy, jobs == 1 ? "one job" : configuration.origin("QUEUE_PRIORITY")],
       own_setting("output", :output, @own[:output] || default_output), own_setting("output-prefix", :prefix),
       own_setting("grace", :grace_ms, "#{@own[:grace_ms] / 1000.0} s"),
       own_setting("memory", :memory_bytes, @own[:memory_bytes].zero? ? "all of the machine's" : @own[:memory_bytes]),
       own_setting("resource", :resources, resources.empty? ? "none" : resources),
       own_setting("seed", :seed), own_setting("record", :record)]
    end

    def own_setting(name, key, value = @own[key])
      [name, value, @own[:given].include?(key) ? "option" : "default"]
    end

    # @return [Hash] settings of the message Hello
    def hello
      check_record
      serial = jobs == 1
      {
        "jobs" => jobs, "policy" => serial ? "serial" : configuration.policy,
        "failure_termination" => configuration["FAILURE_TERMINATION"].to_s,
        "failed_target" => configuration["FAILED_TARGET"].to_s, "retry" => configuration.retries,
        "output" => @own[:output] || default_output, "prefix" => @own[:prefix],
        "build_all" => options.build_all ? true : false, "dry_run" => false, "trace" => options.trace ? true : false,
        "grace_ms" => @own[:grace_ms], "directory" => Dir.pwd.b, "seed" => @own[:seed], "log_dir" => log_dir,
        "memory_bytes" => @own[:memory_bytes], "resources" => @own[:resources],
        "stdin" => serial ? "inherit" : "null", "record" => @own[:record], "command_line" => @command_line.map(&:b)
      }
    end

    def check_record
      return if @own[:record] || configuration["FAILED_TARGET"] != "leave"

      raise ConfigurationError, "--no-record and FAILED_TARGET=leave (#{configuration.origin("FAILED_TARGET")}) together: " \
                                "without a record nothing tells a half-written target from a good one; " \
                                "use FAILED_TARGET=rename or delete, or keep the record"
    end

    def default_output
      jobs == 1 && $stdin.tty? ? "none" : "line"
    end

    def log_dir
      pattern = configuration["LOG_DIR"] or return
      # As in Pwrake, anything but a name (`LOG_DIR: true`) is the default name.
      pattern = LOG_DIR_PATTERN unless pattern.is_a?(String) && !pattern.empty?
      Time.now.strftime(pattern).b
    end
  end
end
