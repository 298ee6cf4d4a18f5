# frozen_string_literal: true

require "tmpdir"

module Shows
  # examples/montage on this machine, and on hosts of a testbed in Gfarm: the same mosaic, if all is well.
  class MontageRun
    RAKEFILE = File.join(ROOT, "examples/montage/Rakefile")
    MOSAIC = "work/mosaic.fits"
    FOLDER = "/srv/gfarm/montage"

    def initialize(values)
      @words = ["N=#{values[:n]}", "PIX=#{values[:pix]}"]
      @limit = values[:limit]
    end

    # With two slots, on this machine's own disk.
    # @return [Array(Float, String)] seconds and the mosaic's SHA-256
    def here
      FileUtils.mkdir_p(File.join(ROOT, "tmp"))
      Dir.mktmpdir("montage-", File.join(ROOT, "tmp")) do |folder|
        started = Shows.clock
        words = ["timeout", "-s", "KILL", @limit.to_s, RAKUDA, "-q", "-f", RAKEFILE, "-j", "2", *@words]
        ended_well = system(*words, chdir: folder, %i[out err] => File.join(folder, "output"))
        raise Stop, "montage failed here:\n#{File.read(File.join(folder, "output"))}" unless ended_well

        [Shows.clock - started, Digest::SHA256.file(File.join(folder, MOSAIC)).hexdigest]
      end
    end

    # A fresh folder, in the testbed's Gfarm or elsewhere on head.
    def clear(bed, folder = FOLDER) = bed.shell("head", "rm -rf #{folder} && mkdir #{folder}")

    # The words of the command for head, to be run in such a folder.
    def words(*options) = [RAKUDA, "-q", "-f", RAKEFILE, *options, *@words]

    # SHA-256 of the mosaic as head reads it, or what is there in its place.
    def digest(bed, folder = FOLDER)
      told = bed.timed("head", "sha256sum", MOSAIC, chdir: folder, limit: 60)
      told[:status].zero? ? told[:out].split.first : "none (#{told[:err].strip.lines.last&.strip || "no answer within 60 s"})"
    end
  end
end
