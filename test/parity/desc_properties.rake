#: run
desc "ncore=1 exclusive=yes what it does"
task(:default) { puts "ran" }
