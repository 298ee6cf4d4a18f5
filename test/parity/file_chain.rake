#: file in.txt hello
#: run
#: run
#: touch in.txt
#: run
task default: "out.txt"
file "out.txt" => "mid.txt" do |t|
  sh "cat #{t.source} > #{t.name}"
end
file "mid.txt" => "in.txt" do |t|
  sh "cat #{t.prerequisites.first} > #{t.name}"
end
