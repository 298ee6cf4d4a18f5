# frozen_string_literal: true

# Tasks that do next to nothing. HOSTS says how many hosts there are, TASKS how many tasks.

HOSTS = Integer(ENV.fetch("HOSTS", "1"))
TASKS = Integer(ENV.fetch("TASKS", "1"))

# One task for each host, that says when its command ran: ns since 1970.
stamps = (1..HOSTS).map do |number|
  desc "allow=host#{number}"
  task("stamp#{number}") { sh "date +%s%N > stamp.#{number}" }
  "stamp#{number}"
end
task stamps: stamps
task(:stamp) { sh "date +%s%N > stamp.1" }

# Independent ones begin when each host has run something.
presence = (1..HOSTS).map do |number|
  desc "allow=host#{number}" if ENV["HOSTS"]
  task("present#{number}") { sh "true" }
  "present#{number}"
end
task present: presence

TASKS.times do |number|
  task("process#{number}" => :present) { sh "true" }
  task("ruby#{number}" => :present) { nil }
end
task all_process: Array.new(TASKS) { |number| "process#{number}" }
task all_ruby: Array.new(TASKS) { |number| "ruby#{number}" }

# Chains: each task after the one before, on one host, on the next host of the first two, and with files.
host = ->(number) { ENV["HOSTS"] ? "allow=host#{number}" : nil }
TASKS.times do |number|
  before = number.zero? ? :present : "stay#{number - 1}"
  desc host[1] if host[1]
  task("stay#{number}" => before) { sh "true" }

  before = number.zero? ? :present : "move#{number - 1}"
  desc host[1 + (number % 2)] if host[1]
  task("move#{number}" => before) { sh "true" }

  before = number.zero? ? :present : "file#{number - 1}"
  desc host[1 + (number % 2)] if host[1]
  file("file#{number}" => before) { |t| sh "echo #{number} > #{t.name}" }
end
