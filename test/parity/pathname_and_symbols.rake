#: run
require "pathname"
file(Pathname("p.txt")) { |t| touch t.name }
task(default: [:s, Pathname("p.txt")])
task("s") { |t| p t.name }
