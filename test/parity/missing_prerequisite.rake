#: run
#: run nothing
task default: :alpha
task alpha: "alpah"
