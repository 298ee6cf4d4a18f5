#: run
#: run a:b:x
namespace :a do
  task(:x) { puts "a:x" }
  namespace :b do
    task(x: "^x") { puts "a:b:x" }
    task(y: :x) { puts "a:b:y" }
    task(z: "rake:x") { puts "a:b:z" }
  end
end
task(:x) { puts "x" }
task default: %w[a:b:y a:b:z]
