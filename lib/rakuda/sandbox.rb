# frozen_string_literal: true

# The `self` of an action that is only asked which commands it would start: `sh` notes its words, everything else that
# has an effect does nothing. It does not know which actions may be asked that way; harmless_code.rb does.

module Rakuda
  # Instances stand for the Rakefile's `self`. Methods that the Rakefile defines are those of Object, and so are found.
  class Sandbox
    # More commands than that are not compared.
    COMMANDS_MAX = 1000

    # Rake's and FileUtils' methods that change files: nothing is done.
    FILE_METHODS = %i[cp cp_r copy copy_file copy_entry mv move rm rm_f rm_r rm_rf rmtree mkdir mkdir_p makedirs mkpath
                      rmdir touch ln ln_s ln_sf link symlink install chmod chmod_R chown chown_R safe_ln].freeze
    # Printing: nothing is printed.
    PRINTING = %i[puts print printf p pp putc warn rake_output_message].freeze
    # Barriers: what the check of the code does not let through anyway.
    FORBIDDEN = %i[system exec spawn fork ` open eval instance_eval binding exit exit! abort at_exit trap sleep gets load
                   require require_relative send public_send method extend].freeze

    # Something was asked for that is not for a sandbox.
    class Refused < StandardError; end

    # @return [Array<String, Array<String>>] command lines, and words of those that need no shell
    attr_reader :rakuda_commands

    def initialize
      @rakuda_commands = []
    end

    # Notes a command as Rakuda::Shell would send it.
    def sh(*words)
      options = words.last.is_a?(Hash) ? words.pop : {}
      words = words.drop(1) if words.first.is_a?(Hash)
      raise Refused if options.key?(:noop) || words.empty? || @rakuda_commands.size >= COMMANDS_MAX
      raise Refused unless words.all?(String)

      @rakuda_commands << (words.size == 1 ? words[0].b : words.map(&:b))
      true
    end

    def ruby(*words)
      options = words.last.is_a?(Hash) ? words.pop : {}
      words.size > 1 ? sh(FileUtils::RUBY, *words, options) : sh("#{FileUtils::RUBY} #{words.first}", options)
    end

    def verbose(_value = nil)
      yield if block_given?
    end

    FILE_METHODS.each { |name| define_method(name) { |*, **| nil } }
    PRINTING.each { |name| define_method(name) { |*| nil } }
    FORBIDDEN.each { |name| define_method(name) { |*| raise Refused } }
  end
end
