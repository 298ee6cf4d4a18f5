#: run server
#: run piped
#: run bad
#: run missing
task(:server) { exec "sh -c 'sleep 0.2 && echo served'" }
file("piped") { exec "(sleep 0.2; echo whole) | cat > piped" }
task(:bad) { exec "exit 3" }
task :missing do
  exec "/nonexistent"
rescue SystemCallError => e
  puts e.class
  sh "echo goes on"
end
