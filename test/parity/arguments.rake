#: run greet[you,there,extra]
#: run greet
#: run greet[]
task :greet, [:who, :where] => :prepare do |t, args|
  args.with_defaults(who: "nobody")
  puts args.who, args.where.inspect, args.extras.inspect, args.to_a.inspect, args.to_h.inspect
end
task :prepare, [:where] do |t, args|
  puts "prepare #{args.where.inspect} #{args[:who].inspect} #{args.to_a.inspect} #{args.inspect}"
end
