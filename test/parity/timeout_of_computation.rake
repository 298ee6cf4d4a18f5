#: run
require "timeout"
task :default do
  Timeout.timeout(0.1) { loop { 1 + 1 } }
rescue Timeout::Error => e
  puts "#{e.class}: #{e.message}"
  begin
    Timeout.timeout(0.1) { Enumerator.new { |y| sleep 60; y << 1 }.next }
  rescue Timeout::Error
    puts "again"
  end
  sh "echo goes on"
  Timeout.timeout(60) { sh "true" }
end
