# frozen_string_literal: true

require "fileutils"
require "json"
require "minitest/autorun"
require "open3"
require_relative "../support/run_processes"
require_relative "../support/scratch_folder"
require_relative "../support/waiting"

# What has gone through a stream is told while it is open, by `rakudactl status` and `rakudactl top`.
class OpenStreamsTest < Minitest::Test
  include ScratchFolder
  include Waiting

  CTL = File.expand_path("../../bin/rakudactl", __dir__)
  RAKEFILE = <<~'RUBY'
    task(:ticks) { sh "echo one; echo two; until [ -e gate ]; do sleep 0.05; done; echo three" }
    task(:count) { sh "cat > all" }
    stream :lines, from: "ticks", to: "count"
    task default: "count"
  RUBY
  def test_bytes_of_an_open_stream_are_told
    File.write(path("Rakefile"), RAKEFILE)
    pid = Process.spawn(RAKUDA, "-j2", "-q", chdir: @folder, %i[out err] => File::NULL)
    told = []
    wait_for("the bytes of the stream") { (told = streams).first&.fetch("bytes") == 8 }
    assert_equal [{ "stream" => "lines", "bytes" => 8, "records" => 2, "live" => true }], told
    text, = Open3.capture2(CTL, "top", "--text", chdir: @folder)
    assert_match(/^streams: 1 of 1 open, 8 B went through$/, text)
    assert_match(/^  lines: 8 B, 2 records, 1 to 1 tasks$/, text)
  ensure
    FileUtils.touch(path("gate"))
    _, status = Process.wait2(pid)
    assert_predicate status, :success?
    assert_equal "one\ntwo\nthree\n", File.read(path("all"))
  end

  private

  # @return [Array<Hash>] the streams of the run
  def streams
    out, = Open3.capture3(CTL, "status", "--json", chdir: @folder)
    # Before the run has begun there is none.
    (out.empty? ? nil : JSON.parse(out).dig("runs", 0, "streams")) || []
  end
end
