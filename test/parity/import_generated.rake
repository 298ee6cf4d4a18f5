#: run
#: run
file "gen.rake" do |t|
  puts "generating"
  File.write(t.name, "task(:default) { puts 'from generated' }\n")
end
import "gen.rake"
