# frozen_string_literal: true

# How far is a mosaic from the true sky? Reads the difference of the two (a FITS image of 64-bit floats), takes out one
# plane, which a background model cannot know, and prints as JSON what is left:
#   rms          of the pixels, those beyond three sigma clipped
#   block_range  greatest minus least median of the blocks of 32 x 32 pixels
#   block_step   greatest difference of neighbouring blocks' medians: seams show up here
#   pixels       number of pixels looked at (every seventh)
#
#     ruby residuals.rb residual.fits
require "json"

BLOCK = 32
SAMPLE = 7            # every so manieth pixel is looked at
BLOCK_PIXELS_MIN = 60 # a block with fewer is left out
CLIP_ROUNDS = 8

# Yields the width, then each row of the image as an array of numbers.
def read_image(path)
  File.open(path, "rb") do |file|
    cards = {}
    loop do
      record = file.read(2880) or raise "#{path}: the header has no end"
      lines = record.scan(/.{80}/m)
      lines.each { |line| cards[line[0, 8].strip] = line[10..].split("/").first.to_s.strip if line[8, 2] == "= " }
      break if lines.any? { |line| line.strip == "END" }
    end
    raise "#{path}: not 64-bit floats" unless cards["BITPIX"] == "-64"

    width, height = Integer(cards["NAXIS1"]), Integer(cards["NAXIS2"])
    height.times do |y|
      bytes = file.read(width * 8)
      raise "#{path}: cut short in row #{y}" unless bytes && bytes.bytesize == width * 8

      yield bytes.unpack("G*"), y, width
    end
  end
end

# Three lists: x (columns), y (heights) and value of every seventh pixel that has a value.
def samples(path)
  columns, heights, values = [], [], []
  read_image(path) do |row, y, width|
    (-(y * width) % SAMPLE).step(width - 1, SAMPLE) do |x|
      value = row[x]
      next if value.nan?

      columns << x
      heights << y
      values << value
    end
  end
  [columns, heights, values]
end

# Solves three linear equations given as rows of four numbers (Gauss, with pivots).
def solve(rows)
  3.times do |i|
    pivot = (i..2).max_by { |r| rows[r][i].abs }
    rows[i], rows[pivot] = rows[pivot], rows[i]
    3.times do |r|
      next if r == i

      factor = rows[r][i] / rows[i][i]
      rows[r] = rows[r].zip(rows[i]).map { |u, w| u - factor * w }
    end
  end
  rows.each_with_index.map { |row, i| row[3] / row[i] }
end

# Least-squares plane a x + b y + c through the samples numbered in `chosen`.
def fit_plane(columns, heights, values, chosen)
  sx = sy = sz = sxx = syy = sxy = sxz = syz = 0.0
  chosen.each do |i|
    x, y, z = columns[i], heights[i], values[i]
    sx += x
    sy += y
    sz += z
    sxx += x * x
    syy += y * y
    sxy += x * y
    sxz += x * z
    syz += y * z
  end
  solve([[sxx, sxy, sx, sxz], [sxy, syy, sy, syz], [sx, sy, chosen.size.to_f, sz]])
end

# The values with the plane taken out, and their clipped rms. The plane and the rms come from every seventh sample:
# enough for three numbers, and the rounds of clipping are where the time goes.
def without_plane(columns, heights, values)
  candidates = (0...values.size).step(SAMPLE).to_a
  chosen = candidates
  a = b = c = rms = nil
  CLIP_ROUNDS.times do
    a, b, c = fit_plane(columns, heights, values, chosen)
    distance = ->(i) { values[i] - a * columns[i] - b * heights[i] - c }
    rms = Math.sqrt(chosen.sum { |i| distance.call(i)**2 } / chosen.size)
    limit = 3 * rms + 1e-12
    kept = candidates.select { |i| distance.call(i).abs < limit }
    break if kept.size == chosen.size

    chosen = kept
  end
  [values.each_with_index.map { |z, i| z - a * columns[i] - b * heights[i] - c }, rms]
end

def block_medians(columns, heights, left)
  blocks = Hash.new { |hash, key| hash[key] = [] }
  left.each_with_index { |value, i| blocks[((heights[i] / BLOCK) << 20) | (columns[i] / BLOCK)] << value }
  blocks.select { |_, list| list.size > BLOCK_PIXELS_MIN }.transform_values { |list| list.sort[list.size / 2] }
end

columns, heights, values = samples(ARGV.fetch(0))
raise "#{ARGV[0]}: no pixel has a value" if values.empty?

left, rms = without_plane(columns, heights, values)
medians = block_medians(columns, heights, left)
raise "#{ARGV[0]}: too small for blocks of #{BLOCK} x #{BLOCK} pixels" if medians.empty?

steps = medians.flat_map { |key, median| [key + 1, key + (1 << 20)].map { |near| medians[near] && (median - medians[near]).abs } }
puts JSON.generate(
  "rms" => rms, "block_range" => medians.values.max - medians.values.min,
  "block_step" => steps.compact.max || 0.0, "pixels" => values.size
)
