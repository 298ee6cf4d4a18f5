#: file in x
#: run -n
task default: %w[a out]
task(:a) { puts "never" }
multitask(m: :a)
file("out" => %w[in m]) { |t| cp t.source, t.name }
