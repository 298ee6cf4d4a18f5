#: file in x
#: run
#: run
require "rake/phony"
file("out" => %w[phony in]) { |t| puts "making"; cp "in", t.name }
task default: "out"
