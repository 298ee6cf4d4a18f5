#: run
#: run -v
task :default do
  mkdir_p "x/y"
  touch "x/y/z"
  cp "x/y/z", "w"
  mv "w", "v"
  rm "v"
  rm_rf "x"
  when_writing("message") { puts "written" }
  safe_ln "Rakefile", "linked"
  p split_all("a/b/c")
end
