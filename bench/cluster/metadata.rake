# frozen_string_literal: true

# TASKS small file tasks in chains of LENGTH. With GATE none begins before there is a file `go`.

LENGTH = Integer(ENV.fetch("LENGTH"))

task(:gate) { sleep 0.05 until File.exist?("go") }

task default: (Array.new(Integer(ENV.fetch("TASKS")) / LENGTH) do |number|
  (1..LENGTH).inject("src#{number}") do |source, step|
    file "step#{step}-#{number}" => [source, *(:gate if step == 1 && ENV["GATE"])] do |t|
      sh "cp", t.source, t.name
    end
    "step#{step}-#{number}"
  end
end)
