#: run
task :default do
  sh("exit 4") { |ok, s| p ok, s.exitstatus, s.class }
  sh("true") { |ok, s| p ok, s.success? }
  sh("kill -9 $$") { |ok, s| p ok, s.signaled?, s.termsig }
  p $?.termsig
end
