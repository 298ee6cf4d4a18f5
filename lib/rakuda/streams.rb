# frozen_string_literal: true

# Streams of a Rakefile: what `stream` says, which tasks it joins, and the components that follow
# (docs/design/streams.md). It does not know when anything runs; the engine passes bytes on.

require "rakuda/stream_meta"

module Rakuda
  # All streams of an application.
  class Streams
    # One statement.
    # @!attribute options [Hash{Symbol => Object}] checked
    # @!attribute from [Array<String, Rake::Task>] names, patterns and tasks
    # @!attribute place [String, nil] FILE:LINE
    # @!attribute scope the namespace in which it stands
    Definition = Struct.new(:name, :from, :to, :options, :place, :scope)

    # One stream with its tasks.
    # @!attribute meta [Hash{String => Hash}] what is said of them, by their names
    Stream = Struct.new(:definition, :writers, :readers, :meta) do
      # @return [String] as it was named
      def name = definition.name

      # @return [Array<Rake::Task>]
      def tasks = writers + readers

      # @return [Hash] of the message DefineComponent
      def fields
        options = definition.options
        { "name" => name.b, "record" => options[:record], "window" => options[:window],
          "spool_max" => options[:spool_max], "spill" => options[:slow] == "spill" ? options[:spill] : 0,
          "drain" => options[:on_close] == "drain", "writers" => writers.map(&:rakuda_number),
          "readers" => readers.map(&:rakuda_number), "place" => definition.place.to_s.b, "meta" => meta }
      end
    end

    # Tasks that streams join, and these streams, each in the order of the Rakefile.
    Component = Struct.new(:tasks, :streams) do
      # @return [Boolean] whether its members run one after the other, over spools
      def spooled? = streams.any? { |stream| stream.definition.options[:replay] != "gang" }

      # @return [Boolean] whether what a task prints may come back to it
      def cyclic?
        waiting = streams.dup
        loop do
          first = waiting.find do |stream|
            stream.writers.none? { |task| waiting.any? { |other| other.readers.any? { |one| one.equal?(task) } } }
          end
          return !waiting.empty? unless first

          waiting.delete_if { |stream| stream.equal?(first) }
        end
      end

      # @return [Hash] of the message DefineComponent; its tasks have numbers
      def definition(spooled)
        { "members" => tasks.map(&:rakuda_number), "streams" => streams.map(&:fields), "spooled" => spooled }
      end
    end

    RECORDS = { line: "line", nul: "nul", raw: "raw" }.freeze
    REPLAYS = %w[gang journal atomic].freeze
    ON_CLOSE = %w[sigpipe drain].freeze
    SLOW = %w[block spill].freeze
    DEFAULTS = { record: "line", window: 0, spool_max: 0, on_close: "sigpipe", replay: "gang", slow: "block",
                 spill: 1 << 30, meta: {} }.freeze
    KEYWORDS = %i[from to record window slow spill spool_max on_close replay meta].freeze
    WINDOW = (2 << 20..1 << 30).freeze
    SPILL = (16 << 20..16 << 40).freeze
    SPOOL_MAX = (1 << 20..16 << 40).freeze
    RECORD_BYTES_MAX = 1 << 30
    PATTERN = /[*?\[{]/.freeze

    def initialize
      @definitions = []
      @components = nil
      @joined = 0
      @own = {}.compare_by_identity # task => the gang that it is in because of a stream
    end

    # @return [Boolean] whether there are none
    def empty? = @definitions.empty?

    # Takes a statement.
    # @raise [ConfigurationError]
    def define(arguments, keywords, place, scope)
      unless arguments.size == 1 && (arguments[0].is_a?(Symbol) || (arguments[0].is_a?(String) && !arguments[0].empty?))
        raise ConfigurationError, "expected a name and keywords, such as `stream :lines, from: %w[a b], to: \"c\"`"
      end

      name = arguments[0].to_s
      if (other = @definitions.find { |one| one.name == name })
        raise ConfigurationError, "#{name}: there is a stream of that name already (#{other.place})"
      end

      options = DEFAULTS.merge(keywords.except(:from, :to).to_h { |key, value| option(name, key, value) })
      check_slow(name, options, keywords)
      from, to = %i[from to].map { |key| ends(name, key, keywords[key]) }
      @definitions << Definition.new(name, from, to, options, place, scope)
      @components = nil
    end

    # Finds the tasks of all streams, once.
    # @param application [Rake::Application]
    # @raise [RakefileError]
    # @return [Array<Component>]
    def components(application)
      @components ||= join(@definitions.map { |definition| find_tasks(definition, application) })
    end

    # @return [Boolean] whether a stream joins the task to others
    def joins?(task) = @own.key?(task)

    # @return [Stream, nil] the one that the task writes into
    def written_by(task)
      return unless joins?(task)

      @components&.each do |component|
        found = component.streams.find { |stream| stream.writers.any? { |writer| writer.equal?(task) } }
        return found if found
      end
      nil
    end

    # @return [Boolean] whether all of them are gangs
    def joined? = @joined == @definitions.size

    # Makes each component a gang.
    # @return [Hash{Gang => Component}]
    # @raise [RakefileError]
    def join_gangs(application)
      fresh = components(application).reject { |component| component.tasks.all? { |task| @own.key?(task) } }
      fresh.to_h do |component|
        refuse_spill(component) if component.spooled?
        spooled = application.spools?(component)
        refuse_cycle(component) if spooled && component.cyclic?
        gang = application.gangs.define(component.tasks, oversubscribe: spooled || application.shares_cores?)
        component.tasks.each { |task| @own[task] = gang }
        [gang, component]
      rescue RakefileError
        raise
      rescue ConfigurationError => e
        wrong(component.streams.first.definition, e.message)
      end.tap { @joined = @definitions.size }
    end

    private

    def option(name, key, value)
      case key
      when :record then [:record, record(name, value)]
      when :window then [:window, bytes(name, key, value, WINDOW, "\"2M\" to \"1G\"")]
      when :slow then [:slow, one_of(name, key, value, SLOW)]
      when :spill then [:spill, bytes(name, key, value, SPILL, "\"16M\" to \"16T\"")]
      when :spool_max then [:spool_max, bytes(name, key, value, SPOOL_MAX, "\"1M\" to \"16T\"")]
      when :on_close then [:on_close, one_of(name, key, value, ON_CLOSE)]
      when :replay then [:replay, one_of(name, key, value, REPLAYS)]
      when :meta then [:meta, meta(name, value)]
      else raise ConfigurationError, "#{name}: unknown keyword #{key}; there are #{KEYWORDS.join(", ")}"
      end
    end

    # What would have no effect.
    def check_slow(name, options, keywords)
      if keywords.key?(:spill) && options[:slow] != "spill"
        raise ConfigurationError, "#{name}: spill: says how much `slow: :spill` may keep on disk; add slow: :spill, " \
                                  "or leave it out"
      end
      return unless options[:slow] == "spill" && options[:replay] != "gang"

      raise ConfigurationError, "#{name}: slow: :spill is for readers that run beside one another; with " \
                                "replay: :#{options[:replay]} each reads a file of its own; leave one of the two out"
    end

    def record(name, value)
      return RECORDS[value.to_sym] if value.respond_to?(:to_sym) && RECORDS.key?(value.to_sym)

      bytes = value[:bytes] if value.is_a?(Hash) && value.keys == [:bytes]
      return { "bytes" => bytes } if bytes.is_a?(Integer) && bytes.between?(1, RECORD_BYTES_MAX)

      refuse(name, :record, value, ":line, :nul, :raw, or { bytes: N } with N from 1 to #{RECORD_BYTES_MAX}")
    end

    def bytes(name, key, value, range, words)
      bytes = value.is_a?(Integer) ? value : Properties.bytes(value.to_s)
      return bytes if range.cover?(bytes)

      raise ConfigurationError
    rescue ConfigurationError
      refuse(name, key, value, "a number of bytes from #{words}")
    end

    def one_of(name, key, value, words)
      text = value.to_s
      words.include?(text) ? text : refuse(name, key, value, words.map { |word| ":#{word}" }.join(" or "))
    end

    def meta(name, value)
      unless value.is_a?(Hash) && value.values.all?(Hash)
        refuse(name, :meta, value, "a hash by task, such as { \"sim\" => { cost: 10, output: \"1MB/s\" } }")
      end
      value.each do |task, of|
        mistake = StreamMeta.mistake(of)
        raise ConfigurationError, "#{name}: meta: #{task}: #{mistake}" if mistake
      end
      value.to_h { |task, of| [task.to_s, StreamMeta.texts(of)] }
    end

    def ends(name, key, value)
      list = value.respond_to?(:to_ary) ? value.to_ary : [value]
      good = ->(one) { one.is_a?(Rake::Task) || one.is_a?(Symbol) || (one.is_a?(String) && !one.empty?) }
      if value.nil? || list.empty? || !list.all?(&good)
        refuse(name, key, value, "a task, or a list of tasks: their names, patterns of names, or the tasks themselves")
      end
      list.map { |one| one.is_a?(Symbol) ? one.to_s : one }
    end

    def refuse(name, key, value, expected)
      raise ConfigurationError, "#{name}: #{key}: expected #{expected}, not #{value.inspect}"
    end

    # One stream that is not live makes all of its component so.
    def refuse_spill(component)
      live = component.streams.find { |stream| stream.definition.options[:slow] == "spill" } or return
      other = component.streams.find { |stream| stream.definition.options[:replay] != "gang" }.definition
      wrong(live.definition, "slow: :spill is for readers that run beside one another; its tasks are joined to those of the " \
                             "stream #{other.name} (#{other.place}) with replay: :#{other.options[:replay]}, so each reads a " \
                             "file of its own; leave one of the two out")
    end

    def refuse_cycle(component)
      wrong(component.streams.first.definition, "its tasks read from one another in a cycle, so none of them can run first; " \
                                                "use replay: :gang and more than one job")
    end

    def wrong(definition, text)
      raise RakefileError, "#{definition.place}: #{["stream", definition.name].uniq.join(": ")}: #{text}"
    end

    # @return [Stream]
    def find_tasks(definition, application)
      writers, readers = %i[from to].map do |key|
        definition[key].flat_map { |one| tasks_named(definition, key, one, application) }
      end
      check(definition, writers, readers)
      Stream.new(definition, writers, readers, meta_of(definition, writers + readers, application))
    end

    # Tasks are named as in from: and to:. What stands for several of them gives way to what names one.
    def meta_of(definition, tasks, application)
      said = definition.options[:meta].sort_by { |name, _| PATTERN.match?(name) ? 0 : 1 }
      said.each_with_object({}) do |(name, of), found|
        named = tasks.select { |task| task.name == name }
        named = tasks.select { |task| File.fnmatch(name, task.name, File::FNM_EXTGLOB) } if named.empty? && PATTERN.match?(name)
        named = tasks & [application.lookup(name, definition.scope)] if named.empty?
        wrong(definition, "meta: it joins no task #{name}") if named.empty?
        named.each { |task| found[task.name] = of }
      end
    end

    def tasks_named(definition, key, name, application)
      return [name] if name.is_a?(Rake::Task)
      return [task_named(definition, key, name, application)] unless PATTERN.match?(name)

      found = application.tasks.select { |task| File.fnmatch(name, task.name, File::FNM_EXTGLOB) }
      found.empty? ? wrong(definition, "#{key}: no task has a name like #{name}") : found
    end

    def task_named(definition, key, name, application)
      task = application.lookup(name, definition.scope) || application[name, definition.scope]
      return task unless task.actions.empty?

      wrong(definition, "#{key}: the task #{name} has no action that could #{key == :from ? "write into" : "read"} it")
    rescue RuntimeError => e
      raise if e.is_a?(ConfigurationError)

      wrong(definition, "#{key}: there is no task #{name}")
    end

    def check(definition, writers, readers)
      { from: writers, to: readers }.each do |key, tasks|
        twice = tasks.find { |task| tasks.count { |other| other.equal?(task) } > 1 }
        wrong(definition, "#{key}: the task #{twice.name} is named twice") if twice
      end
      both = writers.find { |task| readers.any? { |other| other.equal?(task) } }
      wrong(definition, "the task #{both.name} cannot read what it writes itself") if both
      return unless definition.options[:record] == "raw" && writers.size > 1

      wrong(definition, "record: :raw takes one writer, not #{writers.size}: without records nothing can be merged")
    end

    # A task has one stdin and one stdout.
    def join(streams)
      { writers: "write into", readers: "read from" }.each do |key, words|
        seen = {}.compare_by_identity
        streams.each do |stream|
          stream[key].each do |task|
            first = seen[task] and wrong(stream.definition, "the task #{task.name} cannot #{words} two streams; it is to " \
                                                            "#{words} #{first.name} (#{first.definition.place}), too")
            seen[task] = stream
          end
        end
      end
      components_of(streams)
    end

    def components_of(streams)
      sets = {}.compare_by_identity # task => the component that it is in
      found = []
      streams.each do |stream|
        joined = stream.tasks.map { |task| sets[task] }.compact.uniq(&:object_id)
        component = joined.shift || Component.new([], []).tap { |one| found << one }
        joined.each do |other|
          component.tasks.concat(other.tasks)
          component.streams.concat(other.streams)
          other.tasks.each { |task| sets[task] = component }
          found.delete_if { |one| one.equal?(other) }
        end
        component.streams << stream
        stream.tasks.each do |task|
          component.tasks << task unless sets[task].equal?(component)
          sets[task] = component
        end
      end
      found.each { |component| component.streams.sort_by! { |stream| streams.index { |one| one.equal?(stream) } } }
      found
    end
  end
end
