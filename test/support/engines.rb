# frozen_string_literal: true

# The engines that tests of whole runs are made for: the fake hub, and the real one where it is built.
module Engines
  ROOT = File.expand_path("../..", __dir__)
  COMMON = { "FAILED_TARGET" => "leave", "RUBYOPT" => nil, "RAKEOPT" => nil, "LANG" => "C.UTF-8" }.freeze
  # The real one, with the settings that users have.
  REAL = COMMON.merge("FAILED_TARGET" => nil, "RAKUDA_ENGINE" => File.join(ROOT, "target", "release", "rakudad")).freeze

  class << self
    def real = ENV["RAKUDA_TEST_ENGINE"] || File.join(ROOT, "target", "release", "rakudad")

    def real? = File.executable?(real)

    # @yield [name, environment]
    def each
      yield "fake", COMMON.merge("RAKUDA_ENGINE" => File.join(ROOT, "test", "support", "fake_hub.rb"))
      if real?
        yield "real", COMMON.merge("RAKUDA_ENGINE" => real)
      else
        warn "the engine is not built: #{real}; the tests run on the fake hub alone"
      end
    end
  end
end
