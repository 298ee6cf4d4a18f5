#: file out x
#: run
file("out" => :plain) { |t| puts "making"; touch t.name }
task(:plain) { puts "plain" }
task default: "out"
