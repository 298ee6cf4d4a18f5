#: run
task :default do
  ruby "-e", "puts 1 + 1"
  ruby "-e 'puts 2'"
  ruby("-e 'exit 3'") { |ok, s| p s.exitstatus }
end
