#: run
20.times { |i| task("t#{i}" => (i.zero? ? [] : "t#{i - 1}")) { puts i } }
task default: "t19"
