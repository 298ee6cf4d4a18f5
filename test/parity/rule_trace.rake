#: file x.c c
#: run --rules
rule ".o" => ".c" do |t| cp t.source, t.name end
task default: "x.o"
