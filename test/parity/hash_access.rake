#: run
task :default do
  Rake.application.tasks.each { |t| puts t.name }
  p Rake.application.name .size > 3
  p Rake.application.top_level_tasks
end
