# frozen_string_literal: true

# Task properties as Pwrake writes them: `desc "ncore=2 exclusive=yes retry=3"`. Turns text into the map of the
# message DefineRequirement. It does not know which task they belong to.

module Rakuda
  # The properties of one description.
  module Properties
    # A description holds properties when a word of it begins with one of these names.
    NAMES = %w[ncore exclusive reserve allow deny order steal retry memory resource where prefer locality].freeze
    # Expressions with blanks stand in double quotes.
    WORD = /(?:\A|\s)(#{NAMES.join('|')})=("[^"]+"|\S+)/.freeze
    NAME = /\A\w[\w.-]*\z/.freeze
    # What the protocol has room for.
    COUNT_MAX = (1 << 32) - 1
    BYTES_MAX = (1 << 64) - 1
    # Such a word may be a property that was written wrongly. (In capitals it is a variable of the environment.)
    OTHER_WORD = /(?:\A|\s)([A-Za-z][a-z]\w*)=(\S+?),?(?=\s|\z)/.freeze
    YES = /\A(?:y|yes|t|true|on|1)\z/i.freeze
    NO = /\A(?:n|no|f|false|off|0)\z/i.freeze
    UNITS = { "" => 1, "k" => 1 << 10, "m" => 1 << 20, "g" => 1 << 30, "t" => 1 << 40 }.freeze

    class << self
      # @example
      #   Rakuda::Properties.parse("ncore=2 steal=no") # => {"cores" => 2, "steal" => false}
      # @param text [String, nil] a description
      # @return [Hash{String => Object}, nil] fields of DefineRequirement; nil when the text has no property
      # @yieldparam complaint [String] about a word whose value means nothing: it stays a part of the description
      # @raise [ConfigurationError] in place of that, without a block
      def parse(text)
        return nil unless text.is_a?(String) && text.include?("=")

        mistaken(text).each { |complaint| yield complaint } if block_given?
        result = {}
        text.scan(WORD) do |name, value|
          result.update(field(name, value)) { |key, old, new| merge(key, old, new) }
        rescue ConfigurationError => e
          block_given? ? yield(e.message) : raise
        end
        result.empty? ? nil : result
      end

      # @param text [String] a number of bytes, such as "512M" or "4GiB"
      # @return [Integer]
      def bytes(text)
        match = /\A(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\z/i.match(text.to_s)
        raise ConfigurationError, "not a number of bytes: #{text} (for example 512M or 4G)" unless match

        bytes = (match[1].to_r * UNITS.fetch(match[2].downcase)).to_i
        raise ConfigurationError, "too many bytes: #{text} (at most 16777215T)" if bytes > BYTES_MAX

        bytes
      end

      # @param bytes [Integer]
      # @return [String] the shortest text that {bytes} takes for this number
      #
      #   Rakuda::Properties.text_of_bytes(200 << 20) # => "200M"
      def text_of_bytes(bytes)
        unit, size = UNITS.to_a.reverse.find { |_, one| (bytes % one).zero? && bytes >= one } || UNITS.first
        "#{bytes / size}#{unit.upcase}"
      end

      # @param text [String] "NAME:COUNT" or "NAME", several with commas
      # @return [Hash{String => Integer}]
      def resources(text)
        text.split(",").to_h do |item|
          name, count = item.split(/[:=]/, 2)
          raise ConfigurationError, "#{item}: expected a name and a count" unless NAME.match?(name)

          [name, count ? number(name, count, 0) : 1]
        end
      end

      private

      # @return [Array<String>] what is to be said of words that are nearly a property, and have a value that fits it
      def mistaken(text)
        text.scan(OTHER_WORD).filter_map do |name, value|
          near = NAMES.include?(name) ? nil : Needs.near(name)
          property = Needs::KEYWORDS[near] or next
          # Any text fits these.
          next if %w[where prefer].include?(property)

          field(property, value)
          "#{name}=#{value} is no property (did you mean #{property}=#{value}?)"
        rescue ConfigurationError
          next
        end
      end

      def merge(key, old, new)
        key == "resources" || new.is_a?(Array) ? (old.is_a?(Hash) ? old.merge(new) : old + new) : new
      end

      def field(name, value)
        case name
        when "ncore" then { "cores" => number(name, value, 1) }
        when "retry" then { "retry" => number(name, value, 0) }
        when "exclusive", "reserve", "steal", "locality" then { name => truth(name, value) }
        when "allow", "deny" then { name => value.split(",") }
        when "order" then { "order" => order(value) }
        when "memory" then { "memory_bytes" => bytes(value) }
        when "where", "prefer" then { name => value.delete_prefix('"').delete_suffix('"') }
        else { "resources" => resources(value) }
        end
      end

      def number(name, value, least)
        number = Integer(value, 10, exception: false)
        return number if number&.between?(least, COUNT_MAX)

        raise ConfigurationError, "#{name}=#{value}: expected a whole number from #{least} to #{COUNT_MAX}"
      end

      def truth(name, value)
        return true if YES.match?(value)
        return false if NO.match?(value)

        raise ConfigurationError, "#{name}=#{value}: expected yes or no"
      end

      def order(value)
        text = value.downcase.delete(" ")
        return text if %w[allow,deny deny,allow].include?(text)

        raise ConfigurationError, "order=#{value}: expected allow,deny or deny,allow"
      end
    end
  end
end
