#: run
task :default do
  sh({ "X" => "1 2" }, "echo $X")
  sh({ "X" => "3" }, "sh", "-c", "echo $X")
  ENV["Y"] = "yes"
  sh "echo $Y"
  sh({ "Y" => nil }, "echo ${Y-unset}")
  ENV.delete("Y")
  sh "echo ${Y-unset}"
end
