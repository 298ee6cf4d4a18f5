#: run
class Backwards < Rake::Task
  def invoke_prerequisites(args, chain)
    prerequisite_tasks.reverse_each { |t| t.invoke_with_call_chain(args, chain) rescue t.invoke }
  end
end
Backwards.define_task(default: %w[a b]) { puts "done" }
task(:a) { puts "a" }
task(:b) { puts "b" }
