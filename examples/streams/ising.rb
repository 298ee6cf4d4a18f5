# frozen_string_literal: true

# A simulation that writes a line for each step: the Ising model on an N x N lattice at one temperature (Metropolis,
# from a seed). Energy and magnetisation are per spin.
#
#     ruby ising.rb TEMPERATURE SWEEPS [N [SEED]]

temperature = Float(ARGV[0])
sweeps = Integer(ARGV[1])
n = Integer(ARGV[2] || 12)
random = Random.new(Integer(ARGV[3] || 1))
spins = Array.new(n * n, 1)
accept = [4, 8].to_h { |difference| [difference, Math.exp(-difference / temperature)] }
around = Array.new(n * n) do |i|
  x, y = i % n, i / n
  [(x + 1) % n + y * n, (x - 1) % n + y * n, x + (y + 1) % n * n, x + (y - 1) % n * n]
end

sweeps.times do |sweep|
  (n * n).times do
    i = random.rand(n * n)
    difference = 2 * spins[i] * around[i].sum { |j| spins[j] }
    spins[i] = -spins[i] if difference <= 0 || random.rand < accept[difference]
  end
  energy = -spins.each_index.sum { |i| spins[i] * (spins[around[i][0]] + spins[around[i][2]]) }
  puts "#{temperature} #{sweep} #{energy.fdiv(n * n)} #{spins.sum.fdiv(n * n)}"
end
