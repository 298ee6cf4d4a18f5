# frozen_string_literal: true

# Rakuda's own options, and those of rake whose meaning differs. Only fills fields of the application's options; rake's
# other options are rake's own.

require "etc"

module Rakuda
  # Options beyond rake's.
  module CommandLine
    POLICIES = %w[fifo lifo lifo_hrf rank_hrf].freeze
    JOBS_MAX = 65_535
    SEED_MAX = (1 << 64) - 1
    SECONDS_MAX = 4_294_967

    private

    # @return [Array<Array>] as rake's standard_rake_options
    def standard_rake_options
      super.map do |option|
        case option.first
        when "--jobs" then jobs_option
        when "--version" then version_option
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

    # As in rake, what is no number means all cores; `-j build` hides a task that way, so it is told.
    def jobs_value(value)
      return Etc.nprocessors if value.nil? || value.empty?
      return whole_number("-j", value, 1..JOBS_MAX) if value.match?(/\A-?\d+\z/)

      $stderr.puts "#{name}: -j #{value}: not a number; all #{Etc.nprocessors} cores are used"
      Etc.nprocessors
    end

    def version_option
      ["--version", "-V", "Display the program version.",
       lambda { |_value|
         puts "rakuda, version #{VERSION} (rake, version #{Rake::VERSION})"
         exit
       }]
    end

    def rakuda_options
      run_options + failure_options + output_options
    end

    def run_options
      [
        ["--policy POLICY", "Order of ready tasks: #{POLICIES.join(', ')}. (default is lifo_hrf)",
         ->(value) { set_key("QUEUE_PRIORITY", choice("--policy", value, POLICIES)) }],
        ["--memory BYTES", "Memory that tasks may use together, such as 8G.",
         ->(value) { set_own(:memory_bytes, checked("--memory #{value}") { Properties.bytes(value) }) }],
        ["--resource NAME=COUNT", "A named resource that tasks may ask for. Repeatable.",
         ->(value) { set_own(:resources, @own[:resources].merge(checked("--resource") { Properties.resources(value) })) }],
        ["--seed N", "Seed of the choices made at random.",
         ->(value) { set_own(:seed, whole_number("--seed", value, 0..SEED_MAX)) }],
        ["--config FILE", "Read FILE in place of #{Configuration::FILE} beside the Rakefile.",
         ->(value) { @own[:config] = File.expand_path(value) }],
        ["--show-conf", "Show the settings and where each came from, then exit.",
         ->(_value) { @own[:show_conf] = true }]
      ]
    end

    def failure_options
      [
        ["--failure HOW", "What a failed task does to others: wait, kill, continue. (default is wait)",
         ->(value) { set_key("FAILURE_TERMINATION", choice("--failure", value, %w[wait kill continue])) }],
        ["--retry N", "Attempts after the first, for tasks that do not say. (default is 0)",
         ->(value) { set_key("RETRY", whole_number("--retry", value, 0..Properties::COUNT_MAX)) }],
        ["--grace SECONDS", "Seconds between SIGINT, SIGTERM and SIGKILL when a run is stopped. (default is 5)",
         ->(value) { set_own(:grace_ms, (seconds("--grace", value) * 1000).to_i) }]
      ]
    end

    def output_options
      [
        ["--output HOW", "How output of commands is kept apart: line by line, task by task, not.",
         ->(value) { set_own(:output, choice("--output", value, %w[line task none])) }],
        ["--output-prefix", "Put the task's name before each line of output.", ->(_value) { set_own(:prefix, true) }],
        ["-L", "--log-dir [DIRECTORY]", "Write logs to DIRECTORY. (default is Rakuda%Y%m%d-%H%M%S)",
         ->(value) { set_key("LOG_DIR", value || "Rakuda%Y%m%d-%H%M%S") }],
        ["--no-record", "Keep no record of the run in .rakuda.", ->(_value) { set_own(:record, false) }]
      ]
    end

    # A word of a list, or the beginning of just one.
    def choice(option, value, words)
      return value if words.include?(value)

      near = words.select { |word| word.start_with?(value) }
      return near.first if near.size == 1

      raise ConfigurationError, "#{option} #{value}: expected one of #{words.join(', ')}"
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
