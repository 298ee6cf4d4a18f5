#: run
task :default do
  r, w = IO.pipe
  sh "echo through a pipe", out: w
  w.close
  puts r.read
  sh "echo group", pgroup: true
end
