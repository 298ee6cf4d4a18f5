#: run
task :default do
  $stdout.flush
  pid = fork { sh "echo in child"; exit! 3 }
  Process.wait(pid)
  p $?.exitstatus
end
