#: file rakelib/x.rake task(:x) { puts "x" }
#: file lib2/y.rake task(:y) { puts "y" }
#: run x
#: run -R lib2 y
task :default
