#: file a.txt x
#: run package
require "rake/packagetask"
Rake::PackageTask.new("pack", "1.0") { |p| p.need_tar = true; p.package_files.include("a.txt") }
