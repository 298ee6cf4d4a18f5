# frozen_string_literal: true

# What may be said of a task that streams join: how much it computes and what it prints and reads (the "meta program" of
# MegaScript, 2005). It checks words and values; places and routes are chosen by the engine.

module Rakuda
  # What is known of a task before it runs.
  module StreamMeta
    NUMBER = "a number above 0 and up to 10^15"
    NUMBER_MAX = 10**15
    VOLUME = "bytes or bytes a second, such as \"20MB\" or \"1.5MB/s\", with B, KB, MB or GB"
    PATTERNS = %w[steady burst].freeze
    # Each with what is expected of its value.
    EXPECTED = { cost: "#{NUMBER}: computing, in any unit", output: VOLUME, input: VOLUME,
                 frequency: "#{NUMBER}: messages a second", pattern: PATTERNS.map { |word| ":#{word}" }.join(" or ") }.freeze
    KEYWORDS = EXPECTED.keys.freeze
    # As the engine reads it (`crates/hub/src/streams/places.rs`).
    VOLUME_TEXT = %r{\A\d{1,15}(?:\.\d+)?\s*(?:B|KB|kB|MB|GB)(?:/s)?\z}.freeze

    class << self
      # @example
      #   Rakuda::StreamMeta.mistake(pattern: nil) # => "pattern: expected :steady or :burst, not nil"
      # @param meta [Hash{Symbol, String => Object}]
      # @return [String, nil] what is wrong first
      def mistake(meta)
        meta.each do |key, value|
          word = key.to_s.to_sym
          return "unknown keyword #{key}; there are #{KEYWORDS.join(", ")}" unless EXPECTED.key?(word)
          return "#{key}: expected #{EXPECTED[word]}, not #{value.inspect}" unless good?(word, value)
        end
        nil
      end

      # @example
      #   Rakuda::StreamMeta.texts(cost: 1r/3, output: "1MB/s") # => { "cost" => "0.333", "output" => "1MB/s" }
      # @param meta [Hash{Symbol, String => Object}] without a mistake
      # @return [Hash{String => String}] as the engine reads it: numbers in decimal, with three places or none
      def texts(meta)
        meta.to_h do |key, value|
          is_number = %w[cost frequency].include?(key.to_s) && !/\A\d+\z/.match?(value.to_s)
          [key.to_s, is_number ? format("%.3f", Float(value)) : value.to_s]
        end
      end

      private

      def good?(word, value)
        case word
        when :cost, :frequency then number?(value)
        when :pattern then PATTERNS.include?(value.to_s)
        else value.is_a?(String) && VOLUME_TEXT.match?(value)
        end
      end

      def number?(value)
        value = Float(value, exception: false) if value.is_a?(String)
        (value.is_a?(Integer) || value.is_a?(Float) || value.is_a?(Rational)) && value.positive? && value <= NUMBER_MAX
      end
    end
  end
end
