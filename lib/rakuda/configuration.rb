# frozen_string_literal: true

# Settings of a run and where each came from: defaults, pwrake_conf.yaml, the environment, VAR=value on the command
# line, options (each stronger than those before). It reads the file and checks the values; what they do is the
# engine's business.

module Rakuda
  # Resolved settings.
  class Configuration
    FILE = "pwrake_conf.yaml"

    # Pwrake's public keys. Those that concern clusters are known and not used on one machine.
    KEYS = %w[
      HOSTFILE HOSTS LOG_DIR LOG_FILE TASK_CSV_FILE COMMAND_CSV_FILE GC_LOG_FILE NCORE DISABLE_AFFINITY DISABLE_STEAL
      RETRY HOST_FAILURE FAILED_TARGET FAILURE_TERMINATION QUEUE_PRIORITY NOACTION_QUEUE_PRIORITY SHELL_START_INTERVAL
      GRAPH_PARTITION REPORT_IMAGE_TYPE FILESYSTEM SSH_OPTION PASS_ENV GNU_TIME DEBUG HEARTBEAT SHELL_RC WORK_DIR
      BASEDIR PREFIX SUBDIR MAX_GFWHERE_WORKER GFARM_BASEDIR GFARM_PREFIX GFARM_SUBDIR PLOT_PARALLELISM STEAL_WAIT
      SHELL_COMMAND RESERVE_NODE HALT_QUEUE_WHILE_SEARCH SHOW_CONF PROFILE LOGFILE TASKLOG
    ].freeze

    DEFAULTS = { "FAILED_TARGET" => "rename", "FAILURE_TERMINATION" => "wait", "RETRY" => 0,
                 "QUEUE_PRIORITY" => "LIHR" }.freeze

    CHOICES = { "FAILED_TARGET" => %w[rename delete leave], "FAILURE_TERMINATION" => %w[wait kill continue] }.freeze

    # Pwrake's names of queue orders, and ours.
    POLICIES = { "fifo" => "fifo", "lifo" => "lifo", "lihr" => "lifo_hrf", "lifo_hrf" => "lifo_hrf", "hrf" => "lifo_hrf",
                 "rank" => "rank_hrf", "rank_hrf" => "rank_hrf", "prhr" => "rank_hrf", "default" => "lifo_hrf" }.freeze

    # All other keys are read from VAR=value and the file alone: a LOG_DIR in the environment is someone else's.
    FROM_ENVIRONMENT = %w[FAILED_TARGET FAILURE_TERMINATION RETRY PASS_ENV].freeze

    # A value and where it came from.
    Entry = Struct.new(:value, :origin)

    # @param file [String, nil] an existing configuration file
    # @param variables [Hash{String => String}] VAR=value of the command line
    # @param options [Hash{String => Object}] keys set by options
    def initialize(file, variables, options)
      @entries = DEFAULTS.transform_values { |value| Entry.new(value, "default") }
      read(file) if file
      FROM_ENVIRONMENT.each do |key|
        take(key, ENV[key], "environment") unless ENV.fetch(key, "").empty? || variables.key?(key)
      end
      KEYS.each { |key| take(key, variables[key], "command line") if variables.key?(key) }
      options.each { |key, value| set(key, value, "option") }
    end

    # @return [Object, nil]
    def [](key)
      @entries[key]&.value
    end

    # @return [String] a policy of the protocol
    def policy
      POLICIES.fetch(self["QUEUE_PRIORITY"].to_s.downcase)
    end

    # @return [Integer]
    def retries
      Integer(self["RETRY"].to_s, 10)
    end

    # @return [Integer, nil]
    def cores
      self["NCORE"] && Integer(self["NCORE"].to_s, 10)
    end

    # @return [String, nil] where a key's value came from
    def origin(key)
      @entries[key]&.origin
    end

    # @return [Array<String>] one line per setting: key, value, origin
    def lines
      @entries.sort.map { |key, entry| Configuration.line(key, entry.value, entry.origin) }
    end

    # @return [String] one line about a setting
    def self.line(key, value, origin)
      value = value.join(" ") if value.is_a?(Array)
      format("%-24<key>s %-24<value>s (%<origin>s)", key: key, value: value, origin: origin)
    end

    private

    def read(file)
      require "yaml"
      content = YAML.safe_load(File.read(file)) || {}
      raise ConfigurationError, "#{file}: expected lines of the form KEY: value" unless content.is_a?(Hash)

      content.each do |key, value|
        KEYS.include?(key) ? set(key, value, file) : warn_unknown(key, file)
      end
    rescue Psych::SyntaxError => e
      raise ConfigurationError, "#{file}:#{e.line}: #{e.problem}"
    rescue Psych::DisallowedClass, Psych::BadAlias => e
      raise ConfigurationError, "#{file}: #{e.message} (a date or the like is a name when it is in quotes)"
    rescue SystemCallError => e
      raise ConfigurationError, "#{file}: #{e.class.new.message}"
    end

    def warn_unknown(key, file)
      require "did_you_mean"
      nearest = DidYouMean::SpellChecker.new(dictionary: KEYS).correct(key.to_s.upcase).first ||
                KEYS.min_by { |known| DidYouMean::Levenshtein.distance(known, key.to_s.upcase) }
      $stderr.puts "rakuda: #{file}: unknown key #{key} (nearest known key: #{nearest})"
    end

    # A Rakefile may use such a name for its own ends (RETRY=yes): what is no value of ours is left to it.
    def take(key, value, origin)
      set(key, value, origin)
    rescue ConfigurationError => e
      $stderr.puts "rakuda: #{e.message}; not used by rakuda"
    end

    def set(key, value, origin)
      check(key, value, origin)
      @entries[key] = Entry.new(value, origin)
    end

    def check(key, value, origin)
      if CHOICES.key?(key)
        complain(key, value, origin, CHOICES[key].join(", ")) unless CHOICES[key].include?(value.to_s)
      elsif key == "RETRY"
        check_number(key, value, origin, 0..Properties::COUNT_MAX)
      elsif key == "NCORE"
        check_number(key, value, origin, 1..CommandLine::JOBS_MAX) unless value.nil?
      elsif key == "LOG_DIR"
        complain(key, value, origin, "the name of a folder") unless value.is_a?(String) || [true, false, nil].include?(value)
      elsif key == "QUEUE_PRIORITY"
        complain(key, value, origin, "fifo, lifo, lifo_hrf, rank_hrf") unless POLICIES.key?(value.to_s.downcase)
      end
    end

    def check_number(key, value, origin, range)
      return if value.to_s.match?(/\A\d+\z/) && range.cover?(value.to_s.to_i)

      complain(key, value, origin, "a whole number from #{range.begin} to #{range.end}")
    end

    def complain(key, value, origin, expected)
      raise ConfigurationError, "#{key}=#{value} (#{origin}): expected #{expected}"
    end
  end
end
