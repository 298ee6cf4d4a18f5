#: run
#: run -q
#: run -s
#: run -v
task :default do
  sh "echo one", verbose: false
  sh "echo two", noop: true
  verbose(false) { sh "echo three" }
  verbose(true) { sh "echo four" }
  nowrite(true) { sh "echo never"; touch "never" }
  sh "echo five"
  p verbose == Rake::FileUtilsExt::DEFAULT || verbose
end
