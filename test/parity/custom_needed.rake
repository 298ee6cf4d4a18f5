#: run
class Odd < Rake::Task
  def needed?; name != "odd2"; end
end
Odd.define_task(:odd1) { puts "odd1" }
Odd.define_task(odd2: :odd1) { puts "never" }
task default: %w[odd1 odd2]
