#: run
task("a:b:c") { |t| puts t.name }
namespace "a" do task(d: "b:c") { |t| puts t.name } end
task default: "a:d"
