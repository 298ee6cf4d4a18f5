#: run
#: run
task(default: :away) { sh "touch here"; Rake::Task["f"].invoke; p File.exist?("g"), File.basename(Dir.pwd) }
task(:away) { mkdir_p "d"; cd("d") { sh "touch inside"; Rake::Task["g"].invoke }; mkdir_p "e"; cd "e" }
file("f") { touch "f"; cd "../d" }
file("g" => "h") { touch "g" }
file("h") { touch "h" }
