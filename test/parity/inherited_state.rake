#: run niceness
#: run limits
#: run ignored
#: run deleted
#: run masked
task :niceness do
  Process.setpriority(Process::PRIO_PROCESS, 0, 7)
  sh "nice"
end
task :limits do
  Process.setrlimit(:NOFILE, 123)
  sh "ulimit -n;"
end
task :ignored do
  sh "kill -USR1 $$; echo alive" do |ok, _status|
    puts ok
  end
  trap("USR1", "IGNORE")
  sh "kill -USR1 $$; echo alive"
end
task :deleted do
  Dir.mkdir "folder"
  Dir.chdir("folder") do
    Dir.rmdir "../folder"
    sh "echo in a folder that is gone"
  end
end
File.umask(027)
task :masked do
  sh "umask;"
  File.umask(077)
  sh "umask;"
end
