#: run -t
task default: %w[x y]
task(:x) { Rake::Task[:y].invoke }
task(y: :z) { puts "y" }
task(:z)
