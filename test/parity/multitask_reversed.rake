#: run
multitask default: %w[a b c] do puts "all" end
%w[a b c].each { |n| task(n) { puts n } }
