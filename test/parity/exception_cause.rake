#: run
task :default do
  begin
    raise "first"
  rescue
    raise TypeError, "second"
  end
end
