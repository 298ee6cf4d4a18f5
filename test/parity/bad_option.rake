#: run --no-such-option
#: run -T x y
task :default
