#: run
names = ["a b.txt", "ü.txt", "$x.txt", "new\nline.txt"]
names.each { |n| file(n) { |t| puts t.name; File.write(t.name, "x") } }
task default: names
