#: run
task :default do
  Rake::Task["a"].invoke("1", "2")
  Rake::Task["a"].execute(x: 5)
  Rake::Task["a"].execute(Rake::TaskArguments.new([:x], ["7"]))
end
task(:a, [:x, :y]) { |t, args| p args.to_h }
