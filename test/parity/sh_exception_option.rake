#: run
task :default do
  sh "false", exception: true
end
