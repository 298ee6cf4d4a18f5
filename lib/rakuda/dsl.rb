# frozen_string_literal: true

# The words that Rakuda adds to rake's language. A Rakefile that is to run under plain rake, too, loads this file
# itself: the words are then known there; `needs` says nothing, `stream` says that it needs Rakuda. It knows neither
# what can be needed nor what becomes of it.

require "rake"

module Rakuda
  # Words of a Rakefile, wherever rake's own are.
  module DSL
    private

    # What the next task or rule needs, or how it is to be treated. Yields to any method of that name that the Rakefile,
    # or a library, has.
    # @example
    #   needs cores: 4, memory: "8G"
    #   file("model.bin" => "train.csv") { |t| sh "train -o #{t.name}" }
    # @example
    #   needs params: { level: LEVEL }
    #   file("main.o" => "main.c") { |t| sh "cc #{LEVEL} -c -o #{t.name} main.c" }
    # @example
    #   needs nodes: 4, cores: 2
    #   task(:solve) { sh "mpirun --hostfile $RAKUDA_HOSTFILE ./solve" }
    # @param keywords [Hash{Symbol => Object}] `cores`, `nodes`, `memory`, `resource`, `retry`, `retry_delay`,
    #   `exclusive`, `reserve`, `allow`, `deny`, `order`, `steal`, `params`, `outputs`, `inputs`
    # @raise [ConfigurationError] with the line of the Rakefile
    def needs(*arguments, **keywords, &block)
      return super if defined?(super)

      application = Rake.application
      application.needs(arguments, keywords, block) if application.respond_to?(:needs)
      nil
    end

    # Rounds of workers whose first commands begin at one instant, with a sync task between two rounds, as a task.
    # Yields to any method of that name that the Rakefile, or a library, has.
    # @example
    #   sync :write, workers: 8, over: %w[4k 8k 16k], rounds: 10 do |w|
    #     sh "./command -i 10 -b #{w.parameter} -d /tmp/work/#{w.id}"
    #   end
    # @example
    #   sync({ read: "data" }, workers: 4) { |w| sh "./read", "data", w.id.to_s }
    # @param keywords [Hash] `workers`, `over`, `rounds`, `warm_up`, `repeat_late`, `offset`, `stop_after`,
    #   `ready_within`, `gate`, `overhead`, `pin`, `cache`, `files`, `collect`
    # @yieldparam worker [Sync::Worker]
    # @raise [ConfigurationError] with the line of the Rakefile
    def sync(*arguments, **keywords, &block)
      return super if defined?(super)

      application = Rake.application
      unless application.respond_to?(:sync)
        raise "sync: commands that begin at the same instant need Rakuda's engine: start this Rakefile with rakuda, not rake"
      end
      application.sync(arguments, keywords, block)
    end

    # Joins tasks: what the commands of some print, others read. Yields to any method of that name that the Rakefile, or
    # a library, has.
    # @example
    #   stream :samples, from: %w[sim:0 sim:1], to: %w[stats plot]
    #   stream :frames, from: "camera", to: "film", record: { bytes: 4096 }
    # @param name [Symbol, String]
    # @param keywords [Hash] `from`, `to`: names, patterns or tasks; `record`: :line, :nul, :raw or { bytes: N };
    #   `window`, `slow`, `spill`, `spool_max`, `on_close`, `replay`, `meta`
    # @raise [ConfigurationError] with the line of the Rakefile
    def stream(*arguments, **keywords, &block)
      return super if defined?(super)

      application = Rake.application
      raise "stream: rake cannot join tasks; run this Rakefile with rakuda" unless application.respond_to?(:stream)

      application.stream(arguments, keywords, block)
      nil
    end
  end
end

Rake::DSL.include(Rakuda::DSL)
