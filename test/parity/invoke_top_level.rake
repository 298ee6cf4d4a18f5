#: run other
task(a: :b) { puts "a" }
task(:b) { puts "b" }
Rake::Task[:a].invoke
task(other: :a) { puts "other" }
puts "loaded"
