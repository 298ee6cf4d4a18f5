#: run
task default: %w[generate product]
task(:generate) { sh "echo hi > source.txt" }
file "product" => "source.txt" do |t| sh "cp source.txt product" end
