#: file in x
#: run -t
#: run -t
#: run --trace=stdout
task default: %w[a out b]
task(a: :b) { puts "a" }
task(:b) { puts "b" }
file("out" => "in") { |t| cp t.source, t.name }
