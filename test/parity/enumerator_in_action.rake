#: run
task :default do
  e = Enumerator.new { |y| sh "echo one"; y << 1; sleep 0.01; y << 2 }
  p e.next, e.next
end
