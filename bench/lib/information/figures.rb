# frozen_string_literal: true

require "fileutils"

$LOAD_PATH.unshift(File.expand_path("../../../lib", __dir__))
require "rakuda/bench/plots"
require "rakuda/bench/scaling"

module Information
  # What was measured, beside what the paper says, as SVG: bars on a logarithmic axis. It measures nothing.
  class Figures
    # Of the paper, ms: what it has measured, what it expects, and whom it cites.
    SIXTY_FOUR = { "paper: cached" => 500, "paper: uncached" => 900 }.freeze
    FIVE_HUNDRED = { "paper" => 500, "MDS" => 20_000, "Hawkeye" => 30_000 }.freeze
    PROVIDERS = { [1, 64] => { "paper: uncached" => 6000 },
                  [64, 64] => { "paper: cached" => 500, "paper: uncached" => 15_000 } }.freeze

    def initialize = @all = {}

    # @param rows [Array] nodes, KB a node, and times in ms by name
    def data(rows)
      bars = rows.flat_map do |nodes, kilobytes, times|
        told = [nodes, kilobytes] == [64, 32] ? SIXTY_FOUR : {}
        bars("#{nodes} x #{kilobytes} KB", times.merge(told))
      end
      add("data", "experiments 1 and 2: nodes x KB of each, from the request to the last byte", bars)
    end

    # @param rows [Array] nodes, times of 62 KB more in ms by name
    def slopes(rows)
      add("slopes", "table 1: 62 KB more of each node", rows.flat_map { |nodes, times| bars("#{nodes} nodes", times) })
    end

    # @param rows [Array] nodes, programs of each, times in ms by name
    def providers(rows)
      bars = rows.flat_map do |nodes, programs, times|
        bars("#{nodes} x #{programs}", times.merge(PROVIDERS.fetch([nodes, programs], {})))
      end
      add("providers", "experiment 3: nodes x programs of each", bars)
    end

    # @param rows [Array] nodes, services, KB a node, times in ms by name
    def swarms(rows)
      bars = rows.flat_map do |nodes, services, kilobytes, times|
        told = [nodes, kilobytes] == [500, 32] ? FIVE_HUNDRED : {}
        bars("#{nodes}/#{services} #{kilobytes} KB", times.merge(told))
      end
      add("swarms", "nodes/services, KB of each; MDS and Hawkeye as the paper cites them", bars)
    end

    # @return [Array<String>] files
    def write(folder)
      FileUtils.mkdir_p(folder)
      @all.map { |name, svg| File.join(folder, "#{name}.svg").tap { |file| File.write(file, svg) } }
    end

    private

    def bars(label, times)
      times.compact.filter_map do |name, time|
        Rakuda::Bench::Plots::Bar.new("#{label}, #{name}", time * 1000, [], text_of(time * 1000)) if time.positive?
      end
    end

    # @param time [Numeric] in microseconds: what is less than 1 has no place on a logarithmic axis
    def text_of(time) = "#{time < 100_000 ? format("%.3g", time / 1000.0) : (time / 1000.0).round} ms"

    def add(name, title, bars)
      return if bars.empty?

      @all[name] = Rakuda::Bench::Plots.draw("#{title} (logarithmic)", bars, logarithmic: true, unit: method(:text_of))
    end
  end
end
