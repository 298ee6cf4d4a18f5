#: run
task :default do
  puts "before"
  Rake::Task[:a].invoke
  Rake::Task[:a].invoke
  Rake::Task[:a].reenable
  Rake::Task[:a].invoke
  Rake::Task[:a].execute
  puts "after"
end
task(a: :b) { puts "a" }
task(:b) { puts "b" }
