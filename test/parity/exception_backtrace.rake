#: run
#: run --backtrace
#: run --suppress-backtrace block
def helper
  raise ArgumentError, "bad thing"
end
task(:default) { helper }
