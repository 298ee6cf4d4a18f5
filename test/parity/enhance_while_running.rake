#: run
task default: %w[a b]
task(:a) { task(b: :extra) { puts "b too" } }
task(:b) { puts "b" }
task(:extra) { puts "extra" }
