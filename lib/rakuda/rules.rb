# frozen_string_literal: true

# The actions of tasks, numbered: tasks with the same blocks of the Rakefile are of one rule. It looks at procs and at
# source files and calls nothing; what the numbers are for is the hub's business.

module Rakuda
  # Numbers of lists of actions.
  class Rules
    # Sources of more blocks are not read unless they are compared: each costs some 50 us, and a generated Rakefile may
    # have 100,000.
    SOURCES_MAX = 500
    # Larger files are not read.
    FILE_BYTES_MAX = 1024 * 1024
    # Actions that rake itself defines (`directory`, `clean`) go by names that are the same on every machine.
    RAKE_FOLDER = "#{File.expand_path("..", File.dirname(Rake.method(:application).source_location[0]))}/".freeze

    # One block of the Rakefile.
    # @!attribute number [Integer] of the rule of tasks whose only action it is; nil: there is none yet
    # @!attribute place [String, nil] `FILE:LINE`
    # @!attribute source [String, nil] nil: nobody knows it
    Block = Struct.new(:number, :place, :source)

    # @param link [Link]
    # @param sources_max [Integer, Float] of how many blocks the source is read
    def initialize(link, sources_max: SOURCES_MAX)
      @link = link
      @sources_max = sources_max
      @blocks = {}.compare_by_identity # code of an action, which Ruby has once for all procs of a block => Block
      @origins = {}                    # where an action stands for what the Rakefile says => Block
      @lists = {}                      # blocks of several actions => number
      @count = 0
      @lines = {}                      # of source files
    end

    # @param actions [Array<Proc>] of a task
    # @return [Integer] number of the rule, which the hub knows; 0: there is none
    def number(actions)
      return 0 if actions.empty?

      first = block(actions.first)
      return 0 unless first&.place
      return first.number ||= define(first.place, first.source) if actions.size == 1

      blocks = actions.map { |action| block(action) }
      @lists[blocks.map(&:object_id)] ||= define(first.place, joined(blocks))
    end

    private

    # @return [Block, nil] nil: the action is not a block that is written in Ruby
    def block(action)
      return stands_for(*action.rakuda_origin) if action.respond_to?(:rakuda_origin)

      # Not by `source_location`: its array for each of 100,000 tasks makes planning them a third slower.
      code = RubyVM::InstructionSequence.of(action) or return
      @blocks[code] ||= read(action, code)
    rescue ArgumentError
      nil
    end

    # The action is Rakuda's own, and runs a block of the Rakefile or none.
    def stands_for(place, given)
      @origins[[place, given]] ||= begin
        code = RubyVM::InstructionSequence.of(given) if given && @origins.size < @sources_max
        Block.new(nil, place, code && source(code))
      end
    end

    def read(action, code)
      file, line = action.source_location
      return Block.new unless file

      source = @blocks.size < @sources_max ? source(code) : nil
      # `return` means another thing in a lambda.
      source = "lambda #{source}" if source && action.lambda?
      Block.new(nil, "#{file.delete_prefix(RAKE_FOLDER)}:#{line}", source)
    end

    # @return [String, nil] nil too when only one of them is not known: the others are not all that is done
    def joined(blocks)
      sources = blocks.map { |block| block&.source }
      sources.map { |source| "#{source.bytesize}:#{source}" }.join if sources.all?
    end

    def define(place, source)
      @count += 1
      @link.send_rule(@count, place, source)
      @count
    end

    # What `eval` was given stands in no file, whatever place it was said to have.
    def source(code)
      file = code.absolute_path or return
      lines = lines(file) or return
      require "rakuda/action_source" # here: it takes some milliseconds, and not every run reads sources
      ActionSource.of(lines, code.to_a[4][:code_location])
    rescue SystemCallError, ArgumentError, TypeError
      nil # no such file any more, or not written in Ruby
    end

    def lines(file)
      @lines.fetch(file) do
        text = File.binread(file).force_encoding(Encoding::UTF_8) if File.size?(file)&.<=(FILE_BYTES_MAX)
        text.force_encoding(Encoding::BINARY) unless text.nil? || text.valid_encoding?
        @lines[file] = text&.lines
      end
    end
  end
end
