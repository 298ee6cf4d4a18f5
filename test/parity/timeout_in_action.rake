#: run
require "timeout"
task :default do
  begin
    Timeout.timeout(0.05) { sleep 5 }
  rescue Timeout::Error => e
    puts "timeout #{e.class}"
  end
  p Timeout.timeout(5) { :fine }
end
