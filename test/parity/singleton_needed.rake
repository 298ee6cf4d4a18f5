#: run
task(:a) { puts "never" }
def (Rake::Task[:a]).needed?
  false
end
task(default: :a) { puts "default" }
