# frozen_string_literal: true

# The benchmark montage as `rakudactl bench` runs it: a mosaic of N x N tiles with the Montage tools, every task a
# command, every edge a file (examples/montage is the same application as one would write it). TIMED names the program
# that notes the times of a command. Pixels are 1/1800 of a degree.

N, PIXELS = %w[N PIXELS].map { |name| Integer(ENV.fetch(name)) }
TIMED = ENV.fetch("TIMED")
# Of one tile in the next.
OVERLAP = PIXELS / 8
# Stars beyond the rim of a tile shed light into it.
RIM = 24
SCALE = 1.0 / 1800

TILES = (0...N).to_a.product((0...N).to_a)
def tile(folder, index) = format("%s/t_%02d_%02d.fits", folder, *index)
def area(file) = file.sub(/\.fits\z/, "_area.fits")

# A command line of the shell. All that it makes besides the first is named, too.
def made(outputs, inputs, line)
  first, *others = outputs
  needs outputs: others unless others.empty?
  file(first => inputs) { sh TIMED, "sh", "-c", line }
  others.each { |name| file(name => first) }
end

# A FITS header in gnomonic projection around 0, 0, as the tools read it.
def header(width, height, left, bottom)
  { "SIMPLE" => "T", "BITPIX" => -64, "NAXIS" => 2, "NAXIS1" => width, "NAXIS2" => height, "CTYPE1" => "'RA---TAN'",
    "CTYPE2" => "'DEC--TAN'", "CRVAL1" => 180.0, "CRVAL2" => 0.0, "CRPIX1" => left, "CRPIX2" => bottom, "CDELT1" => -SCALE,
    "CDELT2" => SCALE, "CROTA2" => 0.0, "EQUINOX" => 2000 }
    .map { |name, value| format("%-8s= %20s\n", name, value) }.join + "END\n"
end

%w[raw projected differences corrected].each { |folder| mkdir_p folder, verbose: false }
RAW = TILES.map { |index| tile("raw", index) }
PROJECTED = TILES.map { |index| tile("projected", index) }
CORRECTED = TILES.map { |index| tile("corrected", index) }
SIDE = (N * (PIXELS - OVERLAP)) + OVERLAP
LISTS = { "raw.lst" => RAW, "projected.lst" => PROJECTED, "corrected.lst" => CORRECTED }.freeze

# Stars in places that follow from their numbers, in Montage's table format.
task inputs: RAW do
  LISTS.each do |name, files|
    rows = files.map { |file| " #{File.basename(file).ljust(40)} \n" }
    File.write(name, "|#{"fname".ljust(40)}|\n#{rows.join}")
  end
end
file "sources.tbl" do |t|
  degrees = SIDE * SCALE
  rows = Array.new(N * N * 20) do |i|
    ra, dec = [[i * 0.618034, 180.0], [i * 0.7548777, 0.0]].map { |turn, middle| middle + (((turn % 1) - 0.5) * degrees) }
    format(" %12.6f %12.6f %12.4f \n", ra, dec, 100 + (i * 37 % 1000))
  end
  File.write(t.name, "|#{%w[ra dec flux].map { |name| name.rjust(12) }.join("|")}|\n#{rows.join}")
end
TILES.each do |index|
  file(tile("raw", index) => "sources.tbl") do |t|
    x, y = index.map { |i| i * (PIXELS - OVERLAP) }
    wide = PIXELS + (2 * RIM)
    File.write("#{t.name}.hdr", header(wide, wide, (SIDE / 2.0) - x + RIM, (SIDE / 2.0) - y + RIM))
    levels = Array.new(3) { |i| 50 + (((index[0] * 7) + (index[1] * 3) + i) % 11 * 5) }
    # The fourth makes a plane of them.
    corners = [*levels, levels[0] + levels[2] - levels[1]].map(&:to_s)
    sh "mMakeImg", "-n", "0.1", "-b", *corners, "-t", "sources.tbl", "flux", "4", "EQUJ", "2000", "1", "flux", "gaussian",
       "#{t.name}.hdr", "#{t.name}.wide", out: File::NULL
    sh "mSubimage", "-p", "#{t.name}.wide", t.name, RIM.to_s, RIM.to_s, (PIXELS - 1).to_s, (PIXELS - 1).to_s, out: File::NULL
    rm ["#{t.name}.hdr", "#{t.name}.wide"], verbose: false
  end
end

made(%w[raw.tbl], RAW + %w[raw.lst], "mImgtbl -t raw.lst raw raw.tbl >/dev/null")
made(%w[region.hdr], %w[raw.tbl], "mMakeHdr -n raw.tbl region.hdr >/dev/null")
TILES.each do |index|
  raw, projected = tile("raw", index), tile("projected", index)
  made([projected, area(projected)], [raw, "region.hdr"], "mProjectPP #{raw} #{projected} region.hdr >/dev/null")
end
made(%w[projected.tbl], PROJECTED + %w[projected.lst], "mImgtbl -t projected.lst projected projected.tbl >/dev/null")

# Neighbours, diagonal ones too; numbered as the table numbers them.
PAIRS = TILES.each_with_index.to_a.combination(2).select do |(one, _), (other, _)|
  (one[0] - other[0]).abs <= 1 && (one[1] - other[1]).abs <= 1
end
PLANES = PAIRS.map do |(one, i), (other, j)|
  difference, plane = format("differences/d_%06d_%06d.fits", i, j), format("differences/d_%06d_%06d.txt", i, j)
  tiles = [tile("projected", one), tile("projected", other)]
  line = "mDiff #{tiles.join(" ")} #{difference} region.hdr >/dev/null && " \
         "{ printf 'plus=#{i} minus=#{j} '; mFitplane #{difference}; } >#{plane}"
  made([plane, difference, area(difference)], [*tiles, *tiles.map { |file| area(file) }, "region.hdr"], line)
  plane
end

# mConcatFit's work, which Debian's package leaves out; and each tile's correction.
COLUMNS = %w[plus minus a b c crpix1 crpix2 xmin xmax ymin ymax xcenter ycenter npixel rms boxx boxy boxwidth boxheight
             boxang].freeze
AWK = <<~'TEXT'.tr("\n", " ").freeze
  BEGIN { n = split(names, name, " "); for (i = 1; i <= n; i++) printf "|%16s", name[i]; print "|" }
  { delete v; gsub(/[][,"]/, " "); for (f = 1; f <= NF; f++) { split($f, p, "="); v[p[1]] = p[2] }
  for (i = 1; i <= n; i++) printf " %16s", v[name[i]]; print " " }
TEXT
made(%w[fits.tbl], PLANES, "awk -v names='#{COLUMNS.join(" ")}' '#{AWK}' #{PLANES.join(" ")} >fits.tbl")
made(%w[corrections.tbl], %w[projected.tbl fits.tbl], "mBgModel -a projected.tbl fits.tbl corrections.tbl >/dev/null")
TILES.each_with_index do |index, number|
  projected, corrected = tile("projected", index), tile("corrected", index)
  plane = "$(awk '$1 == #{number} { print $2, $3, $4 }' corrections.tbl)"
  made([corrected, area(corrected)], [projected, area(projected), "corrections.tbl"],
       "mBackground #{projected} #{corrected} #{plane} >/dev/null")
end
made(%w[corrected.tbl], CORRECTED + %w[corrected.lst], "mImgtbl -t corrected.lst corrected corrected.tbl >/dev/null")
made(%w[mosaic.fits mosaic_area.fits], [*CORRECTED, *CORRECTED.map { |file| area(file) }, "corrected.tbl", "region.hdr"],
     "mAdd -e -p corrected corrected.tbl region.hdr mosaic.fits >/dev/null")
made(%w[small.fits], %w[mosaic.fits], "mShrink mosaic.fits small.fits 4 >/dev/null")
multitask mosaic: %w[small.fits mosaic.fits]

# Corrected tiles differ by their noise alone, and no more than before. A difference of two tiles has a noise of 0.14.
task check: CORRECTED do
  PAIRS.each do |(one, i), (other, j)|
    files = [one, other].map { |index| tile("corrected", index) }
    planes = [format("differences/d_%06d_%06d.txt", i, j), "check.txt"]
    sh "mDiff #{files.join(" ")} check.fits region.hdr >/dev/null && mFitplane check.fits >check.txt", verbose: false
    before, after = planes.map { |file| File.read(file)[/ c=([-+.\de]+)/, 1].to_f.abs }
    rms = File.read("check.txt")[/ rms=([-+.\de]+)/, 1].to_f
    next if after < 1 && rms < 1 && after <= [before, 0.5].max

    raise "#{files.join(" and ")} differ by #{after} with an rms of #{rms} after correction"
  end
  rm %w[check.fits check_area.fits check.txt], force: true, verbose: false
end
