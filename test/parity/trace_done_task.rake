#: run -t
task(:default) { puts "OK" }.invoke
