#: run
task :default do
  sh "echo", "a b", "$HOME", "*"
  sh ["echo", "other"], "x"
  sh("sh", "-c", "exit 2") { |ok, s| p s.exitstatus }
end
