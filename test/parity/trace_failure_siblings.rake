#: run -t
task(:a) { raise "no" }
task(:b) { puts "b" }
task default: %i[a b]
