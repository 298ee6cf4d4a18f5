#: run
task(:bad) { puts "bad"; raise "oops" }
task(dep: :bad) { puts "never" }
task :default do
  begin
    Rake::Task[:bad].invoke
  rescue => e
    puts "rescued #{e.message}"
  end
  begin
    Rake::Task[:dep].invoke
  rescue => e
    puts "again #{e.message}"
  end
end
