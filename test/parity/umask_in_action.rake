#: run
task default: %i[narrow usual]
task(:narrow) { File.umask(0o077); sh "touch a"; p File.stat("a").mode.to_s(8); sh "sh -c umask", umask: 0 }
task(:usual) { File.umask(0o022); sh "touch b"; p File.stat("b").mode.to_s(8) }
