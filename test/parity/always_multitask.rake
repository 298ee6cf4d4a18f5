#: run -m
task(default: %w[a b]) { puts "all" }
task(a: %w[c d]) { puts "a" }
%w[b c d].each { |n| task(n) { puts n } }
