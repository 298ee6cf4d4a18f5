# frozen_string_literal: true

# A made-up sky: where the stars are, and how each tile looks at them (position, rotation, background). The same seed
# gives the same sky. It writes texts only; the pixels are mMakeImg's.
class SyntheticSky
  # Degrees per pixel (1 arc second), and the sky's centre in degrees.
  SCALE = 0.000277778
  CENTRE = [180.0, 10.0].freeze
  # Pixels that a tile is made larger on each side, then cut off.
  RIM = 24
  # One star per so many pixels.
  PIXELS_PER_STAR = 1500

  # name; position in degrees; rotation in degrees; background at the four corners, counter-clockwise from the lower
  # left.
  Tile = Struct.new(:name, :longitude, :latitude, :rotation, :corners)

  attr_reader :pixels, :columns, :tiles

  # images: number of tiles, laid out in rows, the last row possibly not full; pixels: of a tile's side;
  # overlap: pixels shared with the neighbour (nil: a quarter).
  def initialize(images:, pixels:, overlap: nil, seed: 1)
    @images = images
    @pixels = pixels
    @overlap = overlap || (pixels / 4)
    @seed = seed
    @columns = Math.sqrt(images).ceil
    @rows = (images.to_f / @columns).ceil
    raise ArgumentError, "#{images} images: at least two are needed, for one has no neighbour" if images < 2
    raise ArgumentError, "overlap #{@overlap} is not within the tile's #{pixels} pixels" unless (1...pixels).cover?(@overlap)

    @tiles = make_tiles
  end

  # A text that differs when the sky differs.
  def description
    "images #{@images} pixels #{@pixels} overlap #{@overlap} seed #{@seed}"
  end

  # The stars, as a table for mMakeImg: positions at random, fluxes from a power law (few bright, many faint).
  def source_table
    random = Random.new(@seed)
    half = (field / 2.0 + 40) * SCALE
    stars = (field * field / PIXELS_PER_STAR + 20).times.map do
      across, up = Array.new(2) { random.rand(-half..half) }
      flux = [10 * (1 - random.rand)**(-1 / 1.2), 5000.0].min
      format(" %14.8f %14.8f %12.4f ", CENTRE[0] + across / cosine(CENTRE[1]), CENTRE[1] + up, flux)
    end
    ["|      ra      |     dec      |    flux    |", "|    double    |    double    |   double   |", *stars].join("\n") + "\n"
  end

  # What mMakeImg has to be told of that table.
  def source_columns(path)
    [path, "flux", 4, "EQUJ", 2000, 1, "flux", "gaussian"]
  end

  # FITS header of a tile with its rim.
  def header(tile)
    side = @pixels + 2 * RIM
    middle = (side + 1) / 2.0
    <<~HEADER
      SIMPLE  = T
      BITPIX  = -64
      NAXIS   = 2
      NAXIS1  = #{side}
      NAXIS2  = #{side}
      CTYPE1  = 'RA---TAN'
      CTYPE2  = 'DEC--TAN'
      CRVAL1  = #{format('%.9f', tile.longitude)}
      CRVAL2  = #{format('%.9f', tile.latitude)}
      CRPIX1  = #{middle}
      CRPIX2  = #{middle}
      CDELT1  = -#{SCALE}
      CDELT2  = #{SCALE}
      CROTA2  = #{format('%.6f', tile.rotation)}
      EQUINOX = 2000
      END
    HEADER
  end

  private

  def step
    @pixels - @overlap
  end

  # Side of the whole field, in pixels.
  def field
    (@columns - 1) * step + @pixels
  end

  def cosine(degrees)
    Math.cos(degrees * Math::PI / 180)
  end

  # Offsets of +-50 and tilts of +-20 per tile, made zero on average.
  def make_tiles
    random = Random.new(@seed + 1)
    rotations = Array.new(@images) { random.rand(-2.0..2.0) }
    offsets = centred(random, 50.0)
    tilts_across = centred(random, 20.0)
    tilts_up = centred(random, 20.0)
    Array.new(@images) do |i|
      column, row = i % @columns, i / @columns
      latitude = CENTRE[1] + (row - (@rows - 1) / 2.0) * step * SCALE
      longitude = CENTRE[0] - (column - (@columns - 1) / 2.0) * step * SCALE / cosine(latitude)
      Tile.new(format("tile_%02d_%02d", row, column), longitude, latitude, rotations[i],
               corners(100 + offsets[i], tilts_across[i] / 2, tilts_up[i] / 2))
    end
  end

  def centred(random, limit)
    values = Array.new(@images) { random.rand(-limit..limit) }
    mean = values.sum / values.size
    values.map { |value| value - mean }
  end

  def corners(level, across, upward)
    [[-1, -1], [1, -1], [1, 1], [-1, 1]].map { |x, y| format("%.4f", level + x * across + y * upward) }
  end
end
