#: run
#: run top
task(:default) { sh "echo before"; $stdout.reopen("out.txt", "w"); sh "echo inside"; puts "ruby"; sh "echo after" }
at_exit { $stderr.puts File.read("out.txt") if File.exist?("out.txt") }
task(:first) { sh "echo first" }
if ARGV.include?("top")
  Rake::Task[:first].invoke
  STDERR.reopen("err.txt", "w")
end
task(:top) { sh "echo hidden >&2"; STDOUT.puts File.read("err.txt") }
