#: run b a b
task(:a) { puts "a" }
task(b: :c) { puts "b" }
task(:c) { puts "c" }
