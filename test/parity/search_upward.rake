#: file sub/deep/x y
#: in sub/deep
#: run
#: run -s
#: run -N
task(:default) { puts Dir.pwd == __dir__ }
