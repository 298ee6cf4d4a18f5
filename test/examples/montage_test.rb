# frozen_string_literal: true

require_relative "example_helper"
require_relative "../../examples/montage/synthetic_sky"

# examples/montage: the mosaic is right, the same in any order, and its check sees what is wrong.
class MontageExampleTest < ExampleTest
  SMALL = %w[N=3 PIX=128].freeze
  TOOLS = /\bm(MakeImg|SubImage|Imgtbl|MakeHdr|ProjectPP|Overlaps|Diff|Fitplane|BgModel|Background|Add|Shrink|Viewer)\b/

  def test_mosaic_is_the_same_in_any_order
    sums = [[COMMAND, "-j1"], [COMMAND, "-j4"], [%w[rake], "-j1"], [%w[rake -m], "-j4"]].map.with_index do |(command, jobs), i|
      outcome = make_example("montage", jobs, *SMALL, "WORK=work#{i}", command: command)
      assert_includes outcome.output, "sha256 of work#{i}/mosaic.fits: #{sha256("work#{i}", 'mosaic.fits')}"
      sha256("work#{i}", "mosaic.fits")
    end
    assert_equal 1, sums.uniq.size, sums.inspect
  end

  def test_mosaic_is_the_true_sky_and_a_second_run_does_nothing
    first = make_example("montage", "-j4", *SMALL)
    assert_equal "work/mosaic.png", first.lines.last
    assert_equal "\x89PNG".b, File.binread(path("work/mosaic.png"), 4)
    assert_equal "\x89PNG".b, File.binread(path("work/uncorrected.png"), 4)
    refute_equal sha256("work/mosaic.png"), sha256("work/uncorrected.png")
    assert_good_figures(first.output)
    assert_empty half_written_files

    second = assert_second_run_does_nothing("montage", "-j4", *SMALL, commands: TOOLS)
    assert_good_figures(second.output)
  end

  def test_wrong_correction_is_detected
    make_example("montage", "-j4", *SMALL)
    corrections = path("work/corrections.tbl")
    lines = File.readlines(corrections)
    id, a, b, c = lines.last.split
    lines[-1] = format("%9d %14.5e %14.5e %14.5e\n", id.to_i, a.to_f, b.to_f, c.to_f + 5)
    change(corrections, lines.join)

    2.times do
      outcome = run_example("montage", "-j4", *SMALL)
      assert_equal 1, outcome.status, outcome.output
      assert_match(/the mosaic is not the true sky: .*range of block medians is \d+\.\d+, not below 1\.00/, outcome.output)
    end
  end

  def test_truncated_tile_fails_with_a_message_and_is_never_taken_as_good
    whole = make_example("montage", "-j4", *SMALL, "mosaic") && sha256("work/mosaic.fits")
    tile = path("work/raw/tile_01_01.fits")
    FileUtils.rm_rf([path("work/projected"), path("work/mosaic.fits")])
    File.truncate(tile, File.size(tile) / 2)

    2.times do
      outcome = run_example("montage", "-j4", *SMALL)
      assert_equal 1, outcome.status, outcome.output
      assert_match(%r{mProjectPP failed for work/projected/tile_01_01\.fits: \S.* \(exit status 1\)}, outcome.output)
      assert_empty Dir.glob(path("work/projected/tile_01_01*"))
      refute_path_exists path("work/mosaic.fits")
    end

    File.delete(tile)
    make_example("montage", "-j4", *SMALL)
    assert_equal whole, sha256("work/mosaic.fits")
  end

  def test_other_parameters_in_the_same_directory_make_everything_again
    make_example("montage", "-j4", *SMALL, "SEED=2", "mosaic")
    other = sha256("work/mosaic.fits")
    make_example("montage", "-j4", *SMALL, "mosaic")
    refute_equal other, sha256("work/mosaic.fits")
    make_example("montage", "-j4", *SMALL, "SEED=2", "mosaic")
    assert_equal other, sha256("work/mosaic.fits")
  end

  def test_a_number_of_images_that_is_no_square_works_and_clobber_leaves_nothing
    assert_good_figures(make_example("montage", "-j4", "IMAGES=7", "PIX=128").output)
    assert_equal 7, Dir.glob(path("work/projected/tile_??_??.fits")).size
    make_example("montage", "clobber")
    assert_empty Dir.glob(path("work/**/*"))
  end

  def test_tiles_of_the_paper_of_2014_lie_in_rows_and_their_backgrounds_are_level_on_average
    sky = SyntheticSky.new(images: 421, pixels: 128)
    rows = sky.tiles.group_by { |tile| tile.name[/tile_(\d+)/, 1] }.transform_values(&:size)
    assert_equal [21] * 20 + [1], rows.values
    sky.tiles.map { |tile| tile.corners.map(&:to_f) }.transpose.each do |corner|
      assert_in_delta 100, corner.sum / corner.size, 0.001
    end
    assert_operator sky.tiles.map { |tile| tile.rotation.abs }.max, :<=, 2
  end

  private

  # The three figures of the table: small, and far smaller than those of the uncorrected mosaic.
  def assert_good_figures(output)
    ["rms, clipped", "range of block medians", "worst step between blocks"].each do |name|
      row = output[/#{name} +([\d.]+ +[\d.]+)$/, 1]
      refute_nil row, output
      corrected, uncorrected = row.split.map(&:to_f)
      assert_operator corrected, :<, 1.0, name
      assert_operator uncorrected, :>, 20 * corrected, name
    end
  end
end
