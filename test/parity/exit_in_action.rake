#: run
#: run ab
task default: %w[a b]
task(:a) { puts "a"; exit 7 }
task(:b) { puts "never" }
task(:ab) { abort "aborted here" }
