#: run n:install
task(:install) { puts "top install" }
namespace :n do
  task(install: :install) { puts "n:install" }
end
