#: file s2300 x
#: file s2400 x
#: file s2400_1ns x
#: file s1950 x
#: file t2300 x
#: file t2400 x
#: file t2400_later x
#: file t1940 x
#: file t1950 x
#: run -t
#: run -n -t
#: run -t early late far now

# Nanoseconds of 64 bits end in 2262: files beyond are still older and newer than one another.
def dated(name, time)
  File.utime(time, time, name)
  file(name) { puts "made #{name}" } if name.start_with?("t")
end

nanosecond = Rational(1, 1_000_000_000)
dated "s2300", Time.utc(2300)
dated "s2400", Time.utc(2400)
dated "s2400_1ns", Time.at(Time.utc(2400).to_i + nanosecond)
dated "s1950", Time.utc(1950)
dated "t2300", Time.utc(2300)
dated "t2400", Time.utc(2400)
dated "t2400_later", Time.at(Time.utc(2400).to_i + (2 * nanosecond))
dated "t1940", Time.utc(1940)
dated "t1950", Time.utc(1950)

file "t2300" => "s2400"                   # newer by a century: runs
file "t2400" => %w[s2300 s2400_1ns]       # newer by a nanosecond: runs
file "t2400_later" => %w[s2300 s2400_1ns] # older by a nanosecond: does not
file "t1940" => "s1950"                   # runs
file "t1950" => "s1950"                   # as old: does not
task default: %w[t2300 t2400 t2400_later t1940 t1950]

# Tasks that say themselves how old they are.
class Dated < Rake::Task
  attr_writer :timestamp

  def needed?
    false
  end

  def timestamp
    @timestamp
  end
end

def far_file(name)
  File.write(name, "x")
  File.utime(Time.utc(2400), Time.utc(2400), name)
  name
end

{ early: Rake::EARLY, late: Rake::LATE, far: Time.utc(2399), farther: Time.utc(2401) }.each do |name, time|
  Dated.define_task("of_#{name}").timestamp = time
  file(far_file("by_#{name}") => "of_#{name}") { puts "made by_#{name}" }
end
task plain: []
file(far_file("by_plain") => "plain") { puts "made by_plain" }
task early: "by_early"
task late: "by_late"
task far: %w[by_far by_farther]
task now: "by_plain"
