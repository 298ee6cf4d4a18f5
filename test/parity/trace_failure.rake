#: run -t
task default: :a
task(:a) { raise "no" }
