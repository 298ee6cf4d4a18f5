#: run
task(:default) { $stdout.print "partial "; sh "echo whole"; $stdout.puts "rest"; $stderr.puts "err" }
