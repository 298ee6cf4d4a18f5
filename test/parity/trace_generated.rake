#: run -t
task default: %w[generate product last]
task(:generate) { sh "echo hi > source.txt" }
file("product" => "source.txt") { |t| sh "cp source.txt product" }
task(:last)
