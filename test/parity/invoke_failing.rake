#: run
task(:inner) { raise ArgumentError, "inner" }
task(:default) { Rake::Task[:inner].invoke }
