#: run
task :default do
  puts "x
end
