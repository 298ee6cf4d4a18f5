#: stdin line one
#: run
task(:default) { puts $stdin.gets }
