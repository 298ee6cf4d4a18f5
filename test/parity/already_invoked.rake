#: run
task(:a) { |t| p t.already_invoked }
task(default: :a) { p Rake::Task[:a].already_invoked }
