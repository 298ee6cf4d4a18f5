#: file in x
#: run
#: run
class Summed < Rake::FileTask
  def needed?; !File.exist?(name) || File.read(name) != File.read("in"); end
end
Summed.define_task("sum" => "in") { |t| puts "sum"; cp "in", t.name }
file("after" => "sum") { |t| puts "after"; cp "sum", t.name }
task default: "after"
