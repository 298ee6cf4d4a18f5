# frozen_string_literal: true

# The keywords of the statement `needs`: turns them into the map of the message DefineRequirement, the list of
# DefineParameters and the map of DefineFiles, or says what is wrong with them. It does not know which task they belong
# to.

require "rakuda/file_patterns"
require "rakuda/parameters"
require "rakuda/task_environment"

module Rakuda
  # What a task needs, and where the Rakefile says so.
  # @!attribute fields [Hash{String => Object}] of DefineRequirement
  # @!attribute place [String, nil] FILE:LINE
  # @!attribute parameters [Array<Array(String, String)>, nil] names and values of `params`
  # @!attribute files [Hash{String => Object}, nil] of DefineFiles
  # @!attribute environment [TaskEnvironment, nil] what its commands run in
  Needed = Struct.new(:fields, :place, :parameters, :files, :environment) do
    # @return [Boolean] whether a node must have anything for it
    def requirement?
      fields.any? { |name, _| name != "strict" }
    end

    # What the action depends on: the environment, too. Asked when a task is planned; the same list each time.
    # @yieldparam name [String] of a file of the environment
    # @yieldreturn [Boolean] whether a task makes it
    # @return [Array<Array(String, String)>, nil]
    # @raise [RakefileError]
    def depended_on(&makes)
      @depended_on ||= environment ? Needs.with_environment(parameters, environment.text(&makes)) : parameters
    rescue ConfigurationError => e
      raise RakefileError, "#{place}: needs: #{e.message}"
    end
  end

  # Keywords and their values.
  module Needs
    # Each with its name in a description, where it has one.
    KEYWORDS = { cores: "ncore", nodes: nil, memory: "memory", resource: "resource", retry: "retry", retry_delay: nil,
                 exclusive: "exclusive", reserve: "reserve", allow: "allow", deny: "deny", order: "order", steal: "steal",
                 where: "where", prefer: "prefer", locality: "locality", params: nil, outputs: nil, inputs: nil, env: nil }.freeze
    # Names that people know from elsewhere.
    MEANT = { "ncore" => "cores", "ncores" => "cores", "cpu" => "cores", "cpus" => "cores", "threads" => "cores",
              "node" => "nodes", "hosts" => "nodes",
              "nproc" => "cores", "mem" => "memory", "ram" => "memory", "resources" => "resource", "gpu" => "resource",
              "gpus" => "resource", "retries" => "retry", "parameters" => "params", "secondary" => "outputs",
              "secondary_files" => "outputs", "environment" => "env", "container" => "env", "conda" => "env",
              "module" => "env", "venv" => "env", "require" => "where", "requirements" => "where", "constraint" => "where",
              "condition" => "where", "rank" => "prefer", "preference" => "prefer" }.freeze
    # The longest expression of the engine, bytes.
    EXPRESSION_BYTES_MAX = 4096
    # The name under which the environment stands among the parameters of a task.
    ENVIRONMENT = "needs env"
    # Maximum attempts that a lambda for `memory` is asked about. Later ones need what the last of these does.
    ATTEMPTS_ASKED_MAX = 100
    # Milliseconds of the units of a time.
    TIME_UNITS = { "ms" => 1, "" => 1000, "s" => 1000, "m" => 60_000, "min" => 60_000, "h" => 3_600_000 }.freeze
    TIME = /\A(\d+(?:\.\d+)?) ?(ms|s|min|m|h|)\z/.freeze
    RETRY_DELAY_MS_MAX = 7 * 24 * 3_600_000
    BYTES = 'a number of bytes, such as "512M" or "4G"'
    # Fields of which there may be less than is asked for.
    BOUNDED = %w[cores memory_bytes resources where prefer].freeze

    class << self
      # @example
      #   Rakuda::Needs.fields(cores: 2, steal: false) # => {"cores" => 2, "steal" => false}
      # @param keywords [Hash{Symbol => Object}]
      # @return [Hash{String => Object}] fields of DefineRequirement; "strict": those of which all must be there. And
      #   "params", "outputs", "inputs" and "env"
      # @raise [ConfigurationError]
      def fields(keywords)
        fields = keywords.reduce({}) { |result, (name, value)| result.merge(field(name, value)) }
        fields.merge("strict" => BOUNDED & fields.keys)
      end

      # Asks a lambda that says how much memory an attempt needs.
      # @example
      #   Rakuda::Needs.memory_by_attempt(->(attempt) { attempt * 1000 }, 2) # => [1000, 2000, 3000]
      # @param retries [Integer] attempts after the first
      # @return [Array<Integer>] bytes for each attempt; the last holds for all that come after it
      # @raise [ConfigurationError]
      def memory_by_attempt(lambda, retries)
        asked = [retries + 1, ATTEMPTS_ASKED_MAX].min
        list = (1..asked).map do |attempt|
          value = lambda.call(attempt)
          number_of_bytes(value) or refuse("memory, for attempt #{attempt}", value, BYTES)
        end
        list.pop while list.size > 1 && list[-1] == list[-2]
        list
      end

      # @param fields [Hash{String => Object}] with the bytes of each attempt as "memory_bytes", or not
      # @return [Array<Hash{String => Object}>] what each attempt needs. What later ones need may be more than there is:
      #   they may never come, and get what there is
      def by_attempt(fields)
        memory = fields["memory_bytes"]
        return [fields] unless memory.is_a?(Array)

        memory.each_with_index.map do |bytes, index|
          next fields.merge("memory_bytes" => bytes) if index.zero?

          fields.merge("memory_bytes" => bytes, "later" => true, "strict" => fields["strict"] - ["memory_bytes"])
        end
      end

      # @param parameters [Array<Array(String, String)>, nil] of `params`
      # @param environment [String] as text
      # @return [Array<Array(String, String)>] what the action depends on
      def with_environment(parameters, environment)
        [*parameters, [ENVIRONMENT, environment]].freeze
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
        when :cores, :nodes, :retry then { name.to_s => number(name, value) }
        when :memory then { "memory_bytes" => value.is_a?(Proc) ? of_attempt(value) : bytes(value) }
        when :retry_delay then { "retry_delay_ms" => milliseconds(name, value) }
        when :resource then { "resources" => resources(value) }
        when :allow, :deny then { name.to_s => names(name, value) }
        when :order then { "order" => order(value) }
        when :where, :prefer then { name.to_s => expression(name, value) }
        when :params then { "params" => Parameters.of(value) }
        when :env then { "env" => TaskEnvironment.new(value, Dir.pwd) }
        when :outputs, :inputs then { name.to_s => FilePatterns.of(name, value) }
        else { name.to_s => truth(name, value) }
        end
      end

      def hint(name)
        near = near(name)
        near ? "did you mean #{near}?" : "there are #{KEYWORDS.keys.join(", ")}"
      end

      def number(name, value)
        least = name == :retry ? 0 : 1
        return value if value.is_a?(Integer) && value.between?(least, Properties::COUNT_MAX)

        refuse(name, value, "a whole number from #{least} to #{Properties::COUNT_MAX}")
      end

      def bytes(value)
        number_of_bytes(value) or refuse(:memory, value, "#{BYTES}, or a lambda that takes the number of the attempt")
      end

      def of_attempt(value)
        return value if !value.lambda? || [1, -1, -2].include?(value.arity)

        raise ConfigurationError, "memory: expected a lambda that takes the number of the attempt, such as " \
                                  "->(attempt) { attempt * (2 << 30) }, not one of #{value.parameters.size} parameters"
      end

      def number_of_bytes(value)
        Properties.bytes(value.is_a?(Integer) || value.is_a?(String) ? value : "")
      rescue ConfigurationError
        nil
      end

      def milliseconds(name, value)
        number, unit = TIME.match(value.to_s)&.captures if value.is_a?(Numeric) || value.is_a?(String)
        time = (Float(number) * TIME_UNITS.fetch(unit)).round if number
        return time if time&.between?(0, RETRY_DELAY_MS_MAX)

        refuse(name, value, 'a time of at most a week, such as "500ms", "10s" or "2m"')
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

      # What it means is the engine's business, which knows the attributes.
      def expression(name, value)
        return value if value.is_a?(String) && value.match?(/\S/) && value.bytesize <= EXPRESSION_BYTES_MAX

        example = name == :where ? "mem_available > 8GiB && load1 < 2" : "-load1"
        refuse(name, value, "an expression of at most #{EXPRESSION_BYTES_MAX} bytes, such as \"#{example}\"")
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
