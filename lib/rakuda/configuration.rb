# frozen_string_literal: true

# Settings of a run and where each came from: defaults, the user's file, the project's files, the environment, VAR=value
# on the command line, options (each stronger than those before). It reads the files and checks the values; what they do
# is the engine's business.

require "shellwords"

module Rakuda
  # Resolved settings.
  class Configuration
    # The user's, below the folder of settings, and the project's.
    FILE = "rakuda.yaml"
    # Pwrake's name of the project's file.
    PWRAKE_FILE = "pwrake_conf.yaml"

    # Pwrake's public keys, and ours. Some of Pwrake's have no effect (docs/reference/configuration.md).
    KEYS = %w[
      HOSTFILE HOSTS LOG_DIR LOG_FILE TASK_CSV_FILE COMMAND_CSV_FILE GC_LOG_FILE NCORE DISABLE_AFFINITY DISABLE_STEAL
      RETRY HOST_FAILURE FAILED_TARGET FAILURE_TERMINATION QUEUE_PRIORITY NOACTION_QUEUE_PRIORITY SHELL_START_INTERVAL
      GRAPH_PARTITION REPORT_IMAGE_TYPE FILESYSTEM SSH_OPTION PASS_ENV GNU_TIME DEBUG HEARTBEAT SHELL_RC WORK_DIR
      BASEDIR PREFIX SUBDIR MAX_GFWHERE_WORKER GFARM_BASEDIR GFARM_PREFIX GFARM_SUBDIR PLOT_PARALLELISM STEAL_WAIT
      SHELL_COMMAND RESERVE_NODE HALT_QUEUE_WHILE_SEARCH SHOW_CONF PROFILE LOGFILE TASKLOG RUNS_KEPT RUNS_BYTES
      RERUN_ON RERUN_ENV CONTENT_BYTES_MAX PROGRESS STAGE_CACHE STAGE_HOME STAGE_OUTPUTS GUESS_FILES
      CLUSTER NODES BATCH_OPTION LAUNCH JOINABLE LISTEN MAX_IDLE WALLTIME VISIBLE_WITHIN
      SAMPLE_INTERVAL PROVIDERS INFO INFO_TOKEN OUTPUT ON_END ON_FAIL STRICT UI OVERSUBSCRIBE STREAM_ROUTE STREAM_STALL
    ].freeze
    # Names that Rakefiles use for variables of their own: they are keys in files alone.
    FROM_FILES = %w[OUTPUT ON_END ON_FAIL STRICT UI OVERSUBSCRIBE STREAM_ROUTE].freeze

    DEFAULTS = { "FAILED_TARGET" => "rename", "FAILURE_TERMINATION" => "wait", "RETRY" => 0,
                 "QUEUE_PRIORITY" => "LIHR", "RUNS_KEPT" => 100, "RUNS_BYTES" => "4G",
                 "CONTENT_BYTES_MAX" => "64M", "PROGRESS" => "auto", "HEARTBEAT" => 10, "HOST_FAILURE" => 2,
                 "VISIBLE_WITHIN" => 30, "GUESS_FILES" => true, "SAMPLE_INTERVAL" => 250,
                 "FILESYSTEM" => "shared", "STREAM_ROUTE" => "auto", "STREAM_STALL" => 30 }.freeze

    CHOICES = { "FAILED_TARGET" => %w[rename delete leave], "FAILURE_TERMINATION" => %w[wait kill continue],
                "PROGRESS" => %w[auto live plain off], "CLUSTER" => %w[local ssh slurm launch],
                "STAGE_OUTPUTS" => %w[stay home], "OUTPUT" => CommandLine::OUTPUTS,
                "STREAM_ROUTE" => CommandLine::STREAM_ROUTES }.freeze

    # What nodes share, by the names of file systems.
    FILESYSTEMS = { "shared" => "shared", "default" => "shared", "nfs" => "shared", "gfarm" => "gfarm",
                    "local" => "local" }.freeze

    # Pwrake's names of queue orders, and ours.
    POLICIES = { "fifo" => "fifo", "lifo" => "lifo", "lihr" => "lifo_hrf", "lifo_hrf" => "lifo_hrf", "hrf" => "lifo_hrf",
                 "rank" => "rank_hrf", "rank_hrf" => "rank_hrf", "prhr" => "rank_hrf", "cached" => "cached",
                 "lifo_hlfet" => "lifo_hlfet", "default" => "lifo_hrf" }.freeze

    # Names that one would expect for what an option says.
    OTHER_NAMES = { "POLICY" => "QUEUE_PRIORITY", "FAILURE" => "FAILURE_TERMINATION", "KEEP_GOING" => "FAILURE_TERMINATION",
                    "HOST_FILE" => "HOSTFILE", "RERUN" => "RERUN_ON" }.freeze

    # All other keys are read from VAR=value and the file alone: a LOG_DIR in the environment is someone else's.
    FROM_ENVIRONMENT = %w[FAILED_TARGET FAILURE_TERMINATION RETRY PASS_ENV].freeze

    # What says where nodes are and what they are like.
    CLUSTER_KEYS = %w[
      HOSTFILE HOSTS SSH_OPTION WORK_DIR HEARTBEAT HOST_FAILURE DISABLE_AFFINITY DISABLE_STEAL NODES BATCH_OPTION LAUNCH JOINABLE
      PROVIDERS LISTEN MAX_IDLE FILESYSTEM STAGE_CACHE STAGE_HOME STAGE_OUTPUTS VISIBLE_WITHIN GUESS_FILES
    ].freeze
    HEARTBEAT_MAX = 86_400
    # Keys that take a whole number from here to there; of SAMPLE_INTERVAL it is milliseconds.
    NUMBERS = { "RETRY" => 0..Properties::COUNT_MAX, "RUNS_KEPT" => 1..Properties::COUNT_MAX,
                "SAMPLE_INTERVAL" => 10..60_000, "STREAM_STALL" => 1..86_400 }.freeze
    # Of a service of information.
    INFO_URL = %r{\A\z|\Ahttp://[^/\s]+/?\z}
    # Pwrake's words for yes and no; an empty value is no.
    SWITCHED_ON = %w[true on yes y].freeze
    SWITCHED_OFF = %w[false off no n nil].push("").freeze

    # A value and where it came from.
    Entry = Struct.new(:value, :origin)

    # @param environment [#fetch] as ENV
    # @return [String, nil] the user's own file: below XDG_CONFIG_HOME, else ~/.config; nil: there is none
    def self.user_file(environment = ENV)
      folder = environment.fetch("XDG_CONFIG_HOME", "")
      # As the standard wants it: a relative name is none.
      folder = File.join(environment.fetch("HOME", ""), ".config") unless folder.start_with?("/")
      path = File.join(folder, "rakuda", FILE)
      path if path.start_with?("/") && File.file?(path)
    end

    # @return [Array<String>] the project's files beside its Rakefile, the stronger one last
    def self.project_files(folder)
      [PWRAKE_FILE, FILE].map { |name| File.join(folder, name) }.select { |path| File.file?(path) }
    end

    # @param files [Array<String>, String, nil] existing configuration files, the strongest last
    # @param variables [Hash{String => String}] VAR=value of the command line
    # @param options [Hash{String => Object}] keys set by options
    def initialize(files, variables, options)
      @entries = DEFAULTS.transform_values { |value| Entry.new(value, "default") }
      @files = Array(files)
      @files.each { |file| read(file) }
      FROM_ENVIRONMENT.each do |key|
        take(key, ENV[key], "environment") unless ENV.fetch(key, "").empty? || variables.key?(key)
      end
      (KEYS - FROM_FILES).each { |key| take(key, variables[key], "command line") if variables.key?(key) }
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

    # @return [Integer] how many runs' records are kept
    def runs_kept
      Integer(self["RUNS_KEPT"].to_s, 10)
    end

    # @return [Integer] how much they may take
    def runs_bytes
      Properties.bytes(self["RUNS_BYTES"].to_s)
    end

    # @return [Array<String>] what is compared with earlier runs
    def rerun_on
      Configuration.words(self["RERUN_ON"])
    end

    # @return [Array<String>] names of variables that are compared
    def rerun_environment
      Configuration.words(self["RERUN_ENV"] || self["PASS_ENV"])
    end

    # @return [Integer] larger files are not read to be compared
    def content_bytes_max
      Properties.bytes(self["CONTENT_BYTES_MAX"].to_s)
    end

    # @param value [Array, Hash, String, nil] a list, or the names of a map, or words separated by commas or blanks
    # @return [Array<String>]
    def self.words(value)
      value = value.keys if value.is_a?(Hash)
      (value.is_a?(Array) ? value : value.to_s.split(/[\s,]+/)).map(&:to_s).reject(&:empty?)
    end

    # @return [Integer, nil] seconds after which all nodes end
    def walltime
      self["WALLTIME"] && Configuration.seconds(self["WALLTIME"])
    end

    # @param text [#to_s] `[DAYS-]HOURS:MINUTES:SECONDS`, `MINUTES:SECONDS`, or a number with its unit. YAML reads
    #   2:00:00 without quotes as a number of seconds: an Integer is one
    # @return [Integer, nil] seconds, at least one; nil: it is none of these
    def self.seconds(text)
      return text.positive? ? text : nil if text.is_a?(Integer)

      seconds =
        case text.to_s
        when /\A(?:(\d{1,5})-)?(\d{1,5}):(\d\d):(\d\d)\z/ then ($1.to_i * 24 + $2.to_i) * 3600 + $3.to_i * 60 + $4.to_i
        when /\A(\d{1,5}):(\d\d)\z/ then $1.to_i * 60 + $2.to_i
        when /\A(\d{1,8})([smhd])\z/ then $1.to_i * { "s" => 1, "m" => 60, "h" => 3600, "d" => 86_400 }.fetch($2)
        end
      seconds&.positive? ? seconds : nil
    end

    # @return [Integer, nil]
    def cores
      self["NCORE"] && Integer(self["NCORE"].to_s, 10)
    end

    # @return [String, nil] the file that names the hosts of a run
    def hostfile
      self["HOSTFILE"] || self["HOSTS"]
    end

    # @param key [String] one whose value is a list of words, or a line of them
    # @return [Array<String>]
    def option_words(key)
      value = self[key]
      value.is_a?(Array) ? value.map(&:to_s) : Shellwords.split(value.to_s)
    end

    # @return [Array<String>] words for ssh
    def ssh_options
      option_words("SSH_OPTION")
    end

    # @return [Integer, nil] nodes that are asked for
    def nodes
      self["NODES"] && Integer(self["NODES"].to_s, 10)
    end

    # @return [Integer, nil] milliseconds after which an idle node is let go
    def idle_ms
      self["MAX_IDLE"] && (Integer(self["MAX_IDLE"].to_s, 10) * 1000)
    end

    # @return [Hash{String => String}] variables that commands on nodes get; of a list those that are set, of a map its
    #   values where they are not
    def pass_environment
      wanted_environment.compact
    end

    # @return [Integer] seconds after which a silent node is lost
    def heartbeat
      Integer(self["HEARTBEAT"].to_s, 10)
    end

    # @return [Integer] seconds that a node may take to see what another one has made
    def visible_within
      Integer(self["VISIBLE_WITHIN"].to_s, 10)
    end

    # @return [Integer] seconds in which nothing moves in a cycle of streams, until that is said
    def stream_stall
      Integer(self["STREAM_STALL"].to_s, 10)
    end

    # @return [Integer] milliseconds between two samples of a node
    def sample_interval
      Integer(self["SAMPLE_INTERVAL"].to_s, 10)
    end

    # @param directory [String] where a relative name starts
    # @return [String, nil] the file that names programs which provide information about nodes
    def providers(directory)
      self["PROVIDERS"] && File.expand_path(self["PROVIDERS"], directory)
    end

    # @param directory [String] where a relative name starts
    # @return [Hash, nil] of the settings of Hello: the service that knows of nodes
    def information_service(directory)
      return if self["INFO"].to_s.empty?

      file = self["INFO_TOKEN"] || File.join(ENV.fetch("TMPDIR", "/tmp"), "rakuda-#{Process.uid}", "info.token")
      { "url" => self["INFO"], "token_file" => File.expand_path(file, directory).b }
    end

    # @return [Integer] failures in a row after which a node is drained
    def host_failures
      Integer(self["HOST_FAILURE"].to_s, 10)
    end

    # @return [String] of the protocol: what nodes share
    def filesystem
      FILESYSTEMS.fetch((self["FILESYSTEM"] || "shared").to_s.downcase)
    end

    # @return [Hash] of the settings of Hello: how files come to nodes that share no file system
    def staging
      cache = self["STAGE_CACHE"]
      { "cache_bytes" => cache ? Properties.bytes(cache.to_s) : 0, "all_home" => self["STAGE_OUTPUTS"].to_s == "home",
        "home" => Configuration.words(self["STAGE_HOME"]).map(&:b), "guess_files" => on?("GUESS_FILES") }
    end

    # @return [Boolean] whether a switch is on
    def on?(key)
      SWITCHED_ON.include?(self[key].to_s.downcase)
    end

    # @return [Boolean, nil] what a switch says; nil: nothing
    def switch(key)
      on?(key) unless self[key].nil?
    end

    # @return [String, nil] where a key's value came from
    def origin(key)
      @entries[key]&.origin
    end

    # @param holding [Hash{String => Array(Object, String)}] by key what is shown in place of what was set: value and
    #   origin
    # @return [Array<String>] one line per setting: key, value, origin; below PASS_ENV what it passes
    def lines(holding = {})
      # Two names of one setting.
      shadowed = self["HOSTFILE"] ? "HOSTS" : "HOSTFILE"
      @entries.except(shadowed).transform_values(&:to_a).merge(holding).sort.flat_map do |key, (value, origin)|
        value = value.keys if value.is_a?(Hash)
        line = Configuration.line(key, value, origin)
        key == "PASS_ENV" ? [line, *passed_lines] : line
      end
    end

    # @return [String] one line about a setting
    def self.line(key, value, origin)
      value = value.join(" ") if value.is_a?(Array)
      format("%-24<key>s %-24<value>s (%<origin>s)", key: key, value: value, origin: origin)
    end

    # @return [String] bytes of the environment as one line
    def self.shown(bytes)
      text = bytes.dup.force_encoding(Encoding::UTF_8)
      text.valid_encoding? && !text.match?(/[[:cntrl:]]/) ? text : text.inspect
    end

    private

    # @return [Hash{String => String, nil}] what PASS_ENV names; nil: there is no value to pass
    def wanted_environment
      wanted = self["PASS_ENV"]
      given = wanted.is_a?(Hash) ? wanted : Configuration.words(wanted).to_h { |name| [name, nil] }
      given.to_h { |name, value| [name.to_s.b, (ENV[name.to_s] || value)&.to_s&.b] }
    end

    # @return [Array<String>] as Pwrake shows it: `ENV1: hoge`. A value that is not one line of text is shown as Ruby
    #   writes it
    def passed_lines
      wanted_environment.map do |name, value|
        name = Configuration.shown(name)
        value ? "  #{name}: #{Configuration.shown(value)}" : "  (#{name} is not set, so it is not passed)"
      end
    end

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
      raise ConfigurationError, "failed to read the settings in #{file}: #{e.class.new.message}"
    end

    def warn_unknown(key, file)
      require "did_you_mean"
      name = key.to_s.upcase.tr("-", "_")
      near = OTHER_NAMES[name] || DidYouMean::SpellChecker.new(dictionary: KEYS).correct(name).first
      hint = near ? "nearest known key: #{near}" : "known are #{KEYS.sort.join(", ")}"
      $stderr.puts "rakuda: #{place(key, file)}: unknown key #{key} (#{hint})"
    end

    # A Rakefile may use such a name for its own ends (RETRY=yes): what is no value of ours is left to it.
    def take(key, value, origin)
      set(key, value, origin)
    rescue ConfigurationError => e
      $stderr.puts "rakuda: #{e.message}; not used by rakuda"
    end

    def set(key, value, origin)
      # YAML reads the word off as false.
      value = "off" if value == false && CHOICES[key]&.include?("off")
      check(key, value, origin)
      @entries[key] = Entry.new(value, origin)
    end

    def check(key, value, origin)
      if CHOICES.key?(key)
        complain(key, value, origin, CHOICES[key].join(", ")) unless CHOICES[key].include?(value.to_s)
      elsif NUMBERS.key?(key)
        check_number(key, value, origin, NUMBERS[key])
      elsif key == "INFO"
        complain(key, value, origin, "the address of a service: http://HOST:PORT") unless value.to_s.match?(INFO_URL)
      elsif key == "INFO_TOKEN"
        complain(key, value, origin, "the name of a file") unless value.nil? || (value.is_a?(String) && !value.empty?)
      elsif %w[RUNS_BYTES CONTENT_BYTES_MAX].include?(key)
        check_bytes(key, value, origin)
      elsif key == "WALLTIME"
        complain(key, value, origin, "a time such as 2:00:00, 30:00, 90m or 2h") unless value.nil? || Configuration.seconds(value)
      elsif key == "NCORE"
        check_number(key, value, origin, 1..CommandLine::JOBS_MAX) unless value.nil?
      elsif key == "LOG_DIR"
        complain(key, value, origin, "the name of a folder") unless value.is_a?(String) || [true, false, nil].include?(value)
      elsif key == "RERUN_ON"
        complain(key, value, origin, CommandLine::RERUN_ON.join(",")) if (Configuration.words(value) - CommandLine::RERUN_ON).any?
      elsif CLUSTER_KEYS.include?(key) || FROM_FILES.include?(key)
        check_other(key, value, origin)
      elsif key == "QUEUE_PRIORITY"
        known = "fifo, lifo, lifo_hrf, rank_hrf, cached, lifo_hlfet"
        complain(key, value, origin, known) unless POLICIES.key?(value.to_s.downcase)
      end
    end

    def check_other(key, value, origin)
      case key
      when "ON_END", "ON_FAIL" then complain(key, value, origin, "a command line") unless value.nil? || value.to_s.match?(/\S/)
      when "HOSTFILE", "HOSTS", "PROVIDERS"
        complain(key, value, origin, "the name of a file") unless value.nil? || (value.is_a?(String) && !value.empty?)
      when "WORK_DIR" then complain(key, value, origin, "an absolute path") unless value.nil? || value.to_s.start_with?("/")
      when "HEARTBEAT", "VISIBLE_WITHIN" then check_number(key, value, origin, 1..HEARTBEAT_MAX)
      when "HOST_FAILURE" then check_number(key, value, origin, 0..Properties::COUNT_MAX)
      when "SSH_OPTION", "BATCH_OPTION" then check_words(key, value, origin)
      when "NODES" then check_number(key, value, origin, 1..CommandLine::JOBS_MAX) unless value.nil?
      when "MAX_IDLE" then check_number(key, value, origin, 1..CommandLine::SECONDS_MAX) unless value.nil?
      when "LAUNCH" then complain(key, value, origin, "a command line with {agent} in it") unless value.to_s.match?(/\A\z|\{/)
      when "LISTEN" then complain(key, value, origin, "HOST or HOST:PORT") unless value.nil? || value.to_s.match?(/\A\S+\z/)
      when "FILESYSTEM" then check_filesystem(key, value, origin)
      when "STAGE_CACHE" then check_bytes(key, value, origin)
      when "STAGE_HOME" then complain(key, value, origin, "patterns of names") if value.is_a?(Hash)
      else check_switch(key, value, origin)
      end
    end

    def check_switch(key, value, origin)
      complain(key, value, origin, "true or false") unless (SWITCHED_ON + SWITCHED_OFF).include?(value.to_s.downcase)
    end

    def check_filesystem(key, value, origin)
      complain(key, value, origin, "shared, gfarm or local") unless value.nil? || FILESYSTEMS.key?(value.to_s.downcase)
    end

    def check_words(key, value, origin)
      value.is_a?(Array) || Shellwords.split(value.to_s)
    rescue ArgumentError
      complain(key, value, origin, "words with closed quotes")
    end

    def check_number(key, value, origin, range)
      return if value.to_s.match?(/\A\d+\z/) && range.cover?(value.to_s.to_i)

      complain(key, value, origin, "a whole number from #{range.begin} to #{range.end}")
    end

    def check_bytes(key, value, origin)
      Properties.bytes(value.to_s)
    rescue ConfigurationError
      complain(key, value, origin, "a number of bytes such as 500M or 4G")
    end

    def complain(key, value, origin, expected)
      given = origin == "option" ? "--#{key.downcase.tr("_", "-")} #{value}" : "#{key}=#{value} (#{place(key, origin)})"
      raise ConfigurationError, "#{given}: expected #{expected}"
    end

    # @return [String] where a value came from, of a file with the line that sets the key (the last one wins)
    def place(key, origin)
      return origin unless @files.include?(origin)

      names = YAML.parse_file(origin).root.children.each_slice(2).map(&:first)
      name = names.reverse_each.find { |node| node.scalar? && node.value == key.to_s }
      name ? "#{origin}:#{name.start_line + 1}" : origin
    end
  end
end
