# frozen_string_literal: true

# The source of an action's block in a form that comments, white space and its place do not change: its tokens, as
# Ruby's own lexer tells them apart. Ruby's instructions and syntax trees are others in each version of Ruby; its tokens
# are not. It knows neither what the form is compared with nor the values of what the block names.

require "ripper/core"

module Rakuda
  # Reads one block, to its last byte. The body of a heredoc is read where the heredoc begins, though it may end after
  # the block.
  class ActionSource < Ripper
    # Longer forms are not made.
    BYTES_MAX = 64 * 1024
    # With a space before them and none after, they begin an argument of the name that they follow (`a -b`, and not
    # `a - b`).
    SIGNS = %w[- + * & ** ::].freeze
    # With a space before them they do.
    BRACKETS = %i[lparen lbracket].freeze
    # Words of Ruby that take arguments as names do.
    CALLS = %w[yield super defined?].freeze
    # Before these it does not matter whether a statement ends.
    CLOSING = %i[rbrace rbracket rparen embexpr_end].freeze
    # `%w[` and its like.
    LISTS = %i[qwords_beg words_beg qsymbols_beg symbols_beg].freeze
    COMMENTS = %i[comment embdoc_beg embdoc embdoc_end].freeze
    SPACES = { sp: true, ignored_nl: true }.freeze
    ENDS = { nl: true, semicolon: true }.freeze
    # Tells what is no code, or begins what is none, from code of the same letters.
    KINDS = { tstring_content: "s", regexp_beg: "r" }.freeze

    # @!attribute event [Symbol] Ripper's name of its kind
    # @!attribute text [String]
    # @!attribute depth [Integer] of how many heredocs it is a part
    # @!attribute line [Integer, nil] from 1; only of comments and of texts
    # @!attribute column [Integer, nil] in bytes; likewise
    Token = Struct.new(:event, :text, :depth, :line, :column)

    # Lines that Ripper asks for one by one, so that the rest of a long file is not looked at.
    class Lines
      # @return [Integer] how many of the file have been asked for
      attr_reader :index

      # @param first [String]
      # @param lines [Array<String>] the file's
      # @param index [Integer] of the line that follows the first one
      def initialize(first, lines, index)
        @first = first
        @lines = lines
        @index = index
      end

      def gets
        first, @first = @first, nil
        return first if first

        @index += 1
        @lines[@index - 1]
      end
    end

    class << self
      # @param lines [Array<String>] of the file
      # @param location [Array<Integer>] line and column of the block's first byte, and of the one after its last
      # @return [String, nil] nil: no block stands there, or too long a one
      def of(lines, location)
        first, column, last, end_column = location
        head = lines[first - 1]&.byteslice(column..) or return
        # A block alone is no statement, nor is a lambda without its arrow: Ruby takes what follows that for its
        # beginning.
        prefix = { "do" => "proc ", "{" => "proc ", "->" => "" }.fetch(head[/\A(?:do\b|\{|->)/], "->")
        end_column += prefix.bytesize - column if last == first
        tokens = read(prefix + head, lines, first, last - first + 1, end_column) or return
        form(tokens.drop(prefix == "proc " ? 2 : 1))
      end

      private

      # @return [Array<Token>, nil] without comments
      def read(head, lines, index, last, end_column)
        source = Lines.new(head, lines, index)
        tokens = new(source, last, end_column).tokens or return
        comments = tokens.select { |token| COMMENTS.include?(token.event) }
        return tokens if comments.empty?

        # Whether a statement ends with a line the lexer tells only where no comment does.
        rest = [head, *lines[index...source.index]]
        removed = remove(comments, rest, last)
        new(Lines.new(nil, rest.compact, 0), last - removed, end_column).tokens
      end

      # @return [Integer] how many lines before the last one of the block are gone with the comments
      def remove(comments, lines, last)
        comments.count do |token|
          index = token.line - 1
          before = lines[index].byteslice(0, token.column)
          lines[index] = before.strip.empty? ? nil : "#{before}\n"
          lines[index].nil? && token.line < last
        end
      end

      def form(tokens)
        form = String.new(encoding: Encoding::BINARY)
        before = nil
        spaced = ended = parted = false
        tokens.each_with_index do |token, index|
          break if form.bytesize > BYTES_MAX
          event = token.event
          next spaced = true if SPACES.key?(event)
          next ended = true if ENDS.key?(event)
          next parted = !LISTS.include?(before.event) if event == :words_sep

          following = tokens[index + 1]
          next following.text = token.text + following.text if content?(token) && following && content?(following)

          put(form, "t", ";") if ended && before && !closing?(token)
          put(form, "t", " ") if parted && event != :tstring_end
          put(form, KINDS.fetch(event, "t"), text(token, following, spaced && name?(before)))
          before = token
          spaced = ended = parted = false
        end
        form if form.bytesize <= BYTES_MAX
      end

      def content?(token)
        token.event == :tstring_content
      end

      # So that no text of one token is that of two.
      def put(form, kind, text)
        form << "#{kind}#{text.bytesize}:" << (text.ascii_only? ? text : text.b)
      end

      def closing?(token)
        CLOSING.include?(token.event) || (token.event == :kw && token.text == "end")
      end

      def name?(token)
        token && (%i[ident const].include?(token.event) || (token.event == :kw && CALLS.include?(token.text)))
      end

      def text(token, following, spaced)
        text = token.text
        case token.event
        when *LISTS, :heredoc_end then text.strip
        when *BRACKETS then spaced ? " #{text}" : text
        when :op then spaced && SIGNS.include?(text) && !SPACES.key?(following&.event) ? " #{text}" : text
        else text
        end
      end
    end

    # @param source [Lines]
    # @param last [Integer] line of the block's end, from 1
    # @param end_column [Integer]
    def initialize(source, last, end_column)
      super(source)
      @last = last
      @end_column = end_column
      @tokens = []
      @depth = 0
      @begins = []     # of the heredocs that are open: index of their first token
      @heredoc = nil   # the last that was closed: its texts
    end

    # @return [Array<Token>, nil] nil: nothing ends where the block is said to end
    def tokens
      catch(self) do
        parse
        nil
      end
    end

    private

    (SCANNER_EVENTS - %i[heredoc_beg heredoc_end kw rbrace tstring_content] - COMMENTS).each do |event|
      # Not by a block, whose call takes longer than all that it would do.
      class_eval("def on_#{event}(text) = @tokens << Token.new(:#{event}, text, @depth)", __FILE__, __LINE__)
    end
    (COMMENTS + [:tstring_content]).each do |event|
      define_method(:"on_#{event}") { |text| @tokens << Token.new(event, text.dup, @depth, lineno, column) }
    end

    def on_kw(text)
      @tokens << Token.new(:kw, text, @depth)
      throw self, @tokens if text == "end" && end?(text)
    end

    def on_rbrace(text)
      @tokens << Token.new(:rbrace, text, @depth)
      throw self, @tokens if end?(text)
    end

    def end?(text)
      @depth.zero? && lineno == @last && column + text.bytesize == @end_column
    end

    def on_heredoc_beg(text)
      @tokens << Token.new(:heredoc_beg, text, @depth)
      @begins << @tokens.size
      @depth += 1
    end

    def on_heredoc_end(text)
      @heredoc = @tokens[@begins.pop..].select { |token| token.depth == @depth && token.event == :tstring_content }
      @depth -= 1
      @tokens << Token.new(:heredoc_end, text, @depth)
    end

    # Comes when a heredoc with `<<~` has been closed, with the columns of its lines that are not in the string.
    def on_heredoc_dedent(_value, width)
      @heredoc.each { |token| dedent_string(token.text, width) if token.column.zero? }
    end
  end
end
