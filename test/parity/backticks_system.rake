#: run
task :default do
  puts `echo hi`
  p $?.exitstatus
  p system("exit 2"), $?.exitstatus
  p IO.popen("cat", "r+") { |io| io.write("x"); io.close_write; io.read }
  pid = spawn("exit 5")
  Process.wait(pid)
  p $?.exitstatus
end
