# frozen_string_literal: true

# examples/copyfile, but no copy begins before each host has run something: who came first would take what belongs to
# others, and what is compared is the order of tasks, not the start of hosts. HOSTS says how many there are.

load File.expand_path("../../examples/copyfile/Rakefile", __dir__)

presence = (1..Integer(ENV.fetch("HOSTS"))).map do |number|
  desc "allow=host#{number}"
  task("host#{number}") { sh "true" }
  "host#{number}"
end
task gather: presence

COPIES_A.each { |copy| file copy => :gather }
