#: file x.c c
#: file x.h h
#: run
rule ".o" => [".c", ".h"] do |t|
  puts t.sources.join(",")
  sh "cat #{t.sources.join(' ')} > #{t.name}"
end
task default: "x.o"
