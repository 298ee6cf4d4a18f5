#: run
task :default do
  other = Rake.with_application { |app| Rake::Task.define_task(:inner) { puts "inner" } }
  other["inner"].invoke
end
