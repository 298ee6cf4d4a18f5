#: run -e "puts 1+1"
#: run -p 3*4
#: run -E "Rake::Task.define_task(:default){puts 5}"
task(:default) { puts "default" }
