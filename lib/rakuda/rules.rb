# frozen_string_literal: true

# Where the actions of tasks stand, numbered: tasks whose first action is the same block of the Rakefile are of one rule. It
# looks at procs and at source files and calls nothing; what the numbers are for is the hub's business.

module Rakuda
  # Numbers of the places of actions.
  class Rules
    # Source texts of more places are not looked up unless they are compared: each costs some 50 us, and a generated
    # Rakefile may have 100,000.
    TEXTS_MAX = 500
    # Longer texts, and files, are not read.
    TEXT_BYTES_MAX = 64 * 1024
    FILE_BYTES_MAX = 1024 * 1024
    # Actions that rake itself defines (`directory`, `clean`) are told by names that are the same on every machine.
    RAKE_FOLDER = "#{File.expand_path("..", File.dirname(Rake.method(:application).source_location[0]))}/".freeze

    # @param link [Link]
    # @param all_texts [Boolean] they are compared
    def initialize(link, all_texts: false)
      @link = link
      @texts_max = all_texts ? Float::INFINITY : TEXTS_MAX
      @numbers = {}.compare_by_identity # code of an action, which Ruby has once for all procs of a block => number
      @count = 0
      @sources = {}
    end

    # @param action [Proc, nil] the first action of a task
    # @return [Integer] number of the rule, which the hub knows; 0: there is none
    def number(action)
      # Not by `source_location`: its array for each of 100,000 tasks makes planning them a third slower.
      code = action && RubyVM::InstructionSequence.of(action)
      code ? @numbers[code] || define(action, code) : 0
    rescue ArgumentError
      0 # not written in Ruby
    end

    private

    def define(action, code)
      file, line = action.source_location
      return @numbers[code] = 0 unless file

      @count += 1
      @link.send_rule(@count, "#{file.delete_prefix(RAKE_FOLDER)}:#{line}", @count <= @texts_max ? text(code, file) : nil)
      @numbers[code] = @count
    end

    # @return [String, nil] what stands between `do` and `end`, as far as Ruby tells where that is
    def text(code, file)
      first, column, last, end_column = code.to_a[4][:code_location]
      lines = source(file)&.slice((first - 1)..(last - 1))
      return if lines.nil? || lines.size != last - first + 1

      lines[-1] = lines[-1].byteslice(0, end_column)
      lines[0] = lines[0].byteslice(column..) || ""
      lines.join.byteslice(0, TEXT_BYTES_MAX + 1).then { |text| text if text.bytesize <= TEXT_BYTES_MAX }
    rescue SystemCallError, ArgumentError, TypeError
      nil # no such file any more, or not written in Ruby
    end

    def source(file)
      @sources.fetch(file) do
        @sources[file] = (File.binread(file).lines if File.size?(file)&.<=(FILE_BYTES_MAX))
      end
    end
  end
end
