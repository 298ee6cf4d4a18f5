#: run
task default: :a
task a: :b
task(:b) { sh "false" }
