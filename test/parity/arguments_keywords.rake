#: run greet[you]
task :greet, [:who] do |t, args, who: "default"|
  puts who
end
