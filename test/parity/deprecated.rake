#: run
#: run -X
Rake.application.deprecate("old", "new", "here")
task :default
