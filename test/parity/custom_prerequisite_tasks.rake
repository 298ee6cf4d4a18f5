#: run
t = task(:default) { puts "default" }
task(:hidden) { puts "hidden" }
def t.prerequisite_tasks
  [Rake::Task[:hidden]]
end
