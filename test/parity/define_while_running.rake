#: run
task :default do
  task(:late) { puts "late" }
  file("late.txt") { |t| touch t.name }
  Rake::Task[:late].invoke
  Rake::Task["late.txt"].invoke
end
