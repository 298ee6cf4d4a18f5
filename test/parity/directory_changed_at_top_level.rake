#: run
#: run
task(:a) { puts "a" }
Rake::Task[:a].invoke
mkdir_p "sub"
cd "sub"
file("out") { touch "out" }
file("out2" => "out") { sh "cp out out2" }
task default: "out2"
