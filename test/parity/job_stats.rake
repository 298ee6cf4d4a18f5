#: run --job-stats
task(default: :a)
task(:a) { puts "a" }
