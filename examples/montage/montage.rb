# frozen_string_literal: true

require "securerandom"

# Words for a Rakefile that runs the Montage tools: run one and check its answer, give a file its name only when it
# is whole, read and write the tables, judge the residuals. Knows nothing of this mosaic's files or order, but for the
# folder ANSWERS, where the Rakefile wants to have what the tools print.
module Montage
  # Columns that mBgModel wants, as mConcatFit writes them: name, width and digits after the point.
  FIT_COLUMNS = {
    "a" => "%12.5e", "b" => "%12.5e", "c" => "%12.5e", "crpix1" => "%9.2f", "crpix2" => "%9.2f",
    "xmin" => "%6d", "xmax" => "%6d", "ymin" => "%6d", "ymax" => "%6d", "xcenter" => "%9.2f", "ycenter" => "%9.2f",
    "npixel" => "%9.0f", "rms" => "%12.5e", "boxx" => "%12.1f", "boxy" => "%12.1f", "boxwidth" => "%12.1f",
    "boxheight" => "%12.1f", "boxang" => "%12.1f"
  }.freeze
  FIT_HEADER = "| plus|minus|" + FIT_COLUMNS.map { |name, form| name.rjust(form[/\d+/].to_i) + "|" }.join

  RESIDUAL_NAMES = {
    "rms" => "rms, clipped", "block_range" => "range of block medians", "block_step" => "worst step between blocks"
  }.freeze

  # The mosaic is valid within these: largest clipped rms, largest range of the block medians, largest step from one
  # block to the next (a seam), least improvement of the range over the uncorrected mosaic.
  RMS_LIMIT = 1.0
  RANGE_LIMIT = 1.0
  STEP_LIMIT = 1.0
  IMPROVEMENT_LEAST = 20.0
  # The planes are known from tile to tile only, and their small errors add up across the mosaic to a smooth bulge. Up
  # to so many tiles in a row the first two limits hold as they are; beyond, they grow with the square. The limit for
  # seams never does.
  COLUMNS_WITHOUT_BULGE = 8

  # Runs one tool for the task and returns its answer, a line such as [struct stat="OK", count=20]. Fails with
  # the tool's own message when the answer is anything but OK, or the tool says OK and exits otherwise.
  #
  #     montage t, "mMakeHdr", "-n", "raw.tbl", "region.hdr"
  def montage(task, tool, *words)
    log = "#{ANSWERS}/#{tool}_#{File.basename(task.name)}.txt"
    rm_f log, verbose: false
    ended_well, status = nil
    sh(tool, *words.map(&:to_s), out: log) { |ok, result| ended_well, status = ok, result }
    answer = File.exist?(log) ? File.read(log).strip : ""
    return answer if ended_well && answer.include?('stat="OK"')

    message = answer[/msg="([^"]*)"/, 1] || (answer.empty? ? "no answer; is it installed?" : answer)
    raise "#{tool} failed for #{task.name}: #{message} (exit status #{status&.exitstatus.inspect})"
  end

  # Gives a file its name when it is complete, so that whatever bears the name can be trusted, even when
  # the run was killed. Yields the temporary name, which is another one each time: a host can still take one that was
  # renamed elsewhere for a file that is there (docs/guide/clusters.md). Most tools write a second file, of weights,
  # beside the image.
  #
  #     whole("projected/a.fits") { |part| montage t, "mProjectPP", "raw/a.fits", part, "region.hdr" }
  def whole(target)
    # What a run that was killed has left.
    File.delete(*Dir[target.pathmap("%X.part-*%x")])
    part = target.pathmap("%X.part-#{SecureRandom.alphanumeric(6)}%x")
    yield part
    File.rename(area_of(part), area_of(target)) if File.exist?(area_of(part))
    File.rename(part, target)
  ensure
    [part, area_of(part)].each { |left| File.delete(left) if File.exist?(left) }
  end

  # Name of the file of weights that belongs to an image.
  def area_of(image)
    image.pathmap("%X_area%x")
  end

  # Makes the table of the images in a folder. The tool alone would number them in the order in which the file system
  # lists them, which differs from run to run, and with it the last digits of the mosaic: so it gets a sorted list.
  def image_table(task, folder, images)
    names = images.map { |path| File.basename(path) }.sort
    width = names.map(&:size).max
    list = task.name.ext("lst")
    lines = ["|#{'fname'.center(width)}|", "|#{'char'.center(width)}|", *names.map { |name| " #{name} " }]
    File.write(list, lines.join("\n") + "\n")
    whole(task.name) do |part|
      count = answer_values(montage(task, "mImgtbl", "-t", list, folder, part))["count"]
      raise "mImgtbl: #{count} of #{names.size} images of #{folder}" unless count == names.size.to_s
    end
  end

  # Rows of a Montage table, each an array of words.
  def table_rows(path)
    File.readlines(path).reject { |line| line.start_with?("|", "\\") }.map(&:split)
  end

  # Names and values of a tool's answer, as text.
  def answer_values(answer)
    answer.scan(/[ ,](\w+)="?([-+0-9.eE]+|nan)/).to_h
  end

  # One row of the table of fitted planes.
  def fit_row(plus, minus, answer)
    values = answer_values(answer)
    numbers = FIT_COLUMNS.map { |name, form| format(form, values.fetch(name).to_f) }
    format(" %5d %5d ", plus.to_i, minus.to_i) + numbers.join(" ")
  end

  # A table of both residuals, for people.
  def residual_report(corrected, uncorrected)
    rows = RESIDUAL_NAMES.map { |key, text| format("%-28s %12.4f %12.4f\n", text, corrected[key], uncorrected[key]) }
    format("%-28s %12s %12s\n", "mosaic minus true sky", "corrected", "uncorrected") + rows.join
  end

  # What is wrong with a mosaic of so many tiles in a row; empty when nothing is.
  def residual_faults(corrected, uncorrected, columns)
    bulge = [1.0, (columns.to_f / COLUMNS_WITHOUT_BULGE)**2].max
    limits = { "rms" => RMS_LIMIT * bulge, "block_range" => RANGE_LIMIT * bulge, "block_step" => STEP_LIMIT }
    faults = limits.reject { |key, limit| corrected[key] < limit }
                   .map { |key, limit| format("%s is %.2f, not below %.2f", RESIDUAL_NAMES[key], corrected[key], limit) }
    better = uncorrected["block_range"] >= IMPROVEMENT_LEAST * corrected["block_range"]
    faults << "not #{IMPROVEMENT_LEAST.to_i} times better than uncorrected" unless better
    faults
  end
end
