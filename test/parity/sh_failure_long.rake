#: run
task :default do sh "false && echo a very long command line that is cut at some point of its text" end
