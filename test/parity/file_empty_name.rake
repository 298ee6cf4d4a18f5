#: run
#: run ""
file("") { |t| puts "made #{t.name.inspect}" }
task(default: "") { puts "default" }
