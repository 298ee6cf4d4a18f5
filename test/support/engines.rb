# frozen_string_literal: true

# The engines that tests of whole runs are made for: the real hub where it is built, else the fake one; both with
# ON_FAKE=all.
module Engines
  ROOT = File.expand_path("../..", __dir__)
  # After 10 s a run prints lines of progress, which tests that compare all output do not expect.
  WITHOUT_PROGRESS = { "XDG_CONFIG_HOME" => File.join(ROOT, "test/support/settings") }.freeze
  COMMON = { "FAILED_TARGET" => "leave", "RUBYOPT" => nil, "RAKEOPT" => nil, "LANG" => "C.UTF-8", **WITHOUT_PROGRESS }.freeze
  # The real one, otherwise with users' settings.
  REAL = COMMON.merge("FAILED_TARGET" => nil, "RAKUDA_ENGINE" => File.join(ROOT, "target", "release", "rakudad")).freeze

  class << self
    def real = ENV["RAKUDA_TEST_ENGINE"] || File.join(ROOT, "target", "release", "rakudad")

    def real? = File.executable?(real)

    # @param both [Boolean] also the fake one where the real one is
    # @yield [name, environment]
    def each(both: ENV["ON_FAKE"] == "all")
      yield "fake", COMMON.merge("RAKUDA_ENGINE" => File.join(ROOT, "test", "support", "fake_hub.rb")) if both || !real?
      if real?
        yield "real", COMMON.merge("RAKUDA_ENGINE" => real)
      else
        warn "the engine is not built: #{real}; the tests run on the fake hub alone"
      end
    end
  end
end
