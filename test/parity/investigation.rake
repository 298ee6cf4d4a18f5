#: run
task(:a)
task(:default) { puts Rake::Task[:default].name, Rake::Task[:a].full_comment.inspect, Rake::Task.task_defined?(:a) }
