#: file src/x.c int
#: run
rule(/\.o$/ => [proc { |n| n.sub(/\.o$/, ".c").sub(/^/, "src/") }]) do |t|
  sh "cp #{t.source} #{t.name}"
end
task default: "x.o"
