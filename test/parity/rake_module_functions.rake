#: run
task :default do
  Rake.sh "echo through Rake"
  RakeFileUtils.sh "echo through RakeFileUtils"
  FileUtils.touch "plain"
  Rake.rake_output_message "message"
end
