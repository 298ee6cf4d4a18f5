#: file o.txt 0123456789
#: run
# Each way to open a file, as text or not: what is kept of what was there, and where is written.
task :default do
  show = ->(name) { puts "#{name}: #{File.exist?(name) ? File.read(name) : "none"}" }
  ["r", "rb", "r+"].each { |mode| sh "cat", in: ["o.txt", mode] }
  sh "echo ab", out: ["o.txt", "r+"]
  show["o.txt"]
  ["w", "w+", "a", "a+", "ab".b].each do |mode|
    2.times { sh "echo #{mode}", out: [File.join("d", mode), mode] } rescue p $!.class
    mkdir_p "d", verbose: false
    2.times { sh "echo #{mode}", out: [File.join("d", mode), mode] }
    show[File.join("d", mode)]
    rm_r "d", verbose: false
  end
  ["r", "r+"].each { |mode| sh("cat", in: ["missing", mode]) { |ok, _| p ok } rescue p $!.class }
  sh "cat; echo c >&0", in: ["o.txt", "r+"]
  sh "cat; echo d >&0", in: ["o.txt", "a+"]
  show["o.txt"]
end
