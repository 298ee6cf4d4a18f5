#: run
rule(/a(\d+)$/ => [proc { |n| n.succ }]) { |t| touch t.name }
task default: "a1"
