# frozen_string_literal: true

# Reads lines of ising.rb from several simulations, in any order of these; writes for each temperature how many there
# were, the mean energy, the mean of the magnetisation's amount, and the heat capacity per spin.
#
#     ruby stats.rb SKIPPED_SWEEPS [SPINS] < lines > table

skipped = Integer(ARGV[0])
spins = Integer(ARGV[1] || 144)
sums = Hash.new { |hash, temperature| hash[temperature] = [0, 0.0, 0.0, 0.0] }
$stdin.each_line do |line|
  temperature, sweep, energy, magnetisation = line.split
  next if sweep.to_i < skipped

  sum = sums[temperature.to_f]
  sum[0] += 1
  sum[1] += energy.to_f
  sum[2] += energy.to_f**2
  sum[3] += magnetisation.to_f.abs
end
sums.sort.each do |temperature, (count, energy, squares, magnetisation)|
  mean = energy / count
  heat = spins * (squares / count - mean**2) / temperature**2
  puts format("%.2f %d %.4f %.4f %.4f", temperature, count, mean, magnetisation / count, heat)
end
