#: stdin line one
#: run
task(:default) { sh "cat" }
