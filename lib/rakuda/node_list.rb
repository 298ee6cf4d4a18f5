# frozen_string_literal: true

require "json"
require "rakuda/engine"
require "rakuda/errors"

module Rakuda
  # Nodes as Ruby code asks for them, with what is known of them now: those of the run while one goes on, else this machine.
  # Each question is put to the engine's `rakudactl nodes`; nothing is asked before somebody looks.
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

    # @param attribute [Symbol, String, nil] nodes of which it is not known do not count; nil: as any Enumerable's
    # @return [Node, nil]
    # @raise [Rakuda::NodesNotKnown] when nothing is called so, too
    def max_by(attribute = nil, &block)
      attribute ? known(:max_by, attribute).max_by { |node| node[attribute] } : super(&block)
    end

    # The same for the least.
    def min_by(attribute = nil, &block)
      attribute ? known(:min_by, attribute).min_by { |node| node[attribute] } : super(&block)
    end

    private

    # The engine knows which names there are: it is asked for the order, too.
    def known(method, attribute)
      NodeList.new(@run, @conditions, [method, attribute]).select { |node| node[attribute] }
    end

    def answer
      place = @run ? ["--run", @run] : ["-F", "localhost"]
      condition = @conditions.empty? ? [] : ["--where", joined]
      order = @order ? ["--sort=#{@order.last}"] : []
      told, answer = told_and_answer([Engine.find, "ctl", "nodes", "--json", *place, *condition, *order])
      return answer if told.empty?

      raise NodesNotKnown, in_words_of_ruby(told.sub(/\Arakudactl: /, "").chomp)
    end

    # One alone stands as it is.
    def joined = @conditions.size == 1 ? @conditions.first : @conditions.map { |one| "(#{one})" }.join(" && ")

    # Who has written `where(...)` knows no option, and counts the characters of that condition alone.
    def in_words_of_ruby(told)
      of_order = told[/\A--sort: at character \d+: (.*)/m, 1]
      return "#{@order.first}(#{@order.last.inspect}): #{of_order}" if of_order && @order

      at, what = told.match(/\A--where: at character (\d+): (.*)/m)&.captures
      return told unless at

      place = at.to_i - 1
      place -= 1 if @conditions.size > 1
      @conditions.each do |one|
        last = one.equal?(@conditions.last)
        return "where(#{one.inspect}): at character #{place.clamp(0, one.size) + 1}: #{what}" if last || place <= one.size

        place -= "#{one}) && (".size
      end
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
