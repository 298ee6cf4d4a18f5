#: file d/x y
#: run
task :default do
  cd "d" do
    sh "cat x"
    p File.exist?("x")
    mkdir "e"
    Dir.chdir("e") { sh "basename $PWD"; p Dir.pwd[-4..] }
  end
  sh "cat d/x"
  p Dir.pwd == Rake.original_dir
end
