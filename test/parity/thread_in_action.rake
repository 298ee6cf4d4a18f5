#: run
task :default do
  q = Queue.new
  t = Thread.new { sleep 0.01; sh "echo in thread"; Rake::Task[:a].invoke; q << 1 }
  p q.pop
  t.join
end
task(:a) { puts "a" }
