# frozen_string_literal: true

# Prints a file of one kind for the compressors: text (words of uneven frequency), table (measurements that change
# slowly) or noise (cannot be compressed). The same seed gives the same bytes.
#
#     ruby generate.rb text 1048576 1 > file

WORDS = 2000

def words(random)
  list = Array.new(WORDS) { Array.new(random.rand(2..9)) { random.rand(97..122).chr }.join }
  # The square of a uniform number: the first words are the most frequent.
  -> { "#{list[(random.rand**2 * WORDS).to_i]}#{random.rand < 0.1 ? "\n" : ' '}" }
end

def measurements(random)
  time, value = 0, 20.0
  lambda do
    time += 10
    value += random.rand(-0.5..0.5)
    format("%d,%.2f,%s\n", time, value, %w[ok ok ok ok late].sample(random: random))
  end
end

kind, size, seed = ARGV
random = Random.new(Integer(seed))
piece = { "text" => words(random), "table" => measurements(random), "noise" => -> { random.bytes(4096) } }.fetch(kind)
content = +"".b
content << piece.call while content.bytesize < Integer(size)
$stdout.binmode.write(content[0, Integer(size)])
