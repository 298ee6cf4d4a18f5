#: remove Rakefile
#: run
task :default
