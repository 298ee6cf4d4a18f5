#: run
task(:default) { throw :nothing }
