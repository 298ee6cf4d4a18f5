# frozen_string_literal: true

# Patterns of `needs outputs:` and `needs inputs:`: says what is wrong with them. What they mean is the engine's
# business (crates/core/src/files).

module Rakuda
  # Lists of names, and of what is added to names.
  module FilePatterns
    # Longer lists and patterns are refused.
    COUNT_MAX = 1000
    BYTES_MAX = 4096

    class << self
      # @example
      #   Rakuda::FilePatterns.of(:outputs, "ref.fa.*") # => ["ref.fa.*"]
      #   Rakuda::FilePatterns.of(:inputs, %w[.bai ^.dict]) # => [".bai", "^.dict"]
      # @param keyword [Symbol] outputs or inputs
      # @param value [Object] a pattern, or a list of them; an empty one: none
      # @return [Array<String>]
      # @raise [ConfigurationError]
      def of(keyword, value)
        list = value.is_a?(Array) || (value.respond_to?(:to_ary) && !value.is_a?(String)) ? value.to_ary : [value]
        refuse(keyword, "at most #{COUNT_MAX} patterns, not #{list.size}") if list.size > COUNT_MAX
        list.map { |one| pattern(keyword, one) }.uniq
      end

      private

      def pattern(keyword, value)
        unless value.is_a?(String) || value.respond_to?(:to_path)
          refuse(keyword, "patterns of file names, such as \"ref.fa.*\" or %w[.bai ^.dict], not #{value.inspect}")
        end
        text = value.respond_to?(:to_path) ? value.to_path : value
        wrong = wrong_with(text) or return text
        refuse(keyword, "#{wrong}, not #{text.inspect}")
      end

      # @return [String, nil] what is expected instead
      def wrong_with(text)
        parts = text.b.split("/", -1)
        if text.empty? || text.bytesize > BYTES_MAX || text.b.include?("\0")
          "patterns of 1 to #{BYTES_MAX} bytes"
        elsif text.start_with?("/") || parts.include?("..") then "names in the run's folder"
        elsif text.match?(/[\[\]{}\\]/n.freeze) then "* and ? as wildcards (write alternatives as a list)"
        elsif parts[0...-1].any? { |part| part.match?(/[*?]/n) } then "wildcards in the last part of the name only"
        elsif ["", "."].include?(parts.last) then "names of files"
        elsif text.match?(/\A\^+\z/n) then "something after ^, such as \"^.dict\""
        elsif suffix_with_folder?(text) then "something without / after ^ or a dot"
        end
      end

      def suffix_with_folder?(text)
        text.match?(/\A(?:\^|\.[^\/.])/n) && text.b.include?("/")
      end

      def refuse(keyword, expected)
        raise ConfigurationError, "#{keyword}: expected #{expected}"
      end
    end
  end
end
