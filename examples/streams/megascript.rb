# frozen_string_literal: true

# What the Rakefile beside it does, as a MegaScript program:
#
#     ruby -I ../../lib megascript.rb

require "fileutils"
require "rakuda/megascript"
include MegaScript

here = __dir__
sweeps = Integer(ENV["SWEEPS"] || 300)
FileUtils.mkdir_p("work")
temperatures = (ENV["TEMPERATURES"] || "1.0,1.8,2.2,2.4,3.0,4.0").split(",")
simulations = temperatures.each_with_index.map do |temperature, i|
  Task.new("ruby", "#{here}/ising.rb", temperature, sweeps, 12, i, cost: sweeps, output: "#{sweeps * 40}B")
end
stats = Task.new("ruby #{here}/stats.rb #{sweeps / 3} > work/stats.txt", file: "work/stats.txt")
first = Task.new("head -n 5 > work/first.txt", file: "work/first.txt")
count = Task.new("wc -l > work/count.txt", file: "work/count.txt")
plot = Task.new("ruby #{here}/plot.rb work/stats.txt > work/magnetisation.svg", file: "work/magnetisation.svg", after: stats)

lines = Stream.new(record: :line)
lines.in.concat(simulations)
lines.out << stats << first << count
Scheduler.add(*simulations, stats, first, count, plot, lines)
Scheduler.run
puts File.read("work/stats.txt"), "work/magnetisation.svg"
