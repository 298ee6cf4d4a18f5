# frozen_string_literal: true

# The keywords of the statement `needs`: turns them into the map of the message DefineRequirement, or says what is wrong with
# them. It does not know which task they belong to.

module Rakuda
  # What a task needs, and where the Rakefile says so.
  # @!attribute fields [Hash{String => Object}] of DefineRequirement
  # @!attribute place [String, nil] FILE:LINE
  Needed = Struct.new(:fields, :place)

  # Keywords and their values.
  module Needs
    # Each with its name in a description.
    KEYWORDS = { cores: "ncore", memory: "memory", resource: "resource", retry: "retry", exclusive: "exclusive",
                 reserve: "reserve", allow: "allow", deny: "deny", order: "order", steal: "steal" }.freeze
    # Names that people know from elsewhere.
    MEANT = { "ncore" => "cores", "ncores" => "cores", "cpu" => "cores", "cpus" => "cores", "threads" => "cores",
              "nproc" => "cores", "mem" => "memory", "ram" => "memory", "resources" => "resource", "gpu" => "resource",
              "gpus" => "resource", "retries" => "retry" }.freeze
    # Fields of which there may be less than is asked for.
    BOUNDED = %w[cores memory_bytes resources].freeze

    class << self
      # @example
      #   Rakuda::Needs.fields(cores: 2, steal: false) # => {"cores" => 2, "steal" => false}
      # @param keywords [Hash{Symbol => Object}]
      # @return [Hash{String => Object}] fields of DefineRequirement; "strict": those of which all must be there
      # @raise [ConfigurationError]
      def fields(keywords)
        fields = keywords.reduce({}) { |result, (name, value)| result.merge(field(name, value)) }
        fields.merge("strict" => BOUNDED & fields.keys)
      end

      # @param name [String] of a keyword, or of a property in a description
      # @return [Symbol, nil] the keyword that was probably meant
      def near(name)
        word = name.to_s.downcase
        known = KEYWORDS.keys.map(&:to_s) + MEANT.keys
        found = known.find { |one| one == word } || known.find { |one| alike?(one, word) }
        (MEANT[found] || found)&.to_sym
      end

      private

      def field(name, value)
        KEYWORDS.key?(name) or raise ConfigurationError, "unknown keyword #{name}; #{hint(name)}"
        case name
        when :cores, :retry then { name.to_s => number(name, value) }
        when :memory then { "memory_bytes" => bytes(value) }
        when :resource then { "resources" => resources(value) }
        when :allow, :deny then { name.to_s => names(name, value) }
        when :order then { "order" => order(value) }
        else { name.to_s => truth(name, value) }
        end
      end

      def hint(name)
        near = near(name)
        near ? "did you mean #{near}?" : "there are #{KEYWORDS.keys.join(", ")}"
      end

      def number(name, value)
        least = name == :cores ? 1 : 0
        return value if value.is_a?(Integer) && value.between?(least, Properties::COUNT_MAX)

        refuse(name, value, "a whole number from #{least} to #{Properties::COUNT_MAX}")
      end

      def bytes(value)
        Properties.bytes(value.is_a?(Integer) || value.is_a?(String) ? value : "")
      rescue ConfigurationError
        refuse(:memory, value, 'a number of bytes, such as "512M" or "4G"')
      end

      def resources(value)
        return value.to_h { |name, count| resource(name, count) } if value.is_a?(Hash) && !value.empty?

        texts = Array(value).map { |one| one.is_a?(Symbol) ? one.to_s : one }
        raise ConfigurationError if texts.empty? || !texts.all?(String)

        texts.map { |text| Properties.resources(text) }.reduce(:merge)
      rescue ConfigurationError
        refuse(:resource, value, 'a name and a count, such as "gpu:1" or { gpu: 1 }')
      end

      def resource(name, count)
        raise ConfigurationError unless Properties::NAME.match?(name.to_s) && count.is_a?(Integer) &&
                                        count.between?(0, Properties::COUNT_MAX)

        [name.to_s, count]
      end

      def names(keyword, value)
        names = value.is_a?(Array) ? value : [value]
        names = names.flat_map { |name| name.is_a?(String) ? name.split(",") : [nil] }
        return names unless names.empty? || !names.all? { |name| name&.match?(/\S/) }

        refuse(keyword, value, 'names of hosts, such as "h1*,h2" or %w[h1* h2]')
      end

      def order(value)
        text = value.is_a?(String) ? value.downcase.delete(" ") : value
        %w[allow,deny deny,allow].include?(text) ? text : refuse(:order, value, '"allow,deny" or "deny,allow"')
      end

      def truth(name, value)
        [true, false].include?(value) ? value : refuse(name, value, "true or false")
      end

      def refuse(name, value, expected)
        raise ConfigurationError, "#{name}: expected #{expected}, not #{value.inspect}"
      end

      # Whether one letter, or for long words two, makes the difference; two that have changed places are one.
      def alike?(known, word)
        return false if word.size < 3 || (known.size - word.size).abs > 2

        distance(known, word) <= (known.size < 6 ? 1 : 2)
      end

      # The distance of Damerau and Levenshtein, with letters that have changed places counted once.
      def distance(one, other)
        before = nil
        row = (0..other.size).to_a
        one.each_char.with_index do |letter, i|
          following = [i + 1]
          other.each_char.with_index do |with, j|
            costs = [row[j + 1] + 1, following[j] + 1, row[j] + (letter == with ? 0 : 1)]
            swapped = i.positive? && j.positive? && letter == other[j - 1] && one[i - 1] == with
            costs << (before[j - 1] + 1) if swapped
            following << costs.min
          end
          before = row
          row = following
        end
        row.last
      end
    end
  end
end
