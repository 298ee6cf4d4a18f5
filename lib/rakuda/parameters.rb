# frozen_string_literal: true

# What an action depends on by declaration (`needs params: [...]`): values in a form that is the same in every version
# of Ruby, in every process, and for equal values only. It does not know what the values are for.

module Rakuda
  # Values as text.
  module Parameters
    # Longer values are refused: each goes to the engine as it is.
    BYTES_MAX = 1024 * 1024
    # Deeper ones, too; a list that holds itself has no end.
    DEPTH_MAX = 100

    class << self
      # @example
      #   Rakuda::Parameters.of(["-O2", 3])     # => [["1", "\"-O2\""], ["2", "3"]]
      #   Rakuda::Parameters.of({ level: "-O2" }) # => [["level", "\"-O2\""]]
      # @param value [Object] values by name, a list of them, or one
      # @return [Array<Array(String, String)>] names, or places from 1, and texts
      # @raise [ConfigurationError]
      def of(value)
        named = case value
                when Hash then value
                when Array then value.each.with_index(1).to_h { |one, place| [place, one] }
                else { 1 => value }
                end
        named.map { |name, one| [name(name), limited(text(one, 0))] }.freeze
      end

      private

      def name(name)
        return name.to_s if name.is_a?(String) || name.is_a?(Symbol) || name.is_a?(Integer)

        refuse("names that are symbols or strings", name)
      end

      def limited(text)
        return text if text.bytesize <= BYTES_MAX

        raise ConfigurationError, "params: expected values of at most 1 MiB, not one of #{text.bytesize} bytes"
      end

      def text(value, depth)
        raise ConfigurationError, "params: expected at most #{DEPTH_MAX} lists in one another" if depth > DEPTH_MAX

        case value
        when String then quoted(value)
        when Symbol then ":#{quoted(value.name)}"
        when Integer, Float, Rational, true, false, nil then value.inspect
        when Array then "[#{value.map { |one| text(one, depth + 1) }.join(", ")}]"
        when Hash then "{#{pairs(value, depth).join(", ")}}"
        else refuse("strings, symbols, numbers, true, false, nil, and lists and hashes of them", value)
        end
      end

      # In an order of their own: equal hashes may have been filled in another one.
      def pairs(hash, depth)
        hash.map { |key, value| "#{text(key, depth + 1)} => #{text(value, depth + 1)}" }.sort
      end

      # Not `inspect`, which depends on the encodings of the process.
      def quoted(string)
        text = string.dup.force_encoding(Encoding::UTF_8)
        text.force_encoding(Encoding::BINARY) unless text.valid_encoding?
        special = text.encoding == Encoding::UTF_8 ? /["\\\x00-\x1f\x7f]/ : /["\\\x00-\x1f\x7f-\xff]/n
        %("#{text.gsub(special) { |one| one.match?(/["\\]/) ? "\\#{one}" : "\\x#{one.unpack1("H*")}" }}")
      end

      def refuse(expected, value)
        raise ConfigurationError, "params: expected #{expected}, not #{Object.instance_method(:class).bind_call(value).inspect}"
      end
    end
  end
end
