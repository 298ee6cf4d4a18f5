#: run COUNT=3
task(:default) { puts ENV["COUNT"], ENV.key?("RETRY") }
