#: file src/x.c int
#: run
directory "obj"
rule %r{^obj/.*\.o$} => ["%{^obj,src}X.c", "obj"] do |t|
  puts t.sources.inspect
  cp t.source, t.name
end
task default: "obj/x.o"
