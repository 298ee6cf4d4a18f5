#: file d/f inside
#: run
task :default do
  sh "cat f", chdir: "d"
  sh "echo out; echo err >&2", out: "o.txt", err: [:child, :out]
  puts File.read("o.txt")
  sh "echo more", out: ["o.txt", "a"]
  puts File.read("o.txt")
  sh "cat", in: "o.txt"
  sh "echo to stderr", out: :err
  sh "echo gone", out: "/dev/null"
  sh "echo gone >&2", err: :close rescue p $!.class
  sh "echo both; echo both >&2", [:out, :err] => "b.txt"
  puts File.read("b.txt")
  sh "umask;", umask: 0o77
  sh({ "ONLY" => "me" }, "echo $ONLY${HOME}", unsetenv_others: true)
end
