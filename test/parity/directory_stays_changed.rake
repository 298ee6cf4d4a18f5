#: file d/x y
#: run
task default: %w[a b]
task(:a) { cd "d" }
task(:b) { sh "cat x" }
