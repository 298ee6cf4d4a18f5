#: run
task default: %w[a c]
task(:a) { puts "a begins"; Rake::Task[:c].invoke; puts "a ends" }
task(c: :b) { puts "c" }
task(:b) { puts "b" }
