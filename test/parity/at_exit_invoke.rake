#: run
#: run missing
at_exit { Rake::Task[:late].invoke }
at_exit { Rake::Task[:last].invoke }
task(:default) { sh "echo default" }
task(late: %i[default last]) { sh "echo late" }
task(last: :default) { sh "echo last" }
