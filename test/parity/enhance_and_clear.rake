#: run
task(:a) { puts 1 }
task(:a) { puts 2 }
Rake::Task[:a].enhance([:b]) { puts 3 }
task(:b) { puts "b" }
task(:c) { puts "gone" }
Rake::Task[:c].clear
task(:c) { puts "new" }
task default: [:a, :c]
