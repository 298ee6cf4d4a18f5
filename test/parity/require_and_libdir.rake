#: file lib/helper.rb HELP = "helped"
#: file lib/more.rake task(:more) { puts "more" }
#: run -I lib -r helper
#: run -I lib -r more more
#: run -r nothing
task(:default) { puts HELP }
