#: run -n
task default: %w[a missing]
task(:a) { puts "never" }
