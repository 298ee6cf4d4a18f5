#: run
task :default do
  p sh("true"), sh("true", verbose: false), sh("echo", "x")
  p(sh("true") { |ok, s| :block })
  p sh("true", noop: true)
end
