#: file other.rb task(:default) { puts "other" }
#: run -f other.rb
#: run -f nothing
task(:default) { puts "main" }
