#: run
task default: %w[a missing]
task(:a) { puts "a" }
