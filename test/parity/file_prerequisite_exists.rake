#: file plain.txt x
#: run -t
task default: "plain.txt"
