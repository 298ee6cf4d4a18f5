#: run
undefined_at_load
task :default
