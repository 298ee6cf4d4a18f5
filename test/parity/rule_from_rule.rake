#: file x.y grammar
#: run
rule ".c" => ".y" do |t| sh "cp #{t.source} #{t.name}" end
rule ".o" => ".c" do |t| sh "cp #{t.source} #{t.name}" end
task default: "x.o"
