#: run
task default: %w[a b c] do puts "default" end
task(:a) { puts "a" }
task(b: :d) { puts "b" }
task(:c) { puts "c" }
task(:d) { puts "d" }
