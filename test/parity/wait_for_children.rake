#: run all
#: run none
#: run thread
task :all do
  3.times { spawn "true" }
  p Process.waitall.size
end
task :none do
  Process.wait
rescue SystemCallError => e
  p e.class
end
task :thread do
  Thread.new do
    2.times { spawn "true" }
    p Process.waitall.size
  end.join
end
