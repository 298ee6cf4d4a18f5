#: run -T
#: run -T b
#: run -D
#: run -A -T
#: run -P
#: run -W
#: run --tasks=nothing
desc "First. Second sentence"
task :a, [:x, :y]
desc "A long description of what this is for and more of it so that it might be cut at some place or other"
task b: :a
namespace(:n) { desc "inner"; task :c }
task :hidden
