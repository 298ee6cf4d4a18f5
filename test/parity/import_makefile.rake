#: file dep.mf a.o: a.c b.h\\\n
#: file a.c x
#: file b.h y
#: run
require "rake/loaders/makefile"
import "dep.mf"
rule(".o" => ".c") { |t| puts t.prerequisites.inspect; cp t.source, t.name }
task default: "a.o"
