#: run
task default: %w[generate x.o]
task(:generate) { sh "echo hi > x.c" }
rule(".o" => ".c") { |t| sh "cp #{t.source} #{t.name}" }
