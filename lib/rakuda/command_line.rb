# frozen_string_literal: true

# Rakuda's own options, and those of rake whose meaning differs. Only fills fields of the application's options; rake's
# other options are rake's own.

require "etc"

module Rakuda
  # Options beyond rake's.
  module CommandLine
    POLICIES = %w[fifo lifo lifo_hrf rank_hrf].freeze

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
         @jobs = value =~ /\A\d+\z/ ? [value.to_i, 1].max : Etc.nprocessors
         options.thread_pool_size = @jobs - 1
       }]
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
        ["--policy POLICY", POLICIES, "Order of ready tasks: #{POLICIES.join(', ')}. (default is lifo_hrf)",
         ->(value) { set_key("QUEUE_PRIORITY", value) }],
        ["--memory BYTES", "Memory that tasks may use together, such as 8G.",
         ->(value) { @own[:memory_bytes] = Properties.bytes(value) }],
        ["--resource NAME=COUNT", "A named resource that tasks may ask for. Repeatable.",
         ->(value) { @own[:resources].update(Properties.resources(value)) }],
        ["--seed N", Integer, "Seed of the choices made at random.", ->(value) { @own[:seed] = value }],
        ["--config FILE", "Read FILE in place of #{Configuration::FILE} beside the Rakefile.",
         ->(value) { @own[:config] = File.expand_path(value) }],
        ["--show-conf", "Show the settings and where each came from, then exit.",
         ->(_value) { @own[:show_conf] = true }]
      ]
    end

    def failure_options
      [
        ["--failure HOW", %w[wait kill continue], "What a failed task does to others: wait, kill, continue. (default is wait)",
         ->(value) { set_key("FAILURE_TERMINATION", value) }],
        ["--retry N", Integer, "Attempts after the first, for tasks that do not say. (default is 0)",
         ->(value) { set_key("RETRY", value) }],
        ["--grace SECONDS", Float, "Seconds between SIGINT, SIGTERM and SIGKILL when a run is stopped. (default is 5)",
         ->(value) { @own[:grace_ms] = (value * 1000).to_i }]
      ]
    end

    def output_options
      [
        ["--output HOW", %w[line task none], "How output of commands is kept apart: line by line, task by task, not.",
         ->(value) { @own[:output] = value }],
        ["--output-prefix", "Put the task's name before each line of output.", ->(_value) { @own[:prefix] = true }],
        ["-L", "--log-dir [DIRECTORY]", "Write logs to DIRECTORY. (default is Rakuda%Y%m%d-%H%M%S)",
         ->(value) { set_key("LOG_DIR", value || "Rakuda%Y%m%d-%H%M%S") }],
        ["--no-record", "Keep no record of the run in .rakuda.", ->(_value) { @own[:record] = false }]
      ]
    end

    def set_key(key, value)
      @own[:keys][key] = value
    end
  end
end
