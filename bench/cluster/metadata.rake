# frozen_string_literal: true

# TASKS small file tasks in chains of two; none begins before there is a file `go`.

PAIRS = Integer(ENV.fetch("TASKS")) / 2

task(:gate) { sleep 0.05 until File.exist?("go") }

task default: (Array.new(PAIRS) do |number|
  file "mid#{number}" => ["src#{number}", :gate] do |t|
    sh "cp", t.source, t.name
  end
  file "end#{number}" => "mid#{number}" do |t|
    sh "cp", t.source, t.name
  end
  "end#{number}"
end)
