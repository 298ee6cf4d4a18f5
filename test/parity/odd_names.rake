#: run
#: run -P
["a b", "c'd", "e\"f", "g$h", "ü", "i\nj", "*"].each { |n| task(n) { |t| p t.name } }
task default: ["a b", "c'd", "e\"f", "g$h", "ü", "i\nj", "*"]
