# frozen_string_literal: true

# Watches an action that is asked in a sandbox: each call that it makes, of whatever object, must be on a list of methods
# that change nothing and ask nothing of the system; the first that is not is stopped before it begins. What the code looks
# like is not its business: harmless_code.rb has read that before.

require "pathname"
require "shellwords"
require "rakuda/sandbox"

module Rakuda
  # A watch over the calls of one thread.
  class CallGuard
    # Nothing that an action rescues.
    class Refused < Exception # rubocop:disable Lint/InheritException
    end

    # An action that makes more calls than that is not asked to its end.
    CALLS_MAX = 200_000
    # Longer ranges are not walked through.
    RANGE_MAX = 10_000

    # Where Ruby's and rake's own code is.
    HOME = [*[RbConfig::CONFIG["rubylibdir"], File.dirname(Rake.method(:application).source_location[0]),
              File.expand_path("..", __dir__)].map { |folder| "#{folder}/" }, "<internal:"].freeze

    # Methods of data that change nothing and call nothing by a name that they are given.
    PURE = %i[
      to_s to_str to_a to_ary to_h to_i to_f to_sym inspect ext pathmap shellescape shelljoin
      + - * / % == != === =~ < <= > >= <=> ! & | -@ +@ [] fetch dig key? has_key? keys values
      values_at first last size length count empty? include? member?
      start_with? end_with? match match? nil? sub gsub tr squeeze strip lstrip rstrip chomp chop chars lines split partition
      rpartition upcase downcase capitalize swapcase reverse center ljust rjust delete_prefix delete_suffix
      each each_with_index each_pair each_key each_value each_slice each_cons each_index with_index map collect flat_map
      filter_map select filter reject find detect find_index index zip flatten compact uniq sort sort_by min max
      min_by max_by minmax sum take drop take_while drop_while
      group_by tally all? any? none? one? times upto downto floor ceil round abs even? odd? zero? positive? negative? divmod
      merge invert transform_values transform_keys join succ pred between? clamp eql? hash
    ].to_h { |name| [name, true] }.freeze

    class << self
      # @param file [String, nil] where a method is written; nil: not in Ruby
      # @return [Boolean] whether it is Ruby's or rake's own
      def home?(file)
        file.nil? || HOME.any? { |folder| file.start_with?(folder) }
      end

      private

      def list(names)
        names.to_h { |name| [name, true] }
      end
    end

    # Classes and modules of data, of whose methods the names above may be called.
    DATA = [String, Symbol, Integer, Float, Numeric, Comparable, NilClass, TrueClass, FalseClass, Regexp, MatchData, Array,
            Hash, Range, Enumerable, Enumerator].freeze
    # What else may be called: where it is defined => names.
    OTHERS = {
      BasicObject => %i[! == !=],
      Kernel => %i[nil? is_a? kind_of? === =~ hash class format sprintf String Integer Float Array Hash block_given?
                   initialize_dup initialize_copy],
      Module => %i[===],
      Rake::Task => %i[name to_s source sources prerequisites arg_names],
      Rake::FileTask => [],
      Rake::TaskArguments => %i[[] fetch to_a to_h to_s extras values_at has_key? key? each lookup method_missing],
      Rake::FileList => %i[initialize import to_a to_ary to_s resolve ext pathmap is_a? kind_of? ==] + PURE.keys,
      Pathname => %i[to_s to_path basename dirname extname sub sub_ext join + / parent relative? absolute? == === <=> plus
                     chop_basename inspect has_trailing_separator? prepend_prefix initialize],
      String => %i[pathmap_explode pathmap_partial pathmap_replace initialize_copy],
      File.singleton_class => %i[basename dirname extname join split],
      Shellwords.singleton_class => %i[escape shellescape join shelljoin],
      Shellwords => %i[shellescape shelljoin],
      ENV.singleton_class => %i[[] fetch key? has_key? include? values_at]
    }.freeze
    # What Ruby's and rake's own code calls besides, on what is its own.
    WITHIN = {
      String => %i[dup scan gsub! sub! << concat b encode to_sym initialize_copy replace slice tr! =~ intern rindex],
      Array => %i[<< reverse_each pop push drop shift reverse reverse! replace unshift concat initialize_copy],
      Hash => %i[delete []= default replace],
      Kernel => %i[dup object_id send __send__ respond_to? class instance_of? is_a? initialize_dup
                   initialize_copy initialize_clone freeze],
      Regexp => [:initialize],
      Regexp.singleton_class => %i[last_match],
      Class => [:new],
      BasicObject => %i[initialize],
      Module => %i[=== ==],
      Symbol => %i[to_proc],
      Pathname => %i[initialize initialize_copy dup]
    }.freeze
    ALLOWED = OTHERS.transform_values { |names| list(names) }
                    .merge(DATA.to_h { |one| [one, PURE.merge(list(OTHERS[one] || []))] }).compare_by_identity.freeze
    ALLOWED_WITHIN = WITHIN.transform_values { |names| list(names) }.compare_by_identity.freeze
    ASKING = File.expand_path("probe.rb", __dir__).freeze
    private_constant :OTHERS, :WITHIN

    def initialize
      @trace = TracePoint.new(:call, :c_call, :b_call) { |event| look_at(event) if Thread.current.equal?(@thread) }
    end

    # @param code [HarmlessCode] what has been read: its blocks, and the Rakefile's methods that it calls
    # @return what the block returns
    # @raise [Refused] when a call was stopped, also if the action went on after that
    def watch(code)
      @thread = Thread.current
      @code = code
      @calls = 0
      @refused = nil
      answer = @trace.enable { yield }
      @refused ? raise(@refused) : answer
    end

    private

    def look_at(event)
      @calls += 1
      return if @calls <= CALLS_MAX && (event.event == :b_call ? block?(event) : call?(event))

      @refused ||= Refused.new("#{event.defined_class}##{event.method_id}")
      raise @refused
    end

    # A block that has been read, or one of Ruby's or rake's own.
    def block?(event)
      CallGuard.home?(event.path) || @code.block_at?(event.path, event.lineno)
    end

    def call?(event)
      return true if event.path == ASKING

      place = event.defined_class
      name = event.method_id
      return own?(event, place, name) if event.event == :call && !CallGuard.home?(event.path)
      return receiver?(event.self, name) if ALLOWED[place]&.key?(name)
      return noting?(name) if place.equal?(Sandbox)

      event.event == :c_call && CallGuard.home?(event.path) && ALLOWED_WITHIN[place]&.key?(name)
    end

    # A method of the Rakefile that has been read.
    def own?(event, place, name)
      place.equal?(Object) && Sandbox.equal?(event.self.class) && @code.method_at?(name, event.path, event.lineno)
    end

    def noting?(name)
      !Sandbox::FORBIDDEN.include?(name)
    end

    # Some receivers are looked at more closely: what has no end, and lists that would be made now.
    def receiver?(value, name)
      case value
      when Range then name == :=== || short?(value)
      when Rake::FileList then !value.instance_variable_get(:@pending)
      when Hash then value.default_proc.nil?
      when Integer then name != :times || value <= RANGE_MAX
      else true
      end
    end

    def short?(range)
      first = range.begin
      last = range.end
      case first
      when Integer then last.is_a?(Integer) && last - first <= RANGE_MAX
      when String then last.is_a?(String) && last.bytesize <= 2
      else false
      end
    end
  end
end
