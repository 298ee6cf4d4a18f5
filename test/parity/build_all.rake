#: file in x
#: run
#: run -B
task default: "out"
file("out" => "in") { |t| cp t.source, t.name }
