# frozen_string_literal: true

require "json"
require "rakuda/engine"
require "rakuda/errors"

module Rakuda
  # Nodes as Ruby code asks for them, with what is known of them now: those of the run while one goes on, else this
  # machine. Each question is put to the engine's `rakudactl nodes`; nothing is asked before somebody looks.
  #
  #     Rakuda.nodes.where("load1 < 0.5*threads").max_by(:mem_available)&.name
  #
  # It does not know what an expression means, nor where values come from.
  class NodeList
    include Enumerable

    # A node: its name, its state, and values by the names of attributes.
    Node = Struct.new(:name, :state, :known) do
      # @param attribute [Symbol, String] such as :load1, or "fs_free('/scratch')"
      # @return [Numeric, String, nil] nil: not known
      def [](attribute) = known.dig(attribute.to_s, "value")

      # @return [Float, nil] seconds since it was sampled
      def age(attribute) = known.dig(attribute.to_s, "age_s")

      def inspect = "#<#{self.class} #{name} #{state}, #{known.size} values>"
      alias_method :to_s, :inspect
    end

    # @param run [String, nil] a run that goes on; nil: this machine
    # @param conditions [Array<String>]
    # @param order [Array(Symbol, Symbol), nil] `max_by` or `min_by`, and the attribute
    def initialize(run, conditions = [], order = nil)
      @run = run
      @conditions = conditions
      @order = order
    end

    # @param condition [String] an expression (docs/reference/information.md)
    # @return [NodeList] those for which it is true
    # @example
    #   Rakuda.nodes.where("state == 'up' && mem_available > 8GiB").map(&:name)
    def where(condition) = NodeList.new(@run, [*@conditions, condition])

    # @raise [Rakuda::NodesNotKnown] when an expression means nothing, or nobody answers
    def each(&block)
      return enum_for unless block

      JSON.parse(answer).fetch("nodes").each do |node|
        block.call(Node.new(node["node"], node["state"], node["values"]))
      end
      self
    end

    # @param expression [Symbol, String, nil] an attribute, another system's name for it, or what is reckoned with them;
    #   nodes of which it is not known do not count; nil: as any Enumerable's
    # @return [Node, nil] of several the first by name
    # @raise [Rakuda::NodesNotKnown] when it means nothing, too
    # @example
    #   Rakuda.nodes.max_by("mem_available / threads")
    def max_by(expression = nil, &block) = expression ? first_by(:max_by, expression) : super(&block)

    # The same for the least.
    def min_by(expression = nil, &block) = expression ? first_by(:min_by, expression) : super(&block)

    private

    # The engine knows what it means, so it has the order, too.
    def first_by(method, expression) = NodeList.new(@run, @conditions, [method, expression]).first

    def answer
      place = @run ? ["--run", @run] : ["-F", "localhost"]
      conditions = @order ? [*@conditions, "(#{@order.last}) == (#{@order.last})"] : @conditions
      condition = conditions.empty? ? [] : ["--where", joined(conditions)]
      told, answer = told_and_answer([Engine.find, "ctl", "nodes", "--json", *place, *condition, *order])
      return answer if told.empty?

      raise NodesNotKnown, in_words_of_ruby(told.sub(/\Arakudactl: /, "").chomp)
    end

    # What is not known is not equal to itself, either: such a node is left out by a condition behind all others.
    def order
      return [] unless @order

      method, expression = @order
      ["--sort=#{"-" if method == :max_by}(#{expression})", "--limit", "1"]
    end

    # One alone stands as it is.
    def joined(conditions) = conditions.size == 1 ? conditions.first : conditions.map { |one| "(#{one})" }.join(" && ")

    # Who has written `where(...)` knows no option, and counts the characters of that condition alone.
    def in_words_of_ruby(told)
      of_order = told[/\A--sort: at character \d+: (.*)/m, 1]
      return "#{@order.first}(#{@order.last.inspect}): #{of_order}" if of_order && @order

      at, what = told.match(/\A--where: at character (\d+): (.*)/m)&.captures
      return told unless at

      place = at.to_i - 1
      place -= 1 if @order ? @conditions.any? : @conditions.size > 1
      @conditions.each do |one|
        last = !@order && one.equal?(@conditions.last)
        return "where(#{one.inspect}): at character #{place.clamp(0, one.size) + 1}: #{what}" if last || place <= one.size

        place -= "#{one}) && (".size
      end
      "#{@order.first}(#{@order.last.inspect}): #{what}"
    end

    # Standard error goes into a file: with two pipes there would have to be a thread, which is no action.
    def told_and_answer(words)
      require "tempfile"
      Tempfile.create("rakuda-nodes") do |file|
        answer = IO.popen([*words, { err: file.path }], &:read)
        [File.read(file.path), answer]
      end
    end
  end
end
