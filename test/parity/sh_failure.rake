#: run
task :default do sh "exit 3" end
