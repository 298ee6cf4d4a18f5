#: run
task default: :a
task a: :b
task b: :c
task c: :a
