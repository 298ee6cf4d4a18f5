# frozen_string_literal: true

# The words that Rakuda adds to rake's language. A Rakefile that is to run under plain rake, too, loads this file itself:
# the words are then known there and say nothing. It knows neither what can be needed nor what becomes of it.

require "rake"

module Rakuda
  # Words of a Rakefile, wherever rake's own are.
  module DSL
    private

    # What the next task or rule needs, or how it is to be treated. Yields to any method of that name that the Rakefile, or
    # a library, has.
    # @example
    #   needs cores: 4, memory: "8G"
    #   file("model.bin" => "train.csv") { |t| sh "train -o #{t.name}" }
    # @param keywords [Hash] `cores`, `memory`, `resource`, `retry`, `exclusive`, `reserve`, `allow`, `deny`, `order`, `steal`
    # @raise [ConfigurationError] with the line of the Rakefile
    def needs(*arguments, **keywords, &block)
      return super if defined?(super)

      application = Rake.application
      application.needs(arguments, keywords, block) if application.respond_to?(:needs)
      nil
    end
  end
end

Rake::DSL.include(Rakuda::DSL)
