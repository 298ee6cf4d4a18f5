#: file x.c int
#: run
#: run
rule ".o" => ".c" do |t|
  sh "cp #{t.source} #{t.name}"
end
file "prog" => %w[x.o] do |t|
  sh "cat #{t.prerequisites.join(' ')} > #{t.name}"
end
task default: "prog"
