#: file sub/Rakefile task(:default) { puts Dir.pwd[-3..] }
#: run -C sub
task(:default) { puts "main" }
