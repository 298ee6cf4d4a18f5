#: run
#: run other
task(:default) { sh "no-such-command-here with args" }
task(:other) { sh("no-such-command-here", "x") { |ok, s| p ok, s.exitstatus } }
