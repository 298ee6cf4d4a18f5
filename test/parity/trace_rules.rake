#: file a.c
#: run -t --rules
#: run -t --rules
#: remove a.o
#: run --rules
#: run -t --rules deep
#: run -t --rules deep
rule(".o" => ".c") { |t| touch t.name }
rule(".x" => ".o") { |t| touch t.name }
task default: "a.x"
rule(".y" => ".x") { |t| touch t.name }
task deep: "a.y"
