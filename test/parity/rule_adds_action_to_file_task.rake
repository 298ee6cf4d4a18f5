#: file x.c c
#: file x.h h
#: run
rule ".o" => ".c" do |t| sh "cp x.c #{t.name}" end
file "x.o" => "x.h"
task default: "x.o"
