#: file in x
#: run
#: run
file("out" => "in", order_only: "dir") { |t| cp "in", t.name }
directory "dir"
task default: "out"
