#: run
task :default do
  [-> { sh({ "A" => 1 }, "echo x") }, -> { sh({ "A" => "1", :B => "2" }, "echo x") }, -> { sh({ "A=b" => "1" }, "echo x") },
   -> { sh "echo a\0b" }, -> { sh "echo", "a\0b" }, -> { cd "nowhere" }, -> { cd("nowhere") { puts "never" } }].each do |wrong|
    wrong.call
  rescue StandardError => e
    puts "#{e.class}: #{e.message}"
  end
end
