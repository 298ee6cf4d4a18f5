# frozen_string_literal: true

# Figures that the programs of a `sync` print: what is looked for, and what is found in the output of one worker. It
# starts nothing and knows no round.

require "json"

module Rakuda
  # What `collect:` says.
  class SyncCollect
    # A number as programs print it.
    NUMBER = /\A[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[-+]?\d+)?\z/i
    # Name of all numbers of a JSON object.
    ALL = "*"
    # Of an object with more of them none is taken.
    NUMBERS_MAX = 1000
    EXPECTED = "patterns with one group for the number, such as { bandwidth: /BW=(\\d+)/ }, or :json"

    # @return [Array<String>] of the figures; ALL alone: those of an object
    attr_reader :names

    # From words: of the command line, of the environment, or of a configuration.
    # @example
    #   SyncCollect.from_words(["bandwidth=BW=(\\d+)"])
    # @param words [Array<String>] NAME=REGEX, or `json` alone
    # @return [Hash{String => String}, Symbol] a value for {#initialize}
    # @raise [ConfigurationError]
    def self.from_words(words)
      return :json if words == ["json"]

      words.to_h do |word|
        name, equals, pattern = word.partition("=")
        raise ConfigurationError, "collect: expected NAME=REGEX, or json alone, not #{word}" if equals.empty? || name.empty?

        [name, pattern]
      end
    end

    # @param value [Hash{Symbol, String => Regexp, String}, Symbol, String]
    # @raise [ConfigurationError]
    def initialize(value)
      if value.to_s == "json"
        @names = [ALL]
        @patterns = nil
      else
        raise ConfigurationError, "collect: expected #{EXPECTED}, not #{value.inspect}" unless value.is_a?(Hash) && !value.empty?

        @patterns = value.to_h { |name, pattern| [checked_name(name), checked(name, pattern)] }
        @names = @patterns.keys
      end
    end

    # @param output [String] all that a worker has printed, as far as it is kept
    # @return [Hash{String => Float}] what was found; a figure that was not is not there
    def values(output)
      text = output.dup.force_encoding(Encoding::UTF_8).scrub
      @patterns ? matched(text) : numbers(text)
    end

    private

    def checked_name(name)
      text = name.to_s
      return text if text.match?(/\A[[:alpha:]_][[:word:].\/-]*\z/)

      raise ConfigurationError, "collect: expected a name of letters, digits, _, ., / and -, not #{name.inspect}"
    end

    def checked(name, pattern)
      pattern = Regexp.new(pattern) if pattern.is_a?(String)
      refuse(name, pattern) unless pattern.is_a?(Regexp)
      "é".match(pattern)
      # What matches all has as many groups as the pattern.
      groups = Regexp.union(pattern, //).match("").size - 1
      return pattern if groups == 1

      raise ConfigurationError, "collect: #{name}: expected one group for the number, and #{pattern.inspect} has #{groups}"
    rescue RegexpError, Encoding::CompatibilityError => e
      raise ConfigurationError, "collect: #{name}: no pattern: #{e.message}"
    end

    def refuse(name, pattern)
      raise ConfigurationError, "collect: #{name}: expected a pattern, such as /BW=(\\d+)/, not #{pattern.inspect}"
    end

    # What a program prints last is what it says at its end.
    def matched(text)
      @patterns.each_with_object({}) do |(name, pattern), found|
        last = text.scan(pattern).last&.first
        found[name] = Float(last.sub(/\A(-?)\./, '\10.').sub(/\.(?=\z|e)/i, "")) if last&.match?(NUMBER)
      end.select { |_, value| value.finite? }
    end

    def numbers(text)
      object = text.each_line.reverse_each.lazy.filter_map { |line| object_in(line) }.first
      # What stands before it and behind it are messages.
      object ||= object_in(text[/^\s*\{.*^\s*\}/m].to_s)
      found = flat(object || {}).to_h
      found.size > NUMBERS_MAX ? {} : found
    end

    # @return [Array<Array(String, Float)>] all numbers, by their ways from the object
    def flat(value, way = [])
      case value
      when Hash then value.flat_map { |name, one| flat(one, [*way, name]) }
      when Array then value.each_with_index.flat_map { |one, index| flat(one, [*way, index]) }
      when Numeric then value.to_f.finite? ? [[way.join("."), value.to_f]] : []
      else []
      end
    end

    def object_in(text)
      return unless text.start_with?(/\s*\{/)

      object = JSON.parse(text)
      object if object.is_a?(Hash)
    rescue JSON::ParserError
      nil
    end
  end
end
