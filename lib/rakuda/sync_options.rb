# frozen_string_literal: true

# The keywords of `sync`: checks them and says what they mean. It knows no task and no engine.

require "rakuda/sync_collect"

module Rakuda
  # What a `sync` statement asks for.
  class SyncOptions
    KEYWORDS = %i[workers over rounds warm_up repeat_late offset stop_after ready_within gate overhead pin cache files
                  collect].freeze
    GATES = %w[auto preload exec call none].freeze
    CACHES = %w[cold warm].freeze
    WORKERS_MAX = 100_000

    # @return [Integer]
    attr_reader :workers, :rounds, :warm_up, :repeat_late, :ready_ms
    # @return [Integer] how many rounds of programs that do nothing come first
    attr_reader :overhead
    # @return [Array] at least one, which may be nil
    attr_reader :parameters
    # @return [Integer, nil]
    attr_reader :stop_ms
    # @return [String] one of GATES
    attr_reader :gate
    # @return [Boolean]
    attr_reader :pin
    # @return [SyncCollect, nil]
    attr_reader :collect
    # @return [String, nil] one of CACHES
    attr_reader :cache

    # @param keywords [Hash{Symbol => Object}]
    # @raise [ConfigurationError]
    def initialize(keywords)
      unknown = keywords.keys - KEYWORDS
      raise ConfigurationError, "unknown keyword #{unknown[0]}; there are #{KEYWORDS.join(", ")}" unless unknown.empty?
      raise ConfigurationError, "workers: is missing: how many begin together?" unless keywords.key?(:workers)

      @workers = count(keywords, :workers, 1, nil, WORKERS_MAX)
      @rounds = count(keywords, :rounds, 1, 1)
      @warm_up = count(keywords, :warm_up, 0, 0)
      @repeat_late = count(keywords, :repeat_late, 0, 0)
      @parameters = parameters_of(keywords.fetch(:over, [nil]))
      @stop_ms = keywords[:stop_after] && milliseconds(:stop_after, keywords[:stop_after])
      @ready_ms = milliseconds(:ready_within, keywords.fetch(:ready_within, 60))
      @offset = offset_of(keywords.fetch(:offset, 0))
      @gate = gate_of(keywords.fetch(:gate, "auto"))
      refuse_ungated_stop
      @overhead = overhead_of(keywords.fetch(:overhead, 1))
      @pin = truth(keywords, :pin)
      @cache = cache_of(keywords[:cache])
      @files = files_of(keywords[:files])
      @collect = keywords[:collect] && SyncCollect.new(keywords[:collect])
    end

    # @param worker [Sync::Worker]
    # @return [Integer] time from the others' instant to its beginning
    def offset_ns(worker)
      value = @offset.respond_to?(:call) ? @offset.call(worker) : @offset
      value = @offset.fetch(worker.id) if @offset.is_a?(Array)
      offset_ns = (seconds(:offset, value) * 1_000_000_000).round
      return offset_ns if @stop_ms.nil? || offset_ns < @stop_ms * 1_000_000

      raise ConfigurationError, "offset: worker #{worker.id} would begin #{value} s after the instant, and stop_after: " \
                                "#{@stop_ms / 1000.0} ends it before: expected a later stop, or a smaller offset"
    end

    # @param worker [Sync::Worker]
    # @return [Array<String>] what it has out of the page cache, or in it, before it waits
    def files(worker)
      return checked_files(Array(@files.call(worker))) if @files.respond_to?(:call)

      @files.map { |file| worker.replace(file) }
    end

    private

    def count(keywords, name, least, default, most = 1_000_000)
      value = keywords.fetch(name, default)
      return value if value.is_a?(Integer) && value.between?(least, most)

      refuse(name, value, "a whole number from #{least} to #{most}")
    end

    def parameters_of(value)
      parameters = value.respond_to?(:to_a) ? value.to_a : nil
      return parameters unless parameters.nil? || parameters.empty?

      refuse(:over, value, "a list of parameters, such as %w[4k 8k 16k]")
    end

    def seconds(name, value)
      return value if (value.is_a?(Integer) || value.is_a?(Float)) && value >= 0 && value <= 1_000_000

      refuse(name, value, "seconds, such as 0.5")
    end

    # Above 0.
    def milliseconds(name, value)
      refuse(name, value, "seconds above 0, such as 0.5") if value.is_a?(Numeric) && value.zero?

      (seconds(name, value) * 1000).ceil
    end

    def offset_of(value)
      return value if value.respond_to?(:call)
      return seconds(:offset, value) unless value.is_a?(Array)
      return value.each { |one| seconds(:offset, one) } if value.size == @workers

      raise ConfigurationError, "offset: expected #{@workers} values, one for each worker, not #{value.size}"
    end

    def gate_of(value)
      GATES.include?(value.to_s) ? value.to_s : refuse(:gate, value, GATES.map { |gate| ":#{gate}" }.join(", "))
    end

    # Without an instant there is none after it.
    def refuse_ungated_stop
      raise ConfigurationError, "stop_after: needs a gate, not gate: :none" if @stop_ms && @gate == "none"
    end

    def overhead_of(value)
      return value ? 1 : 0 if [true, false].include?(value)
      return value if value.is_a?(Integer) && value.between?(0, 1_000_000)

      refuse(:overhead, value, "a number of rounds, true or false")
    end

    def cache_of(value)
      return if value.nil?

      refuse(:cache, value, CACHES.map { |cache| ":#{cache}" }.join(" or ")) unless CACHES.include?(value.to_s)
      # Before these nothing of Rakuda runs in the process.
      return value.to_s unless %w[call none].include?(@gate)

      raise ConfigurationError, "cache: needs a gate that Rakuda holds (:auto, :preload or :exec), not gate: :#{@gate}"
    end

    def files_of(value)
      if @cache.nil? != value.nil?
        raise ConfigurationError, @cache ? "cache: needs files:, such as %w[data.%w]" : "files: is for cache: :cold or :warm"
      end
      value.nil? || value.respond_to?(:call) ? value : checked_files(Array(value))
    end

    def checked_files(files)
      files = files.map { |file| file.respond_to?(:to_path) ? file.to_path : file }
      good = files.all? { |file| file.is_a?(String) && !file.empty? && !file.include?("\0") && file.bytesize < 4096 }
      return files if good && !files.empty?

      refuse(:files, files, "names of files, such as %w[data.%w], or a lambda of the worker that gives them")
    end

    def truth(keywords, name)
      value = keywords.fetch(name, true)
      [true, false].include?(value) ? value : refuse(name, value, "true or false")
    end

    def refuse(name, value, expected)
      raise ConfigurationError, "#{name}: expected #{expected}, not #{value.inspect}"
    end
  end
end
