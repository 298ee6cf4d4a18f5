#: file x.c c
#: run
task(:first) { puts "first" }
rule ".o" => ".c", order_only: "first" do |t| cp t.source, t.name end
task default: "x.o"
