# frozen_string_literal: true

# Tells whether the code of an action can be run in a sandbox without any effect, by its instructions: only what is on a list
# passes, with blocks, and with the Rakefile's own methods that it calls. Whatever is not known is refused. It runs nothing, and
# does not know of what object a method will be called: call_guard.rb sees that.

require "rakuda/call_guard"
require "rakuda/sandbox"

module Rakuda
  # A check of one action.
  class HarmlessCode
    # Instructions that change nothing but the stack and local variables. (`<<`, `[]=` and other setters are missing on purpose.)
    INSTRUCTIONS = %w[
      nop getspecial getconstant opt_getinlinecache opt_setinlinecache putnil putself putobject putobject_INT2FIX_0_
      putobject_INT2FIX_1_ putstring concatstrings anytostring objtostring toregexp intern newarray duparray duphash
      expandarray concatarray splatarray newhash newrange pop dup dupn swap topn setn adjuststack reverse checkmatch
      checktype checkkeyword leave throw jump branchif branchunless branchnil opt_case_dispatch opt_str_freeze opt_nil_p
      opt_not opt_neq opt_eq opt_plus opt_minus opt_mult opt_div opt_mod opt_lt opt_le opt_gt opt_ge opt_and opt_or opt_aref
      opt_aref_with opt_length opt_size opt_empty_p opt_succ opt_regexpmatch2 opt_newarray_max opt_newarray_min send
      opt_send_without_block invokeblock getlocal getlocal_WC_0 getlocal_WC_1 setlocal setlocal_WC_0 setlocal_WC_1
    ].to_h { |name| [name.to_sym, true] }.freeze

    # Methods that pass: of data, of tasks, of names of files. Of whatever else they may be called, the guard stops it.
    PURE = (CallGuard::PURE.keys + %i[name prerequisites source sources arg_names extras basename dirname extname escape is_a?
                                      kind_of? to_path relative? absolute? parent sub_ext]).to_h { |name| [name, true] }.freeze
    # They go on for long, if nothing ends them; with a block their turns are counted.
    COUNTED = %i[upto downto].freeze

    # Methods without a receiver that are Kernel's and only compute.
    COMPUTING = %i[format sprintf String Integer Float Array Hash block_given? raise fail].freeze
    # Sets a variable of the block around.
    ONE_OUT = INSTRUCTIONS.keys.last
    FCALL = 0x04
    BLOCK_ARGUMENT = 0x02

    SCALARS = [String, Symbol, Integer, Float, NilClass, TrueClass, FalseClass, Regexp, Pathname].freeze
    TASKS = [Rake::Task, Rake::FileTask, Rake::FileCreationTask, Rake::MultiTask].freeze
    # Constants that are no data and yet answer nothing but questions, with the methods above.
    SOURCES = [File, Shellwords].freeze
    CLASSES = (SCALARS + TASKS + SOURCES + [Array, Hash, Range, Rake::FileList, Rake::TaskArguments]).freeze
    # A task's argument that is called as one of their methods could be that method.
    PLACES = (CLASSES + [Object, Enumerator, MatchData, IO, Dir] + [ENV, *SOURCES, Dir, Process].map(&:singleton_class)).freeze
    # So much data is looked through.
    ELEMENTS_MAX = 10_000
    MAIN = TOPLEVEL_BINDING.receiver

    class << self
      # @param action [Proc]
      # @param names [Array<Symbol>] of the task's arguments
      # @return [HarmlessCode, nil] nil: the action must not be asked
      def of(action, names)
        return if action.lambda? || !action.binding.receiver.equal?(MAIN)

        check = new(names)
        check if check.code?(RubyVM::InstructionSequence.of(action)) && check.captured?(action)
      rescue StandardError, NotImplementedError
        nil
      end
    end

    def initialize(names)
      @arguments = names.reject do |name|
        PLACES.any? { |place| place.method_defined?(name) || place.private_method_defined?(name) }
      end
      @methods = {}       # of the Rakefile that have been looked at: name => where it is
      @blocks = {}        # where they begin
      @names = {}         # of local variables of the code
      @untouched = {}
    end

    # @return [Boolean] whether a block that begins there has been read
    def block_at?(file, line)
      @blocks.key?([file, line])
    end

    # @return [Boolean] whether this method has been read
    def method_at?(name, file, line)
      @methods[name] == [file, line]
    end

    # @param sequence [RubyVM::InstructionSequence, nil]
    def code?(sequence)
      return false if sequence.nil?

      sequence.disasm.scan(/[gs]etlocal\S*\s+(\S+?)@/) { |(name)| @names[name.to_sym] = true }
      instructions?(sequence.to_a, 0)
    end

    # Variables of the Rakefile that the action has at hand are nothing but data.
    def captured?(action)
      binding = action.binding
      binding.local_variables.select { |name| @names[name] }.all? { |name| data?(binding.local_variable_get(name)) }
    end

    private

    # @param depth [Integer] how many blocks of the action are around it
    def instructions?(sequence, depth)
      return false unless sequence[13].is_a?(Array) && %i[block method rescue ensure].include?(sequence[9])
      return false unless sequence[12].all? { |entry| entry[1].nil? || instructions?(entry[1], depth + 1) }

      @blocks[[sequence[6], sequence[8]]] = true
      labels = {}
      before = nil
      sequence[13].all? do |item|
        if item.is_a?(Symbol)
          labels[item] = true
          before = nil # who comes here by a jump has done something else before
        end
        next true unless item.is_a?(Array)

        good = instruction?(item, before, depth, labels)
        before = item
        good
      end
    end

    def instruction?(item, before, depth, labels)
      operation, first, second = item
      return false unless INSTRUCTIONS.key?(operation)

      case operation
      when :setlocal then second <= depth
      when ONE_OUT then depth >= 1
      when :jump, :branchif, :branchunless, :branchnil then !labels[first] # a loop may have no end
      when :getconstant then constant?(first)
      when :send, :opt_send_without_block then call?(first, before) && block?(first, second, depth)
      when :putobject then scalar_or_range?(first)
      else first.is_a?(Hash) && first.key?(:mid) ? pure?(first[:mid]) : true
      end
    end

    # The block of `sh` is told the status of the command, which nobody knows.
    def block?(call, block, depth)
      return !COUNTED.include?(call[:mid]) if block.nil?

      !%i[sh ruby].include?(call[:mid]) && instructions?(block, depth + 1)
    end

    def call?(call, before)
      name, flag = call.values_at(:mid, :flag)
      # `&:name` is a call of that method.
      return false if flag.anybits?(BLOCK_ARGUMENT) && !symbol?(before)
      return own?(name) if flag.anybits?(FCALL) && name != :=== # of `when`, which Ruby marks so

      pure?(name) || (@arguments.include?(name) && call[:orig_argc].zero?)
    end

    def symbol?(instruction)
      instruction && instruction[0] == :putobject && instruction[1].is_a?(Symbol) && pure?(instruction[1])
    end

    # A method of the Rakefile's `self`.
    def own?(name)
      method = Sandbox.instance_method(name)
      owner = method.owner
      return noting?(name) && as_ever?(name) if owner.equal?(Sandbox)
      return COMPUTING.include?(name) if owner.equal?(Kernel)

      owner.equal?(Object) && method?(method)
    rescue NameError
      false
    end

    def noting?(name)
      !Sandbox::FORBIDDEN.include?(name) && !%i[initialize rakuda_commands].include?(name)
    end

    # Nobody has given the Rakefile's `self` another method of that name.
    def as_ever?(name)
      !MAIN.respond_to?(name, true) || CallGuard.home?(MAIN.method(name).source_location&.first)
    end

    def method?(method)
      return true if @methods.key?(method.name)

      sequence = RubyVM::InstructionSequence.of(method)
      code = sequence.to_a
      # That of `define_method` has variables at hand of which nothing is known.
      return false unless code[9] == :method && !MAIN.singleton_class.method_defined?(method.name, false)

      @methods[method.name] = [code[6], code[8]]
      code?(sequence)
    end

    # Whether a method that changes nothing is still Ruby's or rake's own, in all classes of data.
    def pure?(name)
      return false unless PURE.key?(name)

      @untouched.fetch(name) { @untouched[name] = !refined?(name) && CLASSES.all? { |klass| original?(klass, name) } }
    end

    def original?(klass, name)
      places = []
      places << klass.instance_method(name) if klass.method_defined?(name)
      places << klass.method(name) if SOURCES.include?(klass) && klass.respond_to?(name)
      places.all? { |place| CallGuard.home?(place.source_location&.first) }
    end

    # Whether someone gives the method another meaning in some files.
    def refined?(name)
      @refined ||= ObjectSpace.each_object(Refinement).flat_map { |one| one.instance_methods(false) }.to_h { |one| [one, true] }
      @refined.key?(name)
    end

    def constant?(name)
      return false if Object.autoload?(name) || !Object.const_defined?(name)

      value = Object.const_get(name)
      SOURCES.include?(value) || value.equal?(ENV) || data?(value)
    end

    def scalar_or_range?(value)
      value.is_a?(Module) ? SCALARS.include?(value) || value <= Exception : data?(value)
    end

    # Nothing that could do something: strings, numbers, and collections of them.
    def data?(value)
      seen = {}.compare_by_identity
      stack = [value]
      until stack.empty?
        one = stack.pop
        next if seen.key?(one)

        seen[one] = true
        return false unless seen.size <= ELEMENTS_MAX && plain?(one) && parts(one, stack)
      end
      true
    end

    # Puts what a value is made of on a stack.
    # @return [Array, nil] nil: it is no data
    def parts(value, stack)
      case value.class.name
      when "Range" then stack.push(value.begin, value.end)
      when "Array" then stack.concat(value)
      when "Hash" then stack.concat(value.to_a.flatten(1)) unless value.default_proc
      when "Rake::FileList" then stack unless value.instance_variable_get(:@pending) # looking at it would fix what is in it
      else stack if SCALARS.include?(value.class) || (TASKS.include?(value.class) && !value.rakuda_singular)
      end
    end

    # It has no methods of its own.
    def plain?(value)
      case value
      when Numeric, Symbol, NilClass, TrueClass, FalseClass then true
      else value.singleton_methods(false).empty?
      end
    end
  end
end
